"""A desk in memory: cards wait until the test answers them, under the same table as the real one."""

import asyncio
from dataclasses import dataclass

from broker.approvals.waiting import card_of
from broker.contract.reasons import ApprovalState
from broker.contract.wire import JsonObject
from broker.core import approval
from broker.core.approval import Happening
from broker.core.card import card_digest
from broker.core.events import AuditEvent, EventName
from broker.ports import Approved, AuditLog, Chosen, Clock, Declined, Joined, Question


@dataclass(slots=True, kw_only=True, eq=False)
class Card:
    id: str
    question: Question
    drawn: JsonObject
    settled: asyncio.Event
    state: ApprovalState = ApprovalState.PENDING
    ended_by: Happening | None = None
    scope: str = "once"
    reason: str | None = None
    choice: str | None = None


class MemoryDesk:
    """Implements ports.ApprovalDesk. `cards` holds everything that was ever asked."""

    def __init__(self, *, audit: AuditLog, clock: Clock) -> None:
        self.cards: list[Card] = []
        self._audit = audit
        self._clock = clock

    async def ask(self, question: Question) -> Approved | Chosen | Declined | Joined:
        if question.session.muted:
            return Declined(refusal=approval.muted("muted"), expired=False)
        same = self._same(question)
        if same is not None:
            return Joined(leader=same.question.correlation_id)
        card = self._put(question)
        await card.settled.wait()
        if card.ended_by is Happening.APPROVED:
            return Approved(approval_id=card.id, scope=card.scope)
        if card.choice is not None:
            return Chosen(approval_id=card.id, choice=card.choice)
        happening = card.ended_by or Happening.EXPIRED
        refusal = approval.refusal(happening, reason=card.reason, per_call=question.ask.per_call)
        return Declined(refusal=refusal, expired=happening is not Happening.DENIED)

    def settle(
        self, card: Card, happening: Happening, *, scope: str = "once", reason: str | None = None
    ) -> ApprovalState:
        """What the human, the clock or the world does to a card."""
        state = approval.after(card.state, happening)
        if state is None:
            raise ValueError(f"the card is settled: {card.state.value}")
        card.state, card.ended_by, card.scope, card.reason = state, happening, scope, reason
        try:
            self._audit.post(self._event(EventName.APPROVAL_DECIDED, card, {"decision": happening.value}))
        finally:
            card.settled.set()
        return state

    def choose(self, card: Card, choice: str) -> None:
        """The human chooses another way than a yes or a no."""
        card.choice = choice
        self.settle(card, Happening.SUPERSEDED)

    @property
    def waiting(self) -> list[Card]:
        return [card for card in self.cards if card.state is ApprovalState.PENDING]

    def _same(self, question: Question) -> Card | None:
        for card in self.waiting:
            other = card.question
            if (other.session.id, other.frozen.digest) == (question.session.id, question.frozen.digest):
                return card
        return None

    def _put(self, question: Question) -> Card:
        card_id = f"ap_{len(self.cards) + 1:012x}"
        drawn = card_of(question, card_id=card_id, log_id="log-1", now_ms=self._clock.now_ms())
        card = Card(id=card_id, question=question, drawn=drawn, settled=asyncio.Event())
        self._audit.post(self._event(EventName.APPROVAL_REQUESTED, card, {"card": card_digest(drawn)}))
        self.cards.append(card)
        return card

    def _event(self, name: EventName, card: Card, fields: JsonObject) -> AuditEvent:
        question = card.question
        return AuditEvent(
            name=name,
            at_ms=self._clock.now_ms(),
            correlation_id=question.correlation_id,
            session_id=question.session.id,
            fields=fields,
        )
