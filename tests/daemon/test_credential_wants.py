"""A wish from its record to its answer: which services may be asked for, and one trail for each."""

import asyncio
from typing import Any

import pytest

from broker.contract.reasons import VaultState
from broker.core.approval import Happening
from broker.core.events import EventName
from broker.core.reply import Result
from broker.daemon.credential_wants import CredentialWants
from broker.server.credential_ask import CredentialAsk
from tests.fakes import market
from tests.fakes.policy_port import HeldPolicy
from tests.fakes.questions import DeskRoom
from tests.fakes.runs_port import MemoryRuns
from tests.fakes.sessions_port import MemorySessions
from tests.fakes.vault_ports import MemoryVault

OP = "op_" + "0" * 43 + "1"


class Room(DeskRoom):
    """Everything that a wish passes."""

    def __init__(self) -> None:
        super().__init__()
        self.vault = MemoryVault()
        self.policies = HeldPolicy(market.POLICY)
        self.sessions = MemorySessions(policies=self.policies, clock=self.clock)
        self.runs = MemoryRuns()
        self.wishes = CredentialWants(
            wants=self.desk.wants,
            policies=self.policies,
            vault=self.vault,
            sessions=self.sessions,
            runs=self.runs,
            audit=self.audit,
            clock=self.clock,
        )

    async def wish(self, service: str = "market") -> Any:
        self.runs.start(OP)
        ask = CredentialAsk(
            correlation_id=OP, caller=market.agent(), service=service, purpose="to look", body_digest="sha256:0"
        )
        result = await self.wishes.perform(ask)
        assert isinstance(result, Result) == (not self.audit.broken)
        return result.envelope

    def names(self) -> list[str]:
        return [event.name.value for event in self.audit.events]


def gist(envelope: Any) -> tuple[str, str]:
    return envelope["category"], envelope["code"]


@pytest.mark.parametrize(
    ("service", "told"),
    [("none", ("invalid_request", "unknown_service")), ("square", ("success", "ok"))],
)
async def test_nobody_is_asked_for_what_there_is_not_or_what_needs_none(service: str, told: tuple[str, str]) -> None:
    room = Room()

    assert told == gist(await room.wish(service))
    assert ["action.requested", "action.result"] == room.names()


async def test_a_service_that_no_rule_opens_is_no_ones_to_ask_for() -> None:
    room = Room()
    room.policies.policy = market.POLICY.__class__(digest=market.DIGEST, services=market.POLICY.services, rules=())

    assert ("policy_denied", "no_rule") == gist(await room.wish())


@pytest.mark.parametrize(
    ("shut", "told"),
    [
        ("locked", ("vault_locked", "locked")),
        ("frozen", ("broker_unavailable", "frozen")),
        ("full", ("broker_unavailable", "disk_low")),
        ("gone", ("session_denied", "session_ended")),
    ],
)
async def test_a_gate_that_is_shut_is_shut_for_wishes_too(shut: str, told: tuple[str, str]) -> None:
    room = Room()
    room.vault.state = VaultState.LOCKED if shut == "locked" else VaultState.READY
    room.sessions.frozen = shut == "frozen"
    room.audit.has_room = shut != "full"
    if shut == "gone":
        room.sessions.exit(market.agent())

    assert told == gist(await room.wish())


@pytest.mark.parametrize(
    ("happening", "told", "call", "denied"),
    [
        ("provided", ("success", "ok"), "granted", 0),
        ("declined", ("call_denied", "declined"), "denied", 1),
        ("withdrawn", ("approval_timeout", "withdrawn"), "expired", 0),
    ],
)
async def test_what_becomes_of_it_is_told_counted_and_on_record_once(
    happening: str, told: tuple[str, str], call: str, denied: int
) -> None:
    room = Room()
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(room.wish())
        async with asyncio.timeout(15):
            while not room.waiting:  # noqa: ASYNC110 - the desk tells of it by a call
                await asyncio.sleep(0)
        (waiting,) = room.desk.wants.listing()
        pending: Any = room.runs.runs[OP].pending
        match happening:
            case "provided":
                room.desk.void(Happening.CREDENTIAL_CHANGED, credential="market")
            case "declined":
                room.desk.wants.decline(str(waiting["id"]), None)
            case _:
                assert room.desk.withdraw(OP)
    envelope = asking.result()
    held = room.sessions.of(market.agent())

    assert ("approval_pending", "pending") == (pending["category"], pending["gate"]["call"])
    assert told == gist(envelope)
    assert call == envelope["gate"]["call"]
    assert market.BASE_URL not in str(envelope)
    assert held is not None
    assert denied == held.denied
    assert ["action.requested", "approval.requested", "approval.decided", "action.result"] == room.names()


async def test_a_wish_that_can_not_be_recorded_is_no_wish() -> None:
    room = Room()
    room.audit.break_at(EventName.ACTION_REQUESTED)
    room.audit.broken = True

    assert ("broker_unavailable", "audit_unwritable") == gist(await room.wish())
