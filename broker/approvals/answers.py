"""Answers to cards: what a decision must say to count, checked before anything is settled.

A decision counts only for the card that was served to this control session, as it was drawn, in the time after its
arming, signed by an enrolled approver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.contract.statements import DECISION_FIELDS, decision_bytes
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.evidence_gate import READ_BACK

CLOCK_SKEW_MS = 300_000


class AnswerRefused(Exception):  # noqa: N818 - it names what happened
    """An answer that does not count. `code` is stable; the message says what to do."""

    def __init__(self, code: str, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_ms = retry_after_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a human sent. `signature` is raw bytes; a denial has none."""

    decision: str  # approve | deny
    scope: str = "once"
    choice: str | None = None
    confirm: str | None = None
    reason: str | None = None
    statement: JsonObject | None = None
    signature: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """When a card was first shown to a control session, and the nonce that its decision must carry."""

    nonce: str
    at_s: float


class Verify(Protocol):
    def __call__(self, message: bytes, signature: bytes) -> str | None:
        """The id of the enrolled approver key that signed, or None."""
        ...


def answered(answer: Answer) -> Happening:
    """What an answer does to its card, once it counts. A choice ends it, for another request or another card."""
    if answer.decision != "approve":
        return Happening.DENIED
    return Happening.APPROVED if answer.choice is None else Happening.SUPERSEDED


def check_approval(
    answer: Answer,
    card: JsonObject,
    *,
    digest: str,
    policy_digest: str,
    served: Served | None,
    now_s: float,
    now_ms: int,
    verify: Verify,
) -> str:
    """Return the id of the key that signed; raise AnswerRefused on anything amiss."""
    if served is None:
        raise AnswerRefused("control_session_required", "Open a control session and look at the card first.")
    _check_armed(card, served, now_s)
    statement = answer.statement
    if statement is None or answer.signature is None:
        raise AnswerRefused("unsigned", "An approval needs a statement and its signature.")
    if set(statement) != set(DECISION_FIELDS):
        raise AnswerRefused("schema", f"The statement holds exactly: {', '.join(DECISION_FIELDS)}.")
    _check_offer(answer, card)
    expected = _expected(answer, card, digest, policy_digest, served)
    for name, value in expected.items():
        if statement[name] != value or type(statement[name]) is not type(value):
            raise AnswerRefused("changed", f"The statement's {name} is not that of the card; look at it again.")
    decided = statement["decided_at_ms"]
    if not isinstance(decided, int) or abs(decided - now_ms) > CLOCK_SKEW_MS:
        raise AnswerRefused("changed", "The statement's time is more than five minutes off.")
    key_id = verify(decision_bytes(statement), answer.signature)
    if key_id is None:
        raise AnswerRefused("bad_signature", "No enrolled approver key made this signature.")
    return key_id


def _check_armed(card: JsonObject, served: Served, now_s: float) -> None:
    arming = card["arming_ms"]
    waited_ms = int((now_s - served.at_s) * 1000)
    if isinstance(arming, int) and waited_ms < arming:
        raise AnswerRefused("not_armed", "The card was shown too short a time ago.", retry_after_ms=arming - waited_ms)


def _check_offer(answer: Answer, card: JsonObject) -> None:
    if answer.choice is not None:
        if answer.choice not in _offered(card) or answer.scope != "once":
            raise AnswerRefused("schema", "This card offers no such choice.")
        return  # what it begins has a card of its own, so no word is asked for
    session = _part(_part(card, "yes"), "session")
    if answer.scope == "session" and session["offered"] is not True:
        raise AnswerRefused("schema", f"Not offered for the session: {session['why_not']}.")
    word = card["typed_word"]
    if word is not None and answer.confirm != word:
        raise AnswerRefused("wrong_confirm", "This card needs its word typed out.")


def _expected(
    answer: Answer, card: JsonObject, digest: str, policy_digest: str, served: Served
) -> dict[str, JsonValue]:
    session = _part(_part(card, "yes"), "session")
    for_session = answer.scope == "session"
    return {
        "approval_id": card["approval_id"],
        "request_digest": _part(card, "exact")["request_digest"],
        "card_digest": digest,
        "decision": "approve",
        "choice": answer.choice,
        "scope": answer.scope,
        "max_uses": session["max_uses"] if for_session else None,
        "max_age_s": session["max_age_s"] if for_session else None,
        "reason": answer.reason,
        "policy_digest": policy_digest,
        "log_id": card["log_id"],
        "vault_term": card["vault_term"],
        "nonce": served.nonce,
    }


def _offered(card: JsonObject) -> Sequence[JsonValue]:
    choices, doubts = _part(card, "evidence")["choices"], card["doubts"]
    offered = choices if isinstance(choices, list | tuple) else ()
    earlier = doubts if isinstance(doubts, list | tuple) else ()
    is_readable = any(isinstance(one, Mapping) and one["read_back"] is not None for one in earlier)
    return (*offered, READ_BACK) if is_readable else offered


def _part(card: JsonObject, name: str) -> JsonObject:
    part = card[name]
    if not isinstance(part, Mapping):
        raise TypeError(f"the card's {name} is an object")
    return part
