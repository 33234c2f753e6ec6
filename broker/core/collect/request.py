"""What a collection asks for, and the request of each of its pages: one family, of which the first page was decided.

A page differs from the first in the one declared argument, or in path and query that the upstream named itself. It
stays on the same origin, below the same base URL, and carries the same method, headers and body.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject
from broker.core.collect.budget import Wish, budget_of
from broker.core.collect.paging import Astray, Step, first_args, mark_of, names_token
from broker.core.collect.progress import Progress
from broker.core.frozen import Deadlines, FrozenRequest, WalkBound
from broker.core.policy.declarations import PagingKind
from broker.core.policy.model import Operation, Policy
from broker.core.policy.places import steps_of
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.core.urls import canonical_url

LEAST_S = 0.05
_BY_URL = frozenset({PagingKind.LINK_HEADER, PagingKind.BODY_URL})


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectAsk:
    """A declared read, to be walked to its end or until the budget is used up. `cursor` goes on with an earlier one."""

    service: str
    operation: str
    args: JsonObject = field(default_factory=dict)
    wish: Wish = field(default_factory=Wish)
    cursor: str | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A walk that was cut: what is known so far, and how its next page is asked for."""

    anchor_id: str
    service: str
    operation: str
    args: JsonObject  # as the agent gave them
    credential: str | None
    credential_version: int | None
    policy_digest: str
    vault_term: int
    progress: Progress
    step: Step
    previous_url: str  # what a relative URL of the step is relative to
    kept_at_ms: int


def resolve_collect(policy: Policy, ask: CollectAsk, kept: Kept | None) -> FrozenRequest | Invalid:
    """The request that a human is asked about: the first page, or of a continued walk the next one."""
    first = _first(policy, ask)
    if isinstance(first, Invalid) or ask.cursor is None:
        return first
    if kept is None or kept.policy_digest != policy.digest:
        told = "The cursor is not one of this agent's walks, or too old: begin the collection without it."
        return Invalid(code="schema", message=told)
    if (kept.service, kept.operation, kept.args) != (ask.service, ask.operation, ask.args):
        return Invalid(code="schema", message="The cursor belongs to a collection with other arguments.")
    page = page_of(policy, first, kept.step, previous_url=kept.previous_url)
    return Invalid(code="schema", message=page.message) if isinstance(page, Astray) else page


def page_of(policy: Policy, first: FrozenRequest, step: Step, *, previous_url: str) -> FrozenRequest | Astray:
    """The request of the page that a step leads to."""
    page = _by_url(first, step.url, previous_url) if step.url is not None else _by_args(policy, first, step.args or {})
    if isinstance(page, Astray) or is_family(first, page):
        return page
    return Astray(message="The next page's request would be another one than what was decided about.")


def is_family(first: FrozenRequest, page: FrozenRequest) -> bool:
    """Whether a page is covered by the decision about the first one."""
    declared = first.declared
    if _same_parts(first) != _same_parts(page) or page.effect is not Effect.READ or page.walk is None:
        return False
    if declared is None or declared.pagination is None:
        return first.digest == page.digest
    if declared.pagination.kind in _BY_URL:
        return first.body == page.body and f"{page.path}/".startswith(f"{first.service.base_path}/")
    param = declared.pagination.param
    return first.path == page.path and _without(first.args, param) == _without(page.args, param)


def within(frozen: FrozenRequest, left_s: float) -> FrozenRequest:
    """The same request with no more time than is left."""
    usual, left = frozen.deadlines, max(left_s, LEAST_S)
    return replace(
        frozen,
        deadlines=Deadlines(
            connect_s=min(usual.connect_s, left),
            write_s=min(usual.write_s, left),
            first_byte_s=min(usual.first_byte_s, left),
            total_s=min(usual.total_s, left),
        ),
    )


def is_by_url(operation: Operation) -> bool:
    return operation.pagination is not None and operation.pagination.kind in _BY_URL


def url_mark(frozen: FrozenRequest) -> str:
    return mark_of(frozen.url)


def _same_parts(one: FrozenRequest) -> tuple[object, ...]:
    origin = (one.url.partition("://")[0], one.host, one.port)
    return (one.service, one.operation, one.declared, one.method, origin, one.effect, one.headers, one.walk)


def _without(args: JsonObject, place: str | None) -> JsonObject:
    steps = () if place is None else steps_of(place)
    if not steps or steps[0] not in args:
        return args
    rest = {name: value for name, value in args.items() if name != steps[0]}
    below = args[steps[0]]
    if len(steps) == 1 or not isinstance(below, Mapping):
        return rest
    left = _without(below, ".".join(steps[1:]))
    return {**rest, steps[0]: left} if left else rest


def _first(policy: Policy, ask: CollectAsk) -> FrozenRequest | Invalid:
    service = policy.services.get(ask.service)
    declared = None if service is None else service.operations.get(ask.operation)
    args = ask.args if declared is None else first_args(declared, ask.args)
    frozen = _resolved(policy, ask, args)
    if isinstance(frozen, Invalid) or declared is None:
        return frozen
    if frozen.is_write or frozen.method == "HEAD":
        return Invalid(code="schema", message="Only what reads is collected; ask for a change by itself.")
    if names_token(declared, ask.args):
        told = "The collection itself turns the pages: leave out the argument that names one, or give a cursor."
        return Invalid(code="schema", message=told)
    budget = budget_of(ask.wish, declared.limits)
    return replace(frozen, walk=WalkBound(budget=budget, cursor=ask.cursor))


def _resolved(policy: Policy, ask: CollectAsk, args: JsonObject) -> FrozenRequest | Invalid:
    return resolve(policy, HttpAsk(service=ask.service, operation=ask.operation, args=args, deadlines=ask.deadlines))


def _by_args(policy: Policy, first: FrozenRequest, args: JsonObject) -> FrozenRequest | Astray:
    name = "" if first.declared is None else first.declared.name
    ask = HttpAsk(service=first.service.name, operation=name, args=args, deadlines=first.deadlines)
    page = resolve(policy, ask)
    if isinstance(page, Invalid):
        return Astray(message="The next page's token is nothing that the operation can send.")
    return replace(page, walk=first.walk)


def _by_url(first: FrozenRequest, named: str, previous_url: str) -> FrozenRequest | Astray:
    """An upstream's own URL leads to its own origin and below the service's base URL, or nowhere."""
    if any(segment in {".", ".."} for segment in named.partition("?")[0].split("/")):
        return Astray(message="The URL of the next page holds a dot segment; it was not followed.")
    try:
        url = canonical_url(urljoin(previous_url, named))
    except ValueError:
        return Astray(message="The URL of the next page can't be read in one way only.")
    if url.origin != canonical_url(first.url).origin:
        return Astray(message="The URL of the next page leads to another origin; it was not followed.")
    if not f"{url.path}/".startswith(f"{first.service.base_path}/"):
        return Astray(message="The URL of the next page leads out of the service's base URL; it was not followed.")
    return replace(first, url=url.url, path=url.path, query=url.query)
