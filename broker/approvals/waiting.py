"""A card that waits, how it is drawn from what was asked, and how a list shows it.

The desk alone changes a card; see desk.py for what settles it.
"""

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass, field

from broker.approvals.answers import Served
from broker.contract.reasons import ApprovalState
from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.approval import Happening
from broker.core.card import NOTHING_BEFORE, SessionFacts, Setting, draw
from broker.core.card_evidence import evidence_state
from broker.core.effects import effect_word
from broker.core.grants import Circumstances, Grant, covers
from broker.core.moments import rfc3339
from broker.ports import Question


@dataclass(slots=True, kw_only=True, eq=False)
class Waiting:
    """A card and everything that happens to it; the desk alone changes it."""

    id: str
    card: JsonObject
    digest: str
    question: Question
    group: str
    settled: asyncio.Future[Happening]
    state: ApprovalState = ApprovalState.PENDING
    ended_by: Happening | None = None
    reason: str | None = None
    scope: str = "once"
    choice: str | None = None  # what was chosen instead of a yes
    joined: int = 1
    approver_seen: bool = False
    overdue: bool = False
    refused: int = 0
    served: dict[Hashable, Served] = field(default_factory=dict)

    @property
    def denial(self) -> JsonObject:
        """What a no to it covers."""
        return {"memory_s": self.question.policy.limits.denial_memory_s}


def is_spoken_for(waiting: Waiting, grant: Grant, *, now_ms: int) -> bool:
    """Whether a grant covers the request of a card that wants no look of its own: no typed word, no other effect."""
    question = waiting.question
    if question.doubts or waiting.card["typed_word"] is not None or grant.effect != question.frozen.effect.value:
        return False
    under = Circumstances(
        session_id=question.session.id,
        policy_digest=question.policy.digest,
        credential_version=question.credential_version,
        run=question.caller.anchor_process.run,
        now_ms=now_ms,
    )
    return covers(grant, question.ask, question.frozen, under)


def card_of(
    question: Question, *, card_id: str, log_id: str, now_ms: int, before: JsonObject = NOTHING_BEFORE
) -> JsonObject:
    """The card that puts a question before a human."""
    session = question.session
    return draw(
        setting=Setting(
            approval_id=card_id,
            correlation_id=question.correlation_id,
            log_id=log_id,
            vault_term=question.vault_term,
            policy_digest=question.policy.digest,
            credential_version=question.credential_version,
            created_at_ms=now_ms,
            limits=question.policy.limits,
        ),
        caller=question.caller,
        session=SessionFacts(
            id=session.id,
            opened_at_ms=session.opened_at_ms,
            calls=session.calls,
            denied=session.denied,
            label=session.label,
        ),
        frozen=question.frozen,
        ask=question.ask,
        says=question.says,
        doubts=question.doubts,
        host_key=question.host_key,
        proof=question.proof,
        before=before,
        idempotency_key=question.idempotency_key,
    )


def group_of(question: Question) -> str:
    """Cards of one kind: the same operation, asked for by the same session under the same rule."""
    kind = [question.session.id, question.frozen.operation, question.ask.rule.id]
    return digest("doorward/card-group/v1", kind).removeprefix("sha256:")[:12]


def row(waiting: Waiting, *, group_size: int) -> dict[str, JsonValue]:
    """A card as a list shows it; `group_size` is how many of its kind wait."""
    question, card = waiting.question, waiting.card
    created, expires = card["created_at_ms"], card["expires_at_ms"]
    return {
        "id": waiting.id,
        "state": waiting.state.value,
        "created_at": _spelled(created),
        "expires_at": _spelled(expires),
        "created_at_ms": created,
        "expires_at_ms": expires,
        "effect": effect_word(question.frozen.effect, destructive=question.frozen.destructive),
        "operation": question.frozen.operation,
        "target": question.frozen.target,
        "agent": question.caller.agent,
        "gate": question.ask.rule.approval.value,
        "rules": list(question.ask.rules),
        "evidence_state": evidence_state(question.proof),
        "card_digest": waiting.digest,
        "joined": waiting.joined,
        "group": waiting.group,
        "group_size": group_size,
        "ended_by": None if waiting.ended_by is None else waiting.ended_by.value,
    }


def _spelled(at_ms: JsonValue) -> str:
    if not isinstance(at_ms, int):
        raise TypeError("a time is an integer of milliseconds")
    return rfc3339(at_ms)
