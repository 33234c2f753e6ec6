"""An executor that answers as it is told and keeps every permit that it was called with."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from broker.core.gate import Permit
from broker.core.outcome import Phase, RawOutcome
from broker.core.ssh.frozen import FrozenSsh

Happening: TypeAlias = Callable[[], None]


class ScriptedExecutor:
    """Implements ports.Executor. The far side, seen from here: no call, no byte."""

    def __init__(self) -> None:
        self.permits: list[Permit] = []
        self.answers: deque[RawOutcome | Exception] = deque()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.during: Happening = lambda: None  # what happens while the request is in flight

    async def execute(self, permit: Permit) -> RawOutcome:
        self.permits.append(permit)
        await self.may_answer.wait()
        self.during()
        answer = self.answers.popleft() if self.answers else _fine(permit)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _fine(permit: Permit) -> RawOutcome:
    body = b'{"id":"o-1"}'
    return RawOutcome(
        phase=Phase.RESPONSE_COMPLETE,
        status=201 if permit.frozen.is_write else 200,
        headers=(("content-type", "application/json"), ("content-length", str(len(body)))),
        body=body,
        body_complete=True,
        sent_bytes=0 if isinstance(permit.frozen, FrozenSsh) else len(permit.frozen.body),
        elapsed_ms=12,
    )
