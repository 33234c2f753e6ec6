"""What an operation may declare beside its request: how lists are walked, what completeness, retries and logins mean.

Values only, each small and whole; parsed elsewhere, and carried out elsewhere. A place in an answer is a plain dotted
path, such as `headers.retry-after` or `json.data.id`; a part with other characters is quoted: `json."@odata.nextLink"`.
"""

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from types import MappingProxyType

from broker.contract.reasons import IncompleteCode, Retry, WarningCode
from broker.contract.wire import JsonObject, JsonValue
from broker.core.policy.place import Place
from broker.core.predicate import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Where a wait is told. kind: http_retry_after | delta_s | epoch_s | epoch_ms | sf_param.

    The last is a structured field (RFC 9651) that tells it in seconds as `parameter` of its first member.
    """

    path: str
    kind: str
    parameter: str = "t"


class PagingKind(StrEnum):
    NONE = "none"  # the answer is all there is
    LINK_HEADER = "link_header"  # a Link header with a relation
    NEXT_HEADER = "next_header"  # a header that holds the next token
    BODY_TOKEN = "body_token"  # noqa: S105 - a word of the policy language
    BODY_URL = "body_url"
    OFFSET = "offset"
    LAST_ITEM_ID = "last_item_id"  # the id of the last row is the next token


class PagingEnd(StrEnum):
    """How the last page shows itself."""

    ABSENT = "absent"  # no token, or null
    PRESENT_AND_EMPTY = "present_and_empty"  # "", {} or []; a missing token is a broken answer
    VALUES = "values"  # one of `end_values`, of which null stands for a missing token as well
    TOKEN_REPEATS = "token_repeats"  # noqa: S105 - a word of the policy language
    NO_ROWS = "no_rows"  # a page without rows, whatever it names as the next; each page names one


class Stability(StrEnum):
    NONE = "none"
    SNAPSHOT = "snapshot"
    KEYSET = "keyset"


class Visibility(StrEnum):
    FULL = "full"
    FILTERED = "filtered"  # never backs a claim of absence


class Consistency(StrEnum):
    STRONG = "strong"
    EVENTUAL = "eventual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pagination:
    """How one page leads to the next. `param` is the argument that takes the token (dotted within a body argument).

    For `offset` it takes the number of rows so far, or with `counts_pages` the number of the page, from `first` on, or
    with `counts_size` how many were asked for so far, whatever came.
    """

    kind: PagingKind
    token: str | None = None  # a place; of link_header the relation
    param: str | None = None
    end: PagingEnd = PagingEnd.ABSENT
    end_values: tuple[JsonValue, ...] = ()
    end_error_when: Predicate | None = None  # an error that means: this window is not served any further
    expired_when: Predicate | None = None  # an error that means: the token is too old
    restarts: bool = False  # after that the walk begins anew, and nothing of two snapshots is merged
    stability: Stability = Stability.NONE
    size_param: str | None = None  # the argument that says how many rows a page holds
    size: int | None = None  # what that argument is where the agent names none, or what the upstream takes for it
    counts_pages: bool = False
    counts_size: bool = False
    first: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteRule:
    """A sign in the answer that something is missing. Of these all that match are told."""

    when: Predicate
    code: IncompleteCode
    retry: Retry | None = None  # default by the code


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletenessDecl:
    """How one can tell that an answer holds everything, and where its rows and their ids stand.

    `items` is a place of a list, `*` in it standing for each member of one on the way; `id` is a place within a row.
    """

    complete_when: Predicate | None = None
    incomplete_when: tuple[IncompleteRule, ...] = ()
    total: str | None = None
    estimated: bool = False  # the total is no more than an estimate
    cap: int | None = None  # the upstream serves no more rows than this, whatever the total
    full_page_means_cut: bool = False  # as many rows as were asked for may be a cut
    over_ask: int = 0  # so many rows more than the agent names are asked for, to see whether there are more
    visibility: Visibility = Visibility.FULL
    consistency: Consistency = Consistency.STRONG
    max_age_s: int | None = None  # an answer whose Age is above it is stale
    never_provable: bool = False
    items: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a list is a list of. `snapshot` is a place in the answer that names the version it was taken of."""

    resource: str = ""
    default_region: str | None = None
    snapshot: str | None = None
    defaults: tuple[str, ...] = ()  # what the upstream leaves out by itself, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Bounds of one call or walk, tighter than the broker's own. None leaves the broker's."""

    max_pages: int | None = None
    max_items: int | None = None
    max_bytes: int | None = None
    connect_s: float | None = None
    write_s: float | None = None
    first_byte_s: float | None = None
    total_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One request that names many items, each with a fate of its own.

    The predicates are over `item`, a member of one of `items`. What stands in `failed_items` has failed; what stands
    in `items` is held to `item_ok`. `request_count` is the argument whose members were sent: items that no answer
    accounts for are unknown.
    """

    items: str | None = None
    item_ok: Predicate | None = None
    item_retry: Predicate | None = None
    item_delay: tuple[Delay, ...] = ()
    failed_items: str | None = None
    resubmit_path: str | None = None  # what was not tried, in the shape that is sent again
    request_count: str | None = None
    names_failures_only: bool = False  # how many were well is not told


@dataclass(frozen=True, slots=True, kw_only=True)
class Async:
    """Work that is accepted and not finished: where it can be looked up, and what that answer says."""

    poll: tuple[str, ...] = ()  # places of a URL; the first that is there
    done_when: Predicate | None = None
    failed_when: Predicate | None = None
    delay: tuple[Delay, ...] = ()
    default_s: int = 10


class IdempotencyKind(StrEnum):
    NONE = "none"
    KEY = "key"  # a key of the broker's, which the upstream honours
    NATURAL = "natural"  # the request says the whole state; twice is once
    PRECONDITION = "precondition"  # a version that the request names


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """What a repeat of the same request does. The key goes into `header`, or into the argument `param`."""

    kind: IdempotencyKind = IdempotencyKind.NONE
    header: str | None = None
    param: str | None = None
    window_s: int | None = None
    replays_errors: bool = False  # the upstream keeps an error for a key as well: a repeat gets it again
    replay_forbidden: bool = False  # never send it again, whatever came of it
    replay_ok_when: Predicate | None = None
    replay_marker: Predicate | None = None
    in_progress_when: Predicate | None = None
    mismatch_when: Predicate | None = None
    absent_is_success: bool = False  # a deletion of what is not there

    @property
    def has_key(self) -> bool:
        """Whether a change goes out under a key of the broker's."""
        return self.kind is IdempotencyKind.KEY

    @property
    def key_header(self) -> str | None:
        """The header in which such a key travels; None where there is none, or it is an argument."""
        return self.header if self.has_key else None

    @property
    def key_param(self) -> str | None:
        """The argument that is the key: the broker's to give, and nobody else's."""
        return self.param if self.has_key else None

    @property
    def may_be_safe(self) -> bool:
        """Whether there are requests that may be sent again while it is unknown what came of them."""
        return self.kind is not IdempotencyKind.NONE and not self.replay_forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """What refusals of the credential look like. `challenge` and `human_remedy` are places."""

    masked_statuses: tuple[int, ...] = ()  # may mean: it is there, and not shown to this credential
    challenge: str | None = None
    login_redirect: tuple[str, ...] = ()  # paths of a login page; * stands for any run of characters
    clock_codes: tuple[str, ...] = ()  # error codes that mean: the clocks differ
    clock_code: str | None = None  # where those stand
    human_remedy: tuple[str, ...] = ()


