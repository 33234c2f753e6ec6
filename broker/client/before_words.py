"""What a card says of the past and of a no: earlier denials, the last approved request of the kind, the repeat key.

Finished text as in card_words: what others wrote is quoted and neutralised. `-` was, `+` is now.
"""

import re

from broker.client.card import Card
from broker.client.card_before import Change, Denied, Previous
from broker.client.card_words import counted, duration, lifetime
from broker.contract.neutralise import quoted, visible

NO_DIFFERENCE = "nothing differs"
ASKED_AGAIN = ", then this is asked again"  # goes first where a row is short
_PLAIN = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null|\{\}|\[\]")


def sentences(card: Card, now_ms: int) -> list[str]:
    """The part "Before"; nothing where the daemon does not tell."""
    if card.before is None:
        return []
    lines = [f"{_doubts(card)}; {_denied(card.before.denied)}"]
    if card.before.previous is not None:
        lines += _previous(card.before.previous, now_ms)
    return lines


def denial(card: Card) -> str:
    """What a no covers."""
    if not card.denial_memory_s:
        return "nothing is sent"
    return f"the same change is refused for {lifetime(card.denial_memory_s)} without asking"


def read_back(card: Card) -> str | None:
    """What looking first covers; None where nothing is in doubt, or nothing could tell."""
    found = next((attempt.read_back for attempt in card.doubts if attempt.read_back is not None), None)
    return None if found is None else f"one read: {visible(found)}; it may settle the doubt{ASKED_AGAIN}"


def repeat_key(card: Card) -> list[str]:
    """The key under which the far side tells a repeat from a second change."""
    return [] if card.idempotency_key is None else [f"repeat key {visible(card.idempotency_key)}"]


def _doubts(card: Card) -> str:
    if card.doubts:
        return f"! {counted(len(card.doubts), 'attempt')} in doubt, see above"
    return "nothing in doubt for these targets" if card.summary.targets > 1 else "nothing in doubt for this"


def _denied(denied: Denied | None) -> str:
    if denied is None:
        return "not denied today"
    times = {1: "once", 2: "twice"}.get(denied.times, f"{denied.times} times")
    return f"denied {times} today: rule {visible(denied.rule)}"


def _previous(previous: Previous, now_ms: int) -> list[str]:
    when = duration(now_ms - previous.approved_at_ms)
    how = "for the session" if previous.scope == "session" else "once"
    number = len(previous.changes) + previous.more
    differs = NO_DIFFERENCE if number == 0 else f"differs in {counted(number, 'place')}:"
    lines = [f"last approved {when} ago, {how}; {differs}"]
    for change in previous.changes:
        lines += _change(change)
    return [*lines, f"! {previous.more} more not shown"] if previous.more else lines


def _change(change: Change) -> list[str]:
    what = visible(change.what)
    spell = _json if change.what.startswith("body.") else quoted
    sides = (("-", change.was), ("+", change.now))
    return [f"{sign} {what} {spell(value)}" for sign, value in sides if value is not None]


def _json(value: str) -> str:
    """A leaf of a JSON body: a plain text has its quotes already, a number needs none."""
    is_whole = len(value) >= 2 and value.startswith('"') and value.endswith('"') and "\\" not in value
    return visible(value) if is_whole or _PLAIN.fullmatch(value) else quoted(value)
