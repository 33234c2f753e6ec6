"""What a notice says: names that the policy knows, a word for the effect, and the clock time of the end. No more.

Nothing that an agent wrote gets in, and nothing can be markup: a name that held any would be shown by its escapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from broker.contract.neutralise import visible
from broker.core.identity import UNIDENTIFIED

NAME_MOST_CELLS = 64
HOST_MOST_CELLS = 80
_MARKUP = "<>&"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeCard:
    """A waiting card, as far as a notice tells of it. `host` is the policy's own name of it."""

    id: str
    agent: str
    effect: str
    service: str
    operation: str  # without the service
    host: str
    proven: bool  # nothing that the rule wants proven is missing
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """`card_id` is the card that the body tells of, and that the actions are about."""

    card_id: str
    summary: str
    body: str
    expires_at_ms: int


def notice(cards: Sequence[NoticeCard]) -> Notice | None:
    """One for all that wait, oldest first."""
    if not cards:
        return None
    oldest = cards[0]
    asks = f"{_agent(oldest.agent)} asks to {_plain(oldest.effect)}"
    lines = [
        f"{_plain(oldest.service)} {_plain(oldest.operation)} at {_plain(oldest.host, HOST_MOST_CELLS)}",
        f"{'' if oldest.proven else 'Evidence incomplete. '}Answer by {_clock(oldest.expires_at_ms)}.",
    ]
    several = len(cards) > 1
    return Notice(
        card_id=oldest.id,
        summary=f"doorward: {len(cards)} requests wait" if several else f"doorward: {asks}",
        body="\n".join([f"The oldest: {asks}", *lines] if several else lines),
        expires_at_ms=oldest.expires_at_ms,
    )


def _agent(name: str) -> str:
    return "an unnamed agent" if name == UNIDENTIFIED else _plain(name)


def _plain(name: str, limit: int = NAME_MOST_CELLS) -> str:
    """No control, no odd character, and none that any service takes for markup, whatever it says that it does."""
    shown = visible(name, limit=limit)
    return "".join(f"\\u{{{ord(letter):x}}}" if letter in _MARKUP else letter for letter in shown)


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")
