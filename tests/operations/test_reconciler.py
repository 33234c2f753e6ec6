"""Reconciling: what a read-back proves, and that everything else leaves the doubt as it is."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.contract.result import GateReport
from broker.core.events import EventName
from broker.core.ledger import Attempt, AttemptState
from broker.core.reply import Result, Unrecorded
from broker.core.resolve import HttpAsk
from broker.core.ssh.resolve import LookUpAsk
from broker.operations.ledger import LedgerStore
from broker.operations.reconcile import Errand, Reconciler, settled_by_human
from tests.fakes import market
from tests.fakes.attempts import ENVELOPE, OP, OTHER, attempt, opened
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.policies import policy_of
from tests.fakes.policy_port import HeldPolicy

UNKNOWN = {**ENVELOPE, "category": "outcome_unknown", "code": "first_byte_timeout"}
GATE = {"vault": "ready", "session": "granted", "call": "not_needed", "rules": ["free"], "policy": None}
SHOP = """
[services.market]
kind = "http"
base_url = "https://market.example"

[services.market.operations."orders.list"]
request = { method = "GET", path = "/orders", query = ["shop", "page", "note"] }
effect = "read"

[services.market.operations."orders.list".completeness]
complete_when = "json.more == `false`"
examples.match = [{ status = 200, json = { more = false } }]
examples.no_match = [{ status = 200, json = { more = true } }]

[services.market.operations."orders.create"]
request = { method = "POST", path = "/orders", body = ["name", "count"] }
effect = "write"

