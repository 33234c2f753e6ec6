"""A market with lists to walk, a policy that lets everybody, and walks driven without a daemon."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker.contract.reasons import ApprovalRule, Effect
from broker.contract.wire import JsonValue
from broker.core.classify.order import classify
from broker.core.collect.budget import Wish
from broker.core.collect.ending import Ending, concluded
from broker.core.collect.page import read_page
from broker.core.collect.request import CollectAsk, Kept, resolve_collect
from broker.core.collect.walk import On, Over, Plain, after, begun
from broker.core.frozen import FrozenRequest
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import CompletenessDecl, Pagination, PagingKind, Scope, Stability
from broker.core.policy.model import Operation, Policy, Rule
from tests.fakes import market

ROWS = CompletenessDecl(items="json.items", id="id")
Answering = Callable[[FrozenRequest], RawOutcome]


def listing(
    paging: Pagination | None, completeness: CompletenessDecl | None = ROWS, *, method: str = "GET", **more: object
) -> Operation:
    """`things.list`, paged as told."""
    usual: dict[str, object] = {"query": ("q", "page", "size"), "pagination": paging, "completeness": completeness}
    return market.operation("things.list", method, "/things", Effect.READ, **(usual | more))


def policy_with(operation: Operation, *rules: Rule, approval: ApprovalRule = ApprovalRule.NONE) -> Policy:
    shop = market.POLICY.services["market"]
    shop = replace(shop, operations={**shop.operations, operation.name: operation})
    rule = Rule(id="lists", approval=approval, operations=(operation.name,), place=market.PLACE)
    policy = market.POLICY
    return replace(policy, services={**policy.services, "market": shop}, rules=(*policy.rules, rule, *rules))


def collecting(
    *, args: Mapping[str, JsonValue] | None = None, cursor: str | None = None, **wish: int | None
) -> CollectAsk:
    return CollectAsk(service="market", operation="things.list", args=args or {}, wish=Wish(**wish), cursor=cursor)


def page(rows: list[Any], *headers: tuple[str, str], status: int = 200, **more: Any) -> RawOutcome:
    return market.answered(status, json.dumps({"items": rows, **more}).encode(), *headers)


def things(*ids: int) -> list[dict[str, int]]:
    return [{"id": one} for one in ids]


@dataclass
class Seen:
    """What one call came to. `plain` where its first request failed and stands for itself."""

    rows: list[JsonValue] = field(default_factory=list)
    asked: list[FrozenRequest] = field(default_factory=list)
    ending: Ending | None = None
    kept: Kept | None = None

    @property
    def codes(self) -> list[str]:
        assert self.ending is not None
        return [one.code.value for one in self.ending.completeness.reasons]

    @property
    def complete(self) -> bool:
        assert self.ending is not None
        return self.ending.completeness.complete

    @property
    def ids(self) -> list[Any]:
        return [row["id"] for row in self.rows]  # type: ignore[index, call-overload]  # rows of tests are objects


def walk_it(
    operation: Operation,
    upstream: Answering,
    *,
    kept: Kept | None = None,
    args: Mapping[str, JsonValue] | None = None,
    page_ms: int = 1,
    **wish: int | None,
) -> Seen:
    """One call: each page by the rules of the core, and nothing else."""
    policy = policy_with(operation)
    ask = collecting(args=args, cursor=None if kept is None else "cur_" + "0" * 32, **wish)
    frozen = resolve_collect(policy, ask, kept)
    assert isinstance(frozen, FrozenRequest), frozen
    walk, seen, ms = begun(frozen, kept, now_ms=0), Seen(), 0
    while True:
        seen.asked.append(walk.asked)
        raw = upstream(walk.asked)
        ms += page_ms
        classified = classify(walk.asked, raw, now_ms=0)
        verdict, read = classified.verdict, read_page(operation, walk.asked, raw, classified.completeness)
        move = after(walk, verdict, read, is_clean=True, elapsed_ms=ms, policy=policy)
        if isinstance(move, Plain):
            return seen
        if isinstance(move, On) and move.begins_anew:
            seen.rows.clear()
        elif isinstance(move, On) or move.counted:
            seen.rows += read.rows or ()
        walk = move.walk
        if isinstance(move, Over):
            break
    seen.ending = concluded(operation, walk.progress, move.cause, args=walk.args, returned=len(seen.rows))
    if seen.ending.keeps_place and move.step is not None:
        seen.kept = Kept(
            anchor_id="a",
            service="market",
            operation=operation.name,
            args=ask.args,
            credential=None,
            credential_version=None,
            policy_digest=policy.digest,
            vault_term=1,
            progress=walk.progress,
            step=move.step,
            previous_url=walk.asked.url,
            kept_at_ms=0,
        )
    return seen


def by_token(stability: Stability = Stability.NONE, **more: Any) -> Pagination:
    usual: dict[str, Any] = {"kind": PagingKind.BODY_TOKEN, "token": "json.next", "param": "page"}
    return Pagination(**(usual | more), stability=stability)


def snapshot_scope() -> Scope:
    return Scope(resource="things", snapshot="json.version")
