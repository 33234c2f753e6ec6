"""The real daemon, but for one thing: at one point of a write it kills itself as `kill -9` does.

    python -I tests/live/crashing_daemon.py before|after POINT

POINT is an event's name, a ledger call (find, doubts, begin, finish) or `execute`.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable

from typing_extensions import override

from broker.client.hardening import harden
from broker.client.places import Places
from broker.contract.wire import JsonObject
from broker.core.channels import Frozen, Raw
from broker.core.events import AuditEvent, Receipt
from broker.core.gate import Permit
from broker.core.ledger import Attempt, Doubt
from broker.core.ssh.outcome import SshFault
from broker.core.ssh.trust import HostKey
from broker.daemon import logs
from broker.daemon.main import Wiring, run
from broker.ports import AuditLog, Delivery, Executor, Ledger


class Fuse:
    """Burns when the point is reached."""

    def __init__(self, side: str, point: str) -> None:
        self._at = (side, point)

    def burn(self, side: str, point: str) -> None:
        if (side, point) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class FusedAudit(AuditLog):
    def __init__(self, port: AuditLog, fuse: Fuse) -> None:
        self._port = port
        self._fuse = fuse

    @override
    def post(self, event: AuditEvent) -> None:
        self._fuse.burn("before", event.name.value)
        self._port.post(event)
        self._fuse.burn("after", event.name.value)

    @override
    async def append(self, event: AuditEvent) -> Receipt:
        self._fuse.burn("before", event.name.value)
        receipt = await self._port.append(event)
        self._fuse.burn("after", event.name.value)
        return receipt

    @override
    def room(self) -> bool:
        return self._port.room()


class FusedLedger(Ledger):
    def __init__(self, port: Ledger, fuse: Fuse) -> None:
        self._port = port
        self._fuse = fuse

    @override
    async def find(self, anchor_id: str, request_id: str) -> Attempt | None:
        self._fuse.burn("before", "find")
        found = await self._port.find(anchor_id, request_id)
        self._fuse.burn("after", "find")
        return found

    @override
    async def doubts(self, change_key: str) -> tuple[Doubt, ...]:
        self._fuse.burn("before", "doubts")
        found = await self._port.doubts(change_key)
        self._fuse.burn("after", "doubts")
        return found

    @override
    async def begin(self, attempt: Attempt) -> int:
        self._fuse.burn("before", "begin")
        written = await self._port.begin(attempt)
        self._fuse.burn("after", "begin")
        return written

    @override
    async def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject) -> None:
        self._fuse.burn("before", "finish")
        await self._port.finish(correlation_id, in_doubt=in_doubt, envelope=envelope)
        self._fuse.burn("after", "finish")

    @override
    async def settle_by_repeat(
        self, correlation_id: str, settlement: JsonObject, record: Callable[[], Awaitable[object]]
    ) -> bool:
        return await self._port.settle_by_repeat(correlation_id, settlement, record)

    @override
    async def abandon(self, correlation_id: str) -> None:
        await self._port.abandon(correlation_id)


class FusedExecutor(Executor):
    def __init__(self, port: Executor, fuse: Fuse) -> None:
        self._port = port
        self._fuse = fuse

    @override
    async def host_key(self, frozen: Frozen) -> HostKey | SshFault | None:
        return await self._port.host_key(frozen)

    @override
    async def execute(self, permit: Permit, delivery: Delivery) -> Raw:
        self._fuse.burn("before", "execute")
        outcome = await self._port.execute(permit, delivery)
        self._fuse.burn("after", "execute")
        return outcome


def main(side: str, point: str) -> int:
    harden()
    logs.set_up()
    fuse = Fuse(side, point)
    wiring = Wiring(
        audit=lambda port: FusedAudit(port, fuse),
        ledger=lambda port: FusedLedger(port, fuse),
        executor=lambda port: FusedExecutor(port, fuse),
    )
    return run(Places(os.environ), dict(os.environ), wiring=wiring)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