class Follow(StrEnum):
    NEVER = "never"
    SAME_HOST_GET_ONLY = "same_host_get_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A credential never goes to another host, whatever is declared."""

    follow: Follow = Follow.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Statuses by which whoever stands in front says that it did not hand the request on."""

    reject_proof: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningRule:
    """A warning that goes with an answer. Whoever owns it looks at it again by `review_by`."""

    when: Predicate
    code: WarningCode
    owner: str | None = None
    review_by: date | None = None
    place: Place = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSchema:
    """A JSON Schema (2020-12) that the body of a success has to keep. `text` is its JSON."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """How the operation shows itself as a tool of MCP. The words are the administrator's, for a model to read."""

    expose: bool = True
    name: str | None = None  # else the operation's own
    description: str = ""


class Claim(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"


class Otherwise(StrEnum):
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceNeed:
    """What a rule wants to be known before a change: a complete collection, and where the targets stand in it.

    A `{name}` within a string of `args` and `covers` stands for that argument of the request.
    """

    operation: str  # of the same service
    args: JsonObject = field(default_factory=lambda: MappingProxyType({}))
    claim: Claim
    covers: str
    id: str  # a place within a row; `json.id` and `id` are the same
    max_age_s: int = 900
    refuse_warnings: tuple[WarningCode, ...] = ()
    otherwise: Otherwise = Otherwise.DENY


@dataclass(frozen=True, slots=True, kw_only=True)
class Precheck:
    """A read just before the change, and what its answer has to be. `$name` in `expect` stands for an argument."""

    operation: str
    args: JsonObject = field(default_factory=lambda: MappingProxyType({}))
    expect: str
