"""Questions for a human, and a desk over parts in memory with a real approver's key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.approvals.answers import Answer, AnswerRefused
from broker.approvals.desk import Desk
from broker.approvals.waiting import Waiting
from broker.contract.statements import decision_bytes
from broker.contract.wire import JsonValue
from broker.core.approval import Happening
from broker.core.card import card_digest
from broker.core.frozen import FrozenRequest
from broker.core.identity import Caller
from broker.core.ledger import Doubt
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Ask, Limits
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.ports import Approved, Chosen, Declined, Joined, Question, SessionView
from broker.vault import verify
from tests.fakes import market
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock

LOG_ID = "log-of-a-desk"
ME = ("a", "control", "session")


def frozen_of(ask: HttpAsk) -> FrozenRequest:
    frozen = resolve(market.POLICY, ask)
    assert not isinstance(frozen, Invalid)
    return frozen


def question(
    ask: HttpAsk = market.CREATE,
    *,
    number: int = 1,
    caller: Caller | None = None,
    session: str = "se_1",
    limits: Limits | None = None,
    doubts: tuple[Doubt, ...] = (),
    muted: bool = False,
) -> Question:
    """What the pipeline would ask for this request."""
    who, frozen = caller or market.agent(), frozen_of(ask)
    policy = market.POLICY if limits is None else replace(market.POLICY, limits=limits)
    decision = evaluate(policy, who, frozen)
    assert isinstance(decision, Ask), decision
    return Question(
        correlation_id=f"op_{number:044x}",
        caller=who,
        session=SessionView(
            id=session,
            agent=who.agent,
            span=who.span.value,
            anchor_pid=who.anchor.pid,
            opened_at_ms=1,
            calls=2,
            denied=0,
            label=None,
            muted=muted,
        ),
        frozen=frozen,
        ask=decision,
        policy=policy,
        vault_term=3,
        credential_version=1,
        says="please",
        doubts=doubts,
    )


class DeskRoom:
    """A desk, and everybody around it."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.audit = MemoryAudit()
        self.approver = Ed25519PrivateKey.generate()
        self.present = False
        self.changes: list[tuple[str, str]] = []
        self.mutes: list[tuple[str, str]] = []
        self.waiting: list[str] = []
        self.desk = Desk(
            audit=self.audit,
            clock=self.clock,
            log_id=LOG_ID,
            verify=lambda message, signature: verify(
                (self.approver.public_key().public_bytes_raw(),), message, signature
            ),
            present=lambda: self.present,
            changed=lambda card_id, state: self.changes.append((card_id, state)),
            waits=self.waits,
            mute=lambda session_id, why: self.mutes.append((session_id, why)),
        )

    def waits(self, correlation_id: str) -> None:
        """A human is asked about this request."""
        self.waiting.append(correlation_id)

    def asking(
        self, tasks: asyncio.TaskGroup, asked: Question | None = None
    ) -> "asyncio.Task[Approved | Chosen | Declined | Joined]":
        return tasks.create_task(self.desk.ask(asked or question()))

    async def card(self, number: int = 1) -> Waiting:
        """The card that was put last, once there are so many."""
        async with asyncio.timeout(60):
            while len(self.desk._cards) < number:  # noqa: ASYNC110 - the desk tells of it by a call
                await asyncio.sleep(0)
        return next(reversed(self.desk._cards.values()))

    def statement(
        self, card_id: str, *, scope: str = "once", reason: str | None = None, **changed: Any
    ) -> dict[str, Any]:
        """A yes to the card as it is served, except for what is changed."""
        waiting, served = self.desk.served(card_id, ME)
        card: Any = waiting.card
        offer = card["yes"]["session"]
        return {
            "approval_id": card["approval_id"],
            "request_digest": card["exact"]["request_digest"],
            "card_digest": card_digest(card),
            "decision": "approve",
            "choice": None,
            "scope": scope,
            "max_uses": offer["max_uses"] if scope == "session" else None,
            "max_age_s": offer["max_age_s"] if scope == "session" else None,
            "reason": reason,
            "policy_digest": card["why"]["policy"],
            "log_id": card["log_id"],
            "vault_term": card["vault_term"],
            "nonce": served.nonce,
            "decided_at_ms": self.clock.now_ms(),
            **changed,
        }

    def yes(
        self,
        card_id: str,
        *,
        confirm: str | None = None,
        key: Ed25519PrivateKey | None = None,
        statement: dict[str, JsonValue] | None = None,
        scope: str = "once",
        reason: str | None = None,
        **changed: Any,
    ) -> Answer:
        said = statement or self.statement(card_id, scope=scope, reason=reason, **changed)
        signature = (key or self.approver).sign(decision_bytes(said)) if len(said) == 14 else bytes(64)
        return Answer(
            decision="approve", scope=scope, confirm=confirm, reason=reason, statement=said, signature=signature
        )

    def arm(self) -> None:
        self.clock.advance(seconds=2)

    def records(self) -> list[tuple[str, Any]]:
        """Names and decisions of what is on record."""
        return [
            (event.name.value, event.fields.get("decision", event.fields.get("code"))) for event in self.audit.events
        ]


class Shown:
    """A card that was shown and is armed."""

    def __init__(self, room: DeskRoom, card_id: str) -> None:
        self.room = room
        self.card_id = card_id

    @property
    def typed_word(self) -> str | None:
        word = self.room.desk.served(self.card_id, ME)[0].card["typed_word"]
        return word if isinstance(word, str) else None

    async def answer(self, answer: Answer, viewer: object = ME) -> str:
        return (await self.room.desk.answer(self.card_id, answer, viewer)).scope

    async def refusal(self, answer: Answer, viewer: object = ME) -> str:
        try:
            await self.answer(answer, viewer)
        except AnswerRefused as refused:
            return refused.code
        raise AssertionError("the answer counted")


@asynccontextmanager
async def showing(asked: Question) -> AsyncIterator[Shown]:
    """Show a card, and void it in the end."""
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks, asked)
        card = await room.card()
        room.desk.served(card.id, ME)
        room.arm()
        yield Shown(room, card.id)
        room.desk.void(Happening.STOPPING)
