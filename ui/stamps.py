"""What settled a card, and the time that is left, in the words of the card's rule. Pure."""

from broker.client.card_words import countdown
from ui.paper import Paper, Role, Span
from ui.served import Waiting

URGENT_MS = 15_000
_VOID_WORDS = {
    "policy_changed": "policy changed",
    "credential_changed": "credential changed",
    "session_ended": "session ended",
    "locked": "vault locked",
    "frozen": "frozen",
    "withdrawn": "withdrawn",
    "stopping": "daemon stopped",
    "superseded": "superseded",
}


def stamp(entry: Waiting, now_ms: int, paper: Paper) -> str | None:
    """None while it waits."""
    if entry.state == "expired" or (entry.pending and now_ms >= entry.expires_at_ms):
        return "EXPIRED"
    if entry.pending:
        return None
    if entry.state in {"provided", "declined"}:
        return entry.state.upper()
    if entry.state in {"approved", "denied"}:
        return f"{entry.state.upper()} elsewhere"
    why = _VOID_WORDS.get(entry.ended_by or "", "no longer waits")
    return f"{paper.foreign(entry.state, limit=24).upper()}: {why}"


def time_left(entry: Waiting, now_ms: int) -> Span:
    """`1:42`; from 0:14 on bold and with a sign; the state of what is settled."""
    if not entry.pending:
        return Span(entry.state[:10], Role.FAINT)
    left_ms = entry.expires_at_ms - now_ms
    return Span(f"!{countdown(left_ms)}", Role.LOOK) if left_ms < URGENT_MS else Span(countdown(left_ms))


def time_words(entry: Waiting, now_ms: int) -> str:
    """The same for the card's title."""
    if not entry.pending:
        return "settled"
    left_ms = entry.expires_at_ms - now_ms
    if left_ms <= 0:
        return "expired"
    return f"expires {'!' if left_ms < URGENT_MS else ''}{countdown(left_ms)}"
