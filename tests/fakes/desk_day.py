"""The pipeline over the real desk, on a clock that a test moves: agents ask, a human answers, the world goes on."""

from asyncio import Task
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.approvals.answers import Answer
from broker.approvals.desk import Desk
from broker.approvals.waiting import Waiting
from broker.contract.reasons import ApprovalState
from broker.contract.statements import decision_bytes
from broker.contract.wire import JsonObject
from broker.core.asks import Asked
from broker.core.identity import Caller
from broker.ports import Approved, Chosen, Declined, Joined, Question
from broker.vault import verify
from tests.fakes.flow import Flow
from tests.fakes.set_loop import SetLoop

LOG_ID = "log-of-a-day"
VIEWER = ("the", "human")


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """One request of an agent, and its answer once there is one."""

    correlation_id: str
    task: Task[JsonObject]
    joined: str | None = None  # whose card it joined

    @property
    def envelope(self) -> JsonObject | None:
        return self.task.result() if self.task.done() else None


@dataclass(slots=True, kw_only=True)
class Later:
    """Stands for the desk while the flow is being built."""

    desk: Desk | None = None
    joined: dict[str, str] = field(default_factory=dict)

    async def ask(self, question: Question) -> Approved | Chosen | Declined | Joined:
        assert self.desk is not None
        told = await self.desk.ask(question)
        if isinstance(told, Joined):
            self.joined[question.correlation_id] = told.leader
        return told


class DeskDay:
    """Everything of a day; close it in the end."""

    def __init__(self) -> None:
        self._later = Later()
        self.flow = Flow(desk=self._later)
        self.clock = self.flow.clock
        self.loop = SetLoop(self.clock)
        self.approver = Ed25519PrivateKey.generate()
        self.lines: list[tuple[str, str]] = []  # what the human sees of mutes
        self.muted: set[Hashable] = set()
        self.desk = self._later.desk = Desk(
            audit=self.flow.audit,
            clock=self.clock,
            log_id=LOG_ID,
            verify=lambda message, signature: verify(
                (self.approver.public_key().public_bytes_raw(),), message, signature
            ),
            present=lambda: True,
            changed=lambda _, __: None,
            mute=self._mute,
        )
        self.requests: list[Request] = []

    def close(self) -> None:
        for request in self.requests:
            request.task.cancel()
        self.loop.turn()
        self.loop.close()

    def ask(self, ask: Asked, *, caller: Caller | None = None, says: str | None = None) -> Request:
        """A request, as far as it comes by itself."""
        who = caller or self.flow.caller
        if _program(who) in self.muted:
            self.flow.sessions.open(who)  # a new session of a muted program begins muted
        held = self.flow.sessions.of(who)
        if held is not None:
            held.muted = _program(who) in self.muted
        received = self.flow.received(ask, caller=who, says=says)

        async def perform() -> JsonObject:
            self.flow.runs.start(received.correlation_id)
            envelope: JsonObject | None = None
            try:
                envelope = (await self.flow.pipeline.perform(received)).envelope
            finally:
                self.flow.runs.end(received.correlation_id, envelope)
            return envelope

        request = Request(correlation_id=received.correlation_id, task=self.loop.create_task(perform()))
        self.requests.append(request)
        self.loop.turn()
        request.joined = self._later.joined.get(request.correlation_id)
        return request

    @property
    def cards(self) -> list[Waiting]:
        """Those that wait, the oldest first."""
        return [card for card in self.desk._cards.values() if card.state is ApprovalState.PENDING]

    def yes(self, card: Waiting, *, scope: str = "once") -> None:
        """Look, wait for the arming, sign. Raises AnswerRefused."""
        _, served = self.desk.served(card.id, VIEWER)
        self.loop.advance(seconds=4)
        drawn: Any = card.card
        offer = drawn["yes"]["session"] if scope == "session" else {"max_uses": None, "max_age_s": None}
        statement = {
            "approval_id": card.id,
            "request_digest": drawn["exact"]["request_digest"],
            "card_digest": card.digest,
            "decision": "approve",
            "choice": None,
            "scope": scope,
            "max_uses": offer["max_uses"],
            "max_age_s": offer["max_age_s"],
            "reason": None,
            "policy_digest": drawn["why"]["policy"],
            "log_id": LOG_ID,
            "vault_term": drawn["vault_term"],
            "nonce": served.nonce,
            "decided_at_ms": self.clock.now_ms(),
        }
        answer = Answer(
            decision="approve",
            scope=scope,
            confirm=drawn["typed_word"],
            statement=statement,
            signature=self.approver.sign(decision_bytes(statement)),
        )
        self.answer(card, answer)

    def no(self, card: Waiting, reason: str | None = None) -> None:
        self.answer(card, Answer(decision="deny", reason=reason))

    def answer(self, card: Waiting, answer: Answer) -> None:
        self.loop.run_until_complete(self.desk.answer(card.id, answer, VIEWER))
        self.loop.turn()

    def unmute(self) -> None:
        self.muted.clear()

    def _mute(self, session_id: str, why: str) -> None:
        held = self.flow.sessions.sessions[session_id]
        program = _program(held.caller)
        if program not in self.muted:
            self.lines.append((held.caller.agent, why))
        self.muted.add(program)


def _program(caller: Caller) -> Hashable:
    """What is muted together: processes of one program and user."""
    return (caller.program.uid, caller.program.exe_id or caller.program.exe)
