"""The idle lock: an open vault that nobody uses for as long as `[limits] idle_lock_s` says is locked.

Use is what is on record of it: a request that is sent out, and what a human signs or opens. Looking, polling,
what is refused and a no, which anybody may say, are none, so that neither a screen left open nor an agent that is
denied keeps the vault open. Time is counted while the machine sleeps as well, and no change of the wall clock moves it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from broker.contract.reasons import LockReason
from broker.core.events import AuditEvent, EventName
from broker.server.faults import ControlError

LOG = logging.getLogger("doorward.daemon")
LOOK_S = 5.0
USE = frozenset(
    {
        EventName.DISPATCH_STARTED,
        EventName.REMOTE_ANSWERED,
        EventName.DEADLINE_EXPIRED,
        EventName.TRANSPORT_FAILED,
        EventName.APPROVAL_DECIDED,
        EventName.OPERATION_SETTLED,
        EventName.SESSION_UNMUTED,
        EventName.VAULT_UNLOCKED,
        EventName.VAULT_READOPTED,
        EventName.VAULT_METHOD_ADDED,
        EventName.VAULT_METHOD_REMOVED,
        EventName.VAULT_PASSPHRASE_CHANGED,
        EventName.CREDENTIAL_ADDED,
        EventName.CREDENTIAL_ROTATED,
        EventName.CREDENTIAL_REMOVED,
        EventName.HOSTKEY_ACCEPTED,
        EventName.HOSTKEY_FORGOTTEN,
        EventName.POLICY_TRUSTED,
        EventName.CONTROL_OPENED,
        EventName.DAEMON_THAWED,
    }
)
_SIGNED = "approve"  # a no needs no key, and a card that expired was answered by nobody


def boottime_s() -> float:
    """Seconds since the boot, a sleep of the machine among them where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class IdleWatch:
    """How long the vault was not used. `limit_s` is asked each time: it is the policy's in force."""

    def __init__(self, limit_s: Callable[[], float], now_s: Callable[[], float] = boottime_s) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self._used_s = now_s()

    def notice(self, event: AuditEvent) -> None:
        """Something was recorded."""
        if event.name in USE and event.fields.get("decision", _SIGNED) == _SIGNED:
            self._used_s = self._now_s()

    @property
    def left_s(self) -> float:
        """Until it is to be locked; 0 where that is now."""
        return max(0.0, self._used_s + self._limit_s() - self._now_s())


async def lock_when_idle(
    watch: IdleWatch,
    *,
    is_open: Callable[[], bool],
    lock: Callable[[LockReason], Awaitable[object]],
    every_s: float = LOOK_S,
) -> None:
    """Run until cancelled. What is under way when it locks finishes and is recorded, as at any lock."""
    while True:
        await asyncio.sleep(every_s)
        if not is_open() or watch.left_s > 0:
            continue
        LOG.info("locking: nobody used the vault for as long as the policy says")
        try:
            await lock(LockReason.IDLE)
        except ControlError as error:  # it is locked, and could not be recorded
            LOG.warning("the idle lock was not recorded: %s", error)
