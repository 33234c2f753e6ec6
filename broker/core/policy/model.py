"""The policy as values: rules, agents, limits, services, operations. Parsed elsewhere; decides nothing itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from broker.contract.reasons import ApprovalRule, Category, Effect, IncompleteCode, RemoteEffect, Retry, WarningCode
from broker.contract.wire import JsonObject
from broker.core.policy.declarations import (
    Async,
    Auth,
    Batch,
    CallLimits,
    CompletenessDecl,
    Delay,
    EvidenceNeed,
    Gateway,
    Idempotency,
    McpTool,
    Pagination,
    Precheck,
    Redirect,
    ResponseSchema,
    Scope,
    WarningRule,
)
from broker.core.policy.hours import Moment, Window, is_within
from broker.core.policy.place import Place
from broker.core.predicate import Predicate
from broker.core.ssh.model import SshSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgram:
    """A program that [agents] names. `exe` and `argv` are glob patterns; argv is the process's own word."""

    name: str
    exe: str
    argv: str | None = None
    sha256: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. An empty matcher matches everything; members of a matcher are alternatives, matchers all must hold."""

    id: str
    approval: ApprovalRule
    reason: str = ""
    agents: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    destructive: bool | None = None
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    hours: tuple[Window, ...] = ()
    shell: bool = False  # `commands` may hold shell syntax, and then match letter for letter
    input: bool = False  # of a rule that asks nobody: its commands may be given input, and a terminal
    options: bool = False  # of a rule that asks nobody: `*` may stand for words that begin with a dash
    max_uses: int = 200
    max_age_s: int = 3600
    per: str = "rule"  # rule | operation | service
    expires_s: int = 120
    arming_ms: int = 1500
    in_doubt: str = "refuse"  # refuse | ask
    evidence: EvidenceNeed | None = None
    precheck: Precheck | None = None
    place: Place

    @property
    def takes_options(self) -> bool:
        """Whether `*` in its commands may be an option. A human sees it; where nobody is asked, the rule says so."""
        return self.options or self.approval is not ApprovalRule.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the whole policy: prompts, grants, bodies."""

    prompts_per_minute: int = 8
    pending_cards: int = 30
    requests_per_minute: int = 1_000_000  # by rule; more than this machine serves, until a policy says less
    max_uses: int = 1000
    max_age_s: int = 28_800
    body_bytes: int = 262_144
    denial_memory_s: int = 600
    idle_lock_s: int = 28_800  # the vault is locked when it was not used for so long


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRule:
    """An entry of `errors`: what an answer that fits means. `use_rate_limit` hands over to the rate-limit block."""

    when: Predicate
    category: Category | None = None
    code: str | None = None
    retry: Retry | None = None
    remote_effect: RemoteEffect | None = None
    use_rate_limit: bool = False
    floor_s: int | None = None
    warn: tuple[WarningCode, ...] = ()  # what the envelope warns of when this rule speaks
    reasons: tuple[IncompleteCode, ...] = ()  # what is missing from such an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    when: Predicate | None = None
    delays: tuple[Delay, ...] = ()
    default_s: int = 60
    floor_s: int = 1
    max_wait_s: int = 900
    pace_from: Delay | None = None  # how long to wait before the next call, told in an answer that is good


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The id that a successful answer has to carry. type: string | integer.

    `must_equal` is the argument whose value it has to be: the answer is about what was asked for, or is broken.
    """

    path: str
    type: str = "string"
    must_equal: str | None = None


KEY_NAME: Final = "idempotency_key"  # in a read-back: the key under which the change went out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """How an unknown outcome is settled: one declared read, and a predicate text that selects our object in its answer.

    In `args` a `{name}` within a string stands for that argument of the original request, in `match` a `$name` does;
    the latter is bound as a literal before compilation (core/predicate.py: `compile_selection`). An empty answer of
    that read proves absence only where its `complete_when` holds.
    """

    operation: str
    args: JsonObject
    match: str
    not_before_s: int = 0
    one_proves: bool = True  # exactly one match is the change
    none_proves: bool = True  # none in a whole answer is a change that was not made


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A named, declared action of a service. `path` is a template with `{argument}` segments.

    `query` and `body` name the arguments that may travel there; `body = None` means that the operation takes none.
    `fixed_query` and `fixed_headers` are sent with every request of the operation, and tell it from others whose
    method and path are the same. `refused_words` are words that an argument may not hold anywhere: a GraphQL document
    of a read has no `mutation` in it.
    """

    name: str
    method: str
    path: str
    effect: Effect
    query: tuple[str, ...] = ()
    body: tuple[str, ...] | None = None
    body_free: bool = False  # any JSON object is allowed as the body
    body_raw: bool = False  # the body is bytes of `body_media`, and no argument of it has a name
    body_media: str = "application/json"  # or application/x-www-form-urlencoded; of a raw body any
    required: tuple[str, ...] = ()  # of query and body; arguments of the path always are
    refused_words: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    fixed_query: tuple[tuple[str, str], ...] = ()
    fixed_headers: tuple[tuple[str, str], ...] = ()
    destructive: bool = False
    title: str = ""
    targets: tuple[str, ...] = ()
    change_key: tuple[str, ...] | None = None
    success_statuses: tuple[int, ...] = ()
    success_when: Predicate | None = None
    media: tuple[str, ...] = ()
    identity: Identity | None = None
    errors: tuple[AnswerRule, ...] = ()
    rate_limit: RateLimit | None = None
    reconcile: ReadBack | None = None
    response_headers: tuple[str, ...] = ()
    response_schema: ResponseSchema | None = None
    body_required: bool = False
    end_marker: str | None = None  # what a whole text body ends with
    lenient_media: bool = False  # JSON under another media type is read as JSON
    completeness: CompletenessDecl | None = None
    pagination: Pagination | None = None
    scope: Scope | None = None
    limits: CallLimits = field(default_factory=CallLimits)
    batch: Batch | None = None
    asynchronous: Async | None = None  # spelled `async` in the file
    idempotency: Idempotency = field(default_factory=Idempotency)
    auth: Auth = field(default_factory=Auth)
    redirect: Redirect = field(default_factory=Redirect)
    gateway: Gateway = field(default_factory=Gateway)
    warnings: tuple[WarningRule, ...] = ()
    mcp: McpTool | None = None
    place: Place

    @property
    def complete_when(self) -> Predicate | None:
        """A list whose answer fulfils this holds everything there is."""
        return None if self.completeness is None else self.completeness.complete_when

    @property
    def max_bytes(self) -> int | None:
        return self.limits.max_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Trust for one service besides the system's: a CA file's PEM text, or the SHA-256 of the leaf's public key."""

    ca_pem: str | None = None
    pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """An upstream. `base_url` is canonical: scheme://host[:port][/path], no trailing slash."""

    name: str
    base_url: str
    scheme: str
    host: str
    port: int
    base_path: str  # "" or "/api/v3"
    credential: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    ad_hoc: tuple[str, ...] = ()
    probe: str | None = None  # the read that tells whether the credential is valid
    tls: Tls = field(default_factory=Tls)
    operations: Mapping[str, Operation] = field(default_factory=lambda: MappingProxyType({}))
    ssh: SshSettings | None = None  # set for a service of kind "ssh", whose operations stand there
    place: Place

    @property
    def places(self) -> tuple[str, ...]:
        """What a credential of the service has to be bound to."""
        if self.ssh is None:
            return (self.base_url,)
        hosts = self.ssh.hosts.values()
        return tuple(sorted({one.url for host in hosts for one in (*host.jump, host)}))

    def bound_as(self, url: str) -> str:
        """What a credential would have to be bound to, as far as the policy itself names it."""
        return self.base_url if self.ssh is None else url


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything in force. `digest` is `sha256:<hex>` over the names and bytes of the files it was read from."""

    digest: str
    rules: tuple[Rule, ...] = ()
    services: Mapping[str, Service] = field(default_factory=lambda: MappingProxyType({}))
    agents: Mapping[str, AgentProgram] = field(default_factory=lambda: MappingProxyType({}))
    limits: Limits = field(default_factory=Limits)
    limit_places: Mapping[str, Place] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    resting: tuple[Rule, ...] = ()  # rules outside of their hours, which say nothing

    def at(self, moment: Moment) -> "Policy":
        """The policy as it is at this moment of the week: rules outside of their hours rest."""
        if not any(rule.hours for rule in self.everything):
            return self
        speaking = tuple(rule for rule in self.everything if is_within(rule.hours, moment))
        resting = tuple(rule for rule in self.everything if not is_within(rule.hours, moment))
        return replace(self, rules=speaking, resting=resting)

    @property
    def everything(self) -> tuple[Rule, ...]:
        """All rules, those that rest among them."""
        return (*self.rules, *self.resting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """No human is needed."""

    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A human is asked, once per session or per call. `rule` governs what a yes covers."""

    rule: Rule
    rules: tuple[str, ...]

    @property
    def per_call(self) -> bool:
        return self.rule.approval is ApprovalRule.PER_CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """`code` is no_rule or rule_denied. `place` is where a human would look, if anywhere: the agent is not told."""

    code: str
    rules: tuple[str, ...]
    place: Place | None = None


Decision: TypeAlias = Allow | Ask | Deny
