"""An executor that answers as it is told and keeps every permit that it was called with."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from broker.core.channels import Frozen, Raw
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.outcome import Phase, RawOutcome
from broker.core.ssh.frozen import Exec, FrozenSsh
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.outcome import MarkerState, SshFault, SshOutcome, SshPhase
from broker.core.ssh.trust import HostKey, KeyState
from broker.ports import Delivery

Happening: TypeAlias = Callable[[], None]


class ScriptedExecutor:
    """Implements ports.Executor. The far side, seen from here: no call, no byte."""

    def __init__(self) -> None:
        self.permits: list[Permit] = []
        self.deliveries: list[Delivery] = []
        self.looks: list[Frozen] = []
        self.key: HostKey | SshFault = HostKey(state=KeyState.PINNED)
        self.answers: deque[Raw | Exception] = deque()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.talk: Callable[[], Awaitable[None]] = _silent  # what is handed on while it runs
        self.during: Happening = lambda: None  # what happens while the request is in flight

    async def host_key(self, frozen: Frozen) -> HostKey | SshFault | None:
        self.looks.append(frozen)
        return None if isinstance(frozen, FrozenRequest) else self.key

    async def execute(self, permit: Permit, delivery: Delivery) -> Raw:
        self.permits.append(permit)
        self.deliveries.append(delivery)
        await self.talk()
        await self.may_answer.wait()
        self.during()
        answer = self.answers.popleft() if self.answers else _fine(permit)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def _silent() -> None:
    return


def _fine(permit: Permit) -> Raw:
    if isinstance(permit.frozen, FrozenSsh):
        action = permit.frozen.action
        marked = isinstance(action, Exec) and action.marker is not MarkerMode.OFF
        return SshOutcome(
            phase=SshPhase.CLOSED,
            exit_status=0,
            stdout=b"done\n",
            stdout_bytes=5,
            output_complete=True,
            marker=MarkerState.STARTED if marked else MarkerState.OFF,
        )
    body = b'{"id":"o-1"}'
    return RawOutcome(
        phase=Phase.RESPONSE_COMPLETE,
        status=201 if permit.frozen.is_write else 200,
        headers=(("content-type", "application/json"), ("content-length", str(len(body)))),
        body=body,
        body_complete=True,
        sent_bytes=len(permit.frozen.body),
        elapsed_ms=12,
    )
