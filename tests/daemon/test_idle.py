"""The idle lock, on a clock that moves when told."""

import asyncio
from dataclasses import dataclass, field

import pytest

from broker.contract.reasons import LockReason
from broker.core.events import AuditEvent, EventName
from broker.daemon.idle import USE, IdleWatch, boottime_s, lock_when_idle
from broker.server.faults import ControlError
from tests.fakes.vaults import StillClock

LIMIT_S = 28_800.0
STEPS = 50


def event(name: EventName, **fields: str) -> AuditEvent:
    return AuditEvent(name=name, at_ms=1, fields=dict(fields))


@dataclass
class Room:
    """A vault that is open, and its watch."""

    clock: StillClock = field(default_factory=StillClock)
    limit_s: float = LIMIT_S
    is_open: bool = True
    locked_for: list[LockReason] = field(default_factory=list)
    fault: ControlError | None = None

    def __post_init__(self) -> None:
        self.watch = IdleWatch(lambda: self.limit_s, self.clock)

    async def lock(self, reason: LockReason) -> None:
        self.locked_for.append(reason)
        self.is_open = False
        if self.fault is not None:
            raise self.fault

    async def looks(self) -> None:
        """Let it look many times."""
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(
                lock_when_idle(self.watch, is_open=lambda: self.is_open, lock=self.lock, every_s=0)
            )
            for _ in range(STEPS):
                await asyncio.sleep(0)
            looking.cancel()


async def test_an_open_vault_that_nobody_uses_is_locked_once_and_not_a_second_too_soon() -> None:
    room = Room()
    room.clock.now_s += LIMIT_S - 1
    await room.looks()
    assert [] == room.locked_for
    assert 1.0 == room.watch.left_s
    room.clock.now_s += 1
    await room.looks()

    assert [LockReason.IDLE] == room.locked_for


async def test_a_locked_vault_is_not_locked_again() -> None:
    room = Room(is_open=False)
    room.clock.now_s += 10 * LIMIT_S
    await room.looks()

    assert [] == room.locked_for


@pytest.mark.parametrize("name", sorted(USE))
async def test_use_puts_it_off(name: EventName) -> None:
    room = Room()
    room.clock.now_s += LIMIT_S - 1
    room.watch.notice(event(name, decision="approve") if name is EventName.APPROVAL_DECIDED else event(name))
    room.clock.now_s += LIMIT_S - 1
    await room.looks()

    assert [] == room.locked_for


@pytest.mark.parametrize(
    "noticed",
    [
        event(EventName.ACTION_REQUESTED),
        event(EventName.POLICY_DECIDED, decision="deny"),
        event(EventName.ACTION_RESULT),
        event(EventName.APPROVAL_REQUESTED),
        event(EventName.APPROVAL_DECIDED, decision="expired"),
        event(EventName.APPROVAL_DECIDED, decision="deny"),
        event(EventName.APPROVAL_REFUSED),
        event(EventName.CONTROL_REFUSED),
        event(EventName.FLOOD_SUMMARY),
        event(EventName.VAULT_UNLOCK_FAILED),
        event(EventName.AUDIT_VERIFIED),
    ],
    ids=lambda noticed: noticed.name.value,
)
async def test_what_is_asked_refused_or_left_unanswered_is_no_use(noticed: AuditEvent) -> None:
    room = Room()
    room.clock.now_s += LIMIT_S
    room.watch.notice(noticed)
    await room.looks()

    assert [LockReason.IDLE] == room.locked_for


async def test_a_limit_that_the_policy_lowers_holds_at_once() -> None:
    room = Room()
    room.clock.now_s += 600
    room.limit_s = 600
    await room.looks()

    assert [LockReason.IDLE] == room.locked_for


async def test_a_lock_that_could_not_be_recorded_ends_no_watch() -> None:
    room = Room(fault=ControlError("audit_unwritable", "the disk is full"))
    for _ in range(2):
        room.is_open = True
        room.clock.now_s += LIMIT_S
        await room.looks()

    assert [LockReason.IDLE, LockReason.IDLE] == room.locked_for


def test_the_clock_does_not_go_back_and_is_not_the_wall_s() -> None:
    first = boottime_s()

    assert 0 < first <= boottime_s()