[services.market.operations."orders.create".reconcile]
operation = "orders.list"
args = { page = "{count}", note = "by {name}", shop = 7 }
match = "json.orders[?name == $name]"
not_before_s = 1
"""


class Room:
    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self.audit = MemoryAudit()
        self.clock = SetClock()
        self.clock.passed_ms = 10_000_000
        self.policies = HeldPolicy(policy_of(SHOP))
        self.reconciler = Reconciler(ledger=store, policies=self.policies, audit=self.audit, clock=self.clock)
        self.asked: list[tuple[HttpAsk | LookUpAsk, str]] = []
        self.answer: dict[str, Any] = {}
        self.meanwhile: Any = None

    async def read_again(self, ask: HttpAsk | LookUpAsk, previous: str) -> dict[str, Any]:
        self.asked.append((ask, previous))
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.answer

    async def settle(self, known: Attempt) -> dict[str, Any]:
        errand = Errand(correlation_id=OTHER, caller=market.agent(), attempt=known, gate=GateReport())
        outcome = await self.reconciler.settle(errand, self.read_again)
        assert isinstance(outcome, Result | Unrecorded)
        return dict(outcome.envelope)

    def names(self) -> list[str]:
        return self.audit.names(OTHER)


def told(category: str = "success", *, orders: Any = (), complete: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "category": category,
        "code": "ok",
        "retry": "never",
        "message": "canary",
        "gate": GATE,
        "retry_after_s": None,
        "next": {"action": "none", "command": None},
        "completeness": {"complete": complete},
        "http": {"status": 200, "body_json": {"orders": list(orders), "more": not complete}},
        **more,
    }


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    store = opened(tmp_path / "ledger.db", SetClock())
    yield Room(store)
    store.close()


async def doubtful(room: Room, **changes: Any) -> Attempt:
    await room.store.begin(attempt(**changes))
    await room.store.finish(OP, in_doubt=True, envelope=UNKNOWN)
    found = await room.store.by_id(OP)
    assert found is not None
    return found


def gist(envelope: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(envelope[name]) for name in ("category", "code", "retry", "remote_effect"))


MINE = {"name": "canary-argument"}
STAYS = ("outcome_unknown", "first_byte_timeout", "after_human", "unknown")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (told(orders=[MINE, {"name": "b"}]), ("success", "reconciled", "never", "applied")),
        (told(orders=[MINE], complete=False), ("success", "reconciled", "never", "applied")),
        (told("partial", orders=[MINE], complete=False), ("success", "reconciled", "never", "applied")),
        (told(orders=[{"name": "b"}]), ("confirmed_failure", "not_found", "never", "none")),
        (told(orders=[]), ("confirmed_failure", "not_found", "never", "none")),
        (told(orders=[], complete=False), STAYS),
        (told("partial", orders=[]), STAYS),
        (told(orders=[MINE, MINE]), STAYS),
        (told(completeness=None), STAYS),
        (told(http=None), STAYS),
        (told(http={"status": 200, "body": "text"}), STAYS),
        (told(http={"status": 200, "body_json": {"orders": "none"}}), STAYS),
        (told("outcome_unknown"), STAYS),
        (told("authentication_failed"), STAYS),
        (told("malformed_response"), STAYS),
    ],
)
async def test_a_read_back_settles_by_its_match_alone(room: Room, answer: Any, expected: tuple[str, ...]) -> None:
    room.answer = answer
    envelope = await room.settle(await doubtful(room))

    assert expected == gist(envelope)
    assert (OTHER, OP, "write") == (
        envelope["correlation_id"],
        envelope["previous_correlation_id"],
        envelope["effect"],
    )
    left = await room.store.by_id(OP)
    assert left is not None
    settled = expected != STAYS
    assert (AttemptState.SETTLED if settled else AttemptState.IN_DOUBT) is left.state
    middle = ["reconcile.settled"] if settled else []
    assert ["reconcile.started", *middle, "action.result"] == room.names()
    if not settled:
        assert "settle" in envelope["next"]["command"] or "operations" in envelope["next"]["command"]


async def test_a_read_back_may_ask_for_the_key_under_which_the_change_went_out(room: Room) -> None:
    text = SHOP.replace('note = "by {name}"', 'note = "{idempotency_key}"').replace("?name == $name", "?key == $key")
    text = text.replace("$key", "$idempotency_key") + '[services.market.operations."orders.create".idempotency]\n'
    room.policies.policy = policy_of(f'{text}kind = "key"\nheader = "idempotency-key"\nwindow_s = 60\n')
    room.answer = told(orders=[{"key": "dw-1"}, {"key": "dw-2"}])
    envelope = await room.settle(await doubtful(room, idempotency_key="dw-1"))

    assert ("success", "reconciled", "never", "applied") == gist(envelope)
    asked, _ = room.asked[0]
    assert isinstance(asked, HttpAsk)
    assert "dw-1" == (asked.args or {})["note"]


@pytest.mark.parametrize(
    ("decides", "orders", "expected"),
    [
        ('one = "unknown"', [MINE], STAYS),
        ('one = "unknown"', [], ("confirmed_failure", "not_found", "never", "none")),
        ('none = "unknown"', [], STAYS),
        ('none = "unknown", many = "unknown"', [MINE], ("success", "reconciled", "never", "applied")),
        ("", [], ("confirmed_failure", "not_found", "never", "none")),
    ],
)
async def test_a_number_of_matches_may_be_declared_to_prove_less(
    room: Room, decides: str, orders: list[Any], expected: tuple[str, ...]
) -> None:
    room.policies.policy = policy_of(f"{SHOP}decides = {{ {decides} }}\n")
    room.answer = told(orders=orders)

    assert expected == gist(await room.settle(await doubtful(room)))


async def test_the_read_back_asks_with_the_attempts_own_arguments(room: Room) -> None:
    room.answer = told(orders=[MINE])
    await room.settle(await doubtful(room))

    ((ask, previous),) = room.asked
    assert isinstance(ask, HttpAsk)
    assert ("market", "orders.list", OP) == (ask.service, ask.operation, previous)
    assert {"page": 1.5, "note": "by canary-argument", "shop": 7} == ask.args


@pytest.mark.parametrize(
    ("category", "code"),
    [
        ("vault_locked", "locked"),
        ("broker_unavailable", "frozen"),
        ("session_denied", "declined"),
        ("call_denied", "declined"),
        ("approval_timeout", "approval_expired"),
        ("approval_pending", "waiting"),
    ],
)
async def test_a_read_back_that_was_not_let_through_says_so_and_leaves_the_doubt(
    room: Room, category: str, code: str
) -> None:
    room.answer = told(category, code=code, retry="after_human")
    envelope = await room.settle(await doubtful(room))

    assert (category, code) == (envelope["category"], envelope["code"])
    assert "stays in doubt" in envelope["message"]
    assert GATE == envelope["gate"]
    assert 1 == room.store.doubtful


async def test_what_nothing_can_read_back_needs_a_human(room: Room) -> None:
    for operation in ("market.orders.list", "market.POST", "gone.orders.create"):
        known = await doubtful(room, operation=operation, service=operation.split(".")[0])
        envelope = await room.settle(known)
        assert STAYS == gist(envelope)
        assert f"doorward operations settle {OP} --as applied|not_applied" == envelope["next"]["command"]
        await room.store.settle(OP, {})
        room.store._db.execute("DELETE FROM attempts")
        room.store._db.commit()
    assert [] == room.asked


async def test_what_is_settled_already_is_told_as_it_was_settled(room: Room) -> None:
    await doubtful(room)
    await room.store.settle(OP, {**ENVELOPE, "remote_effect": "applied"})
    known = await room.store.by_id(OP)
    assert known is not None

    assert {**ENVELOPE, "remote_effect": "applied"} == await room.settle(known)
    assert ["action.result"] == room.names()
    assert {"recorded": OP} == room.audit.events[-1].fields
    assert [] == room.asked


async def test_what_was_never_in_doubt_is_told_as_it_ended(room: Room) -> None:
    await room.store.begin(attempt())
    await room.store.finish(OP, in_doubt=False, envelope=ENVELOPE)
    known = await room.store.by_id(OP)
    assert known is not None

    assert ENVELOPE == await room.settle(known)


async def test_what_is_still_under_way_is_not_said_to_have_failed(room: Room) -> None:
    await room.store.begin(attempt())
    known = await room.store.by_id(OP)
    assert known is not None

    assert ("outcome_unknown", "still_running", "after_delay", "unknown") == gist(await room.settle(known))
    assert 0 == room.store.doubtful


async def test_what_a_human_settled_meanwhile_stands(room: Room) -> None:
    known = await doubtful(room)
    room.answer = told(orders=[MINE])

    async def human() -> None:
        await room.store.settle(OP, {**ENVELOPE, "message": "A human settled it.", "remote_effect": "none"})

    room.meanwhile = human
    envelope = await room.settle(known)

    assert "A human settled it." == envelope["message"]
    assert "reconcile.settled" not in room.names()


async def test_two_read_backs_that_end_at_once_are_one_word_in_the_log(room: Room) -> None:
    known = await doubtful(room)
    barrier = asyncio.Barrier(2)

    async def find(orders: list[Any], correlation_id: str) -> dict[str, Any]:
        async def read_again(_: HttpAsk | LookUpAsk, __: str) -> dict[str, Any]:
            await barrier.wait()
            return told(orders=orders)

        errand = Errand(correlation_id=correlation_id, caller=market.agent(), attempt=known, gate=GateReport())
        return dict((await room.reconciler.settle(errand, read_again)).envelope)

    there, absent = await asyncio.gather(find([MINE], OTHER), find([], "op_" + "b" * 44))

    assert there == absent
    assert 1 == [event.name for event in room.audit.events].count(EventName.RECONCILE_SETTLED)


async def test_nothing_is_settled_that_can_not_be_recorded(room: Room) -> None:
    known = await doubtful(room)
    room.answer = told(orders=[MINE])

    async def break_down() -> None:
        room.audit.broken = True

    room.meanwhile = break_down
    envelope = await room.settle(known)

    assert ("broker_unavailable", "audit_unwritable", "after_human", "unknown") == gist(envelope)
    assert 1 == room.store.doubtful


async def test_a_lock_before_anything_is_settled_is_told_as_that_and_ends_the_trail(room: Room) -> None:
    known = await doubtful(room)
    room.answer = told(orders=[MINE])

    async def lock() -> None:
        room.store.lock()

    room.meanwhile = lock
    envelope = await room.settle(known)

    assert ("vault_locked", "locked", "after_human", "none") == gist(envelope)
    assert (OP, "doorward unlock", "locked") == (
        envelope["previous_correlation_id"],
        envelope["next"]["command"],
        envelope["gate"]["vault"],
    )
    assert "stays in doubt" in envelope["message"]
    assert ["reconcile.started", "action.result"] == room.names()
    assert 1 == room.store.doubtful


async def test_a_fault_of_ours_ends_the_trail_too(room: Room) -> None:
    known = await doubtful(room)
    room.answer = {}

    with pytest.raises(KeyError):
        await room.settle(known)
    assert ["reconcile.started", "action.result"] == room.names()
    assert 1 == room.store.doubtful


async def test_who_asks_is_on_record(room: Room) -> None:
    room.answer = told(orders=[MINE])
    await room.settle(await doubtful(room))

    started = room.audit.events[-3].fields
    assert {"of": OP, "agent": market.agent().agent, "anchor": market.agent().anchor.id} == started


async def test_an_index_that_lags_is_given_its_time(room: Room) -> None:
    known = await doubtful(room, started_at_ms=room.clock.now_ms() - 990)
    room.answer = told(orders=[MINE])

    assert "reconciled" == (await room.settle(known))["code"]


async def test_an_attempt_is_for_the_anchor_that_made_it_and_for_humans(room: Room) -> None:
    await doubtful(room)

    assert await room.reconciler.attempt(OP, anchor_id="an_1") is not None
    assert await room.reconciler.attempt(OP, anchor_id=None) is not None
    assert await room.reconciler.attempt(OP, anchor_id="an_2") is None
    assert await room.reconciler.attempt(OTHER, anchor_id=None) is None


async def test_whoever_is_refused_because_of_a_doubt_may_have_it_read_back(room: Room) -> None:
    await room.store.begin(attempt())
    assert await room.reconciler.reconcilable(OP, anchor_id="an_2") is None
    await room.store.finish(OP, in_doubt=True, envelope={**UNKNOWN, "http": {"status": 500, "body": "for its maker"}})

    mine, theirs = [await room.reconciler.reconcilable(OP, anchor_id=anchor) for anchor in ("an_1", "an_2")]
    assert mine is not None
    assert theirs is not None
    assert (AttemptState.IN_DOUBT, None) == (theirs.state, (theirs.envelope or {})["http"])
    assert "for its maker" in str(mine.envelope)
    await room.store.settle(OP, {**ENVELOPE, "remote_effect": "applied"})
    settled = await room.reconciler.reconcilable(OP, anchor_id="an_2")
    assert settled is not None
    assert "applied" == (await room.settle(settled))["remote_effect"]
    assert await room.reconciler.reconcilable(OTHER, anchor_id="an_2") is None


@pytest.mark.parametrize(
    ("applied", "category", "effect"), [(True, "success", "applied"), (False, "confirmed_failure", "none")]
)
def test_a_humans_word_is_told_as_theirs(applied: Any, category: str, effect: str) -> None:
    envelope: Any = settled_by_human(attempt(), correlation_id=OTHER, applied=applied)

    assert (category, effect, "write") == (envelope["category"], envelope["remote_effect"], envelope["effect"])
    assert "A human settled it" in envelope["message"]
