"""T10: whatever stands between a request and a good yes, the executor is never called and nothing is left behind."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.resolve import HttpAsk
from broker.ports import Approved, Declined, Joined, Question
from tests.fakes import market
from tests.fakes.flow import Flow, gist

Change = Callable[[Flow], None]


def lock(flow: Flow) -> None:
    flow.vault.lock()


def lock_and_unlock(flow: Flow) -> None:
    flow.vault.lock()
    flow.vault.unlock()


def quarantine(flow: Flow) -> None:
    flow.vault.state = VaultState.QUARANTINED


def freeze(flow: Flow) -> None:
    flow.sessions.frozen = True


def new_policy(flow: Flow) -> None:
    flow.policies.policy = replace(market.POLICY, digest=market.OTHER_DIGEST)


def rotate(flow: Flow) -> None:
    flow.vault.put("market", market.TOKEN, market.BASE_URL)


def remove(flow: Flow) -> None:
    del flow.vault.credentials["market"]


def end_session(flow: Flow) -> None:
    flow.sessions.exit(flow.caller)


def run_another_program(flow: Flow) -> None:
    flow.sessions.exec(flow.caller)


def fill_the_disk(flow: Flow) -> None:
    flow.audit.has_room = False


def break_the_log(flow: Flow) -> None:
    flow.audit.broken = True


def nothing_was_sent(flow: Flow, envelope: JsonObject) -> bool:
    """No call, no attempt that could be taken for one, no secret left open, no word of an effect."""
    return (
        flow.executor.permits == []
        and flow.ledger.attempts == []
        and flow.leased == 0
        and envelope["remote_effect"] == "none"
        and not any(run.sent for run in flow.runs.runs.values())
    )


@pytest.mark.parametrize("ask", [market.READ, market.LISTING, market.CREATE, market.TIP])
@pytest.mark.parametrize(
    ("change", "category", "code"),
    [
        (lock, "vault_locked", "locked"),
        (quarantine, "vault_locked", "quarantined"),
        (freeze, "broker_unavailable", "frozen"),
        (fill_the_disk, "broker_unavailable", "disk_low"),
        (break_the_log, "broker_unavailable", "audit_unwritable"),
        (remove, "policy_denied", "rule_denied"),
        (end_session, "session_denied", "session_ended"),
    ],
)
async def test_a_gate_that_is_shut_is_shut_for_every_kind_of_request(
    ask: HttpAsk, change: Change, category: str, code: str
) -> None:
    flow = Flow()
    change(flow)
    envelope = await flow.ask(ask)

    assert (category, code) == gist(envelope)[:2]
    assert nothing_was_sent(flow, envelope)
    assert [] == flow.desk.cards


@pytest.mark.parametrize(
    ("happening", "category", "code"),
    [
        (Happening.DENIED, "call_denied", "declined"),
        (Happening.EXPIRED, "approval_timeout", "approval_expired"),
        (Happening.WITHDRAWN, "approval_timeout", "withdrawn"),
        (Happening.SUPERSEDED, "approval_timeout", "superseded"),
        (Happening.LOCKED, "vault_locked", "locked"),
        (Happening.FROZEN, "broker_unavailable", "frozen"),
        (Happening.SESSION_ENDED, "session_denied", "session_ended"),
        (Happening.POLICY_CHANGED, "approval_timeout", "approval_void"),
        (Happening.CREDENTIAL_CHANGED, "approval_timeout", "approval_void"),
        (Happening.STOPPING, "broker_unavailable", "shutting_down"),
    ],
)
async def test_a_card_that_ends_without_a_yes_sends_nothing(happening: Happening, category: str, code: str) -> None:
    flow = Flow()
    envelope = await flow.ask_and_answer(market.CREATE, happening)

    assert (category, code) == gist(envelope)[:2]
    assert nothing_was_sent(flow, envelope)


@pytest.mark.parametrize("ask", [market.CREATE, market.LISTING], ids=["each call", "session rule"])
@pytest.mark.parametrize("scope", ["once", "session"])
@pytest.mark.parametrize(
    ("change", "category", "code"),
    [
        (lock, "vault_locked", "locked"),
        (lock_and_unlock, "vault_locked", "locked"),
        (quarantine, "vault_locked", "quarantined"),
        (freeze, "broker_unavailable", "frozen"),
        (new_policy, "approval_timeout", "approval_void"),
        (rotate, "approval_timeout", "approval_void"),
        (remove, "approval_timeout", "approval_void"),
        (end_session, "session_denied", "session_ended"),
        (run_another_program, "session_denied", "session_ended"),
        (break_the_log, "broker_unavailable", "audit_unwritable"),
    ],
)
async def test_a_yes_is_void_where_the_world_changed_between_it_and_the_permit(
    ask: HttpAsk, change: Change, scope: str, category: str, code: str
) -> None:
    flow = Flow()
    async with flow.asking(ask) as (card, answer):
        flow.desk.settle(card, Happening.APPROVED, scope=scope)
        change(flow)
    envelope = answer.result()

    assert (category, code) == gist(envelope)[:2]
    assert flow.executor.permits == []
    if change is not break_the_log:  # that one is seen only when the intent is written
        assert [] == flow.sessions.grants
    assert 0 == flow.leased
    assert envelope["remote_effect"] == "none"


async def test_a_grant_is_no_way_past_a_gate() -> None:
    flow = Flow()
    await flow.ask_and_answer(market.LISTING, scope="session")
    freeze(flow)

    assert gist(await flow.ask(market.LISTING))[:2] == ("broker_unavailable", "frozen")
    assert 1 == len(flow.executor.permits)


async def test_a_conflict_and_a_doubt_send_nothing() -> None:
    flow = Flow()
    await flow.ask(market.READ, request_id="r1")
    await flow.doubt()
    calls = len(flow.executor.permits)

    assert gist(await flow.ask(market.AD_HOC, request_id="r1"))[:2] == ("invalid_request", "request_id_conflict")
    assert gist(await flow.ask(market.TIP))[:2] == ("reconcile_required", "in_doubt")
    assert calls == len(flow.executor.permits)


class BrokenDesk:
    """Implements ports.ApprovalDesk, and breaks."""

    async def ask(self, question: Question) -> Approved | Declined | Joined:
        raise RuntimeError(f"no card for {question.correlation_id}")


async def test_a_desk_that_breaks_is_no_yes() -> None:
    flow = Flow(desk=BrokenDesk())
    with pytest.raises(RuntimeError, match="no card"):
        await flow.ask(market.CREATE)

    assert flow.executor.permits == []
    assert flow.audit.names(flow.last) == ["action.requested", "policy.decided", "action.result"]


@pytest.mark.parametrize(
    "name", [EventName.ACTION_REQUESTED, EventName.POLICY_DECIDED, EventName.APPROVAL_REQUESTED]
)  # fmt: skip
async def test_a_step_that_can_not_be_recorded_sends_nothing(name: EventName) -> None:
    flow = Flow()
    flow.audit.break_at(name)
    envelope = await flow.ask(market.CREATE)

    assert ("broker_unavailable", "audit_unwritable", "after_human", "none") == gist(envelope)
    assert nothing_was_sent(flow, envelope)
