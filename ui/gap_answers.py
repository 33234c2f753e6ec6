"""The answers of a card with a gap in its evidence, or of a repeat of what may have happened. Pure.

Other ways stand first, the yes last and hardest.
"""

from broker.client import before_words, evidence_words
from broker.client.card import Card
from broker.client.card_evidence import COLLECT, LIMIT
from broker.contract.neutralise import cells
from ui.answering import READ_BACK, Terms
from ui.paper import Paper, Role, Row, Span, width_of


def has_ways(card: Card) -> bool:
    return card.evidence.has_gap or bool(card.doubts)


def terms(card: Card) -> Terms:
    """What its answers may be."""
    choices = card.evidence.choices if before_words.read_back(card) is None else (*card.evidence.choices, READ_BACK)
    return Terms(typed_word=card.typed_word, session_offered=card.yes.session.offered, choices=choices)


def ways(card: Card, once: str, paper: Paper, width: int) -> list[tuple[str, str]]:
    """Each key with its sentence. `once` is what a yes covers, in words."""
    evidence = card.evidence
    looked = before_words.read_back(card)
    if looked is not None and cells(looked) > width:
        looked = looked.removesuffix(before_words.ASKED_AGAIN)
    offered = (("c", evidence_words.collect(evidence)), ("l", evidence_words.limit(evidence)), ("r", looked))
    out = [(key, what) for key, what in offered if what is not None]
    out.append(("a", _despite(card, once, paper, width)))
    if not evidence.has_gap:
        out.append(("d", "nothing is sent; the first attempt stays in doubt"))
    return out


def _despite(card: Card, once: str, paper: Paper, width: int) -> str:
    """With the word to type; shorter where the row has no room for all of it."""
    word = f": type {paper.foreign(card.typed_word or '')}"
    for sentence in (once, paper.foreign(card.yes.once), paper.foreign(card.yes.once).removesuffix(", once")):
        whole = sentence.removesuffix(".") + word
        if cells(whole) <= width:
            return whole
    return once.removesuffix(".") + word


def keys(card: Card, width: int) -> Row:
    """`[d Abandon]  c Collect more  l Limit to 2  a All anyway`, and how to end the session where there is room."""
    evidence = card.evidence
    out: list[Span] = [Span("[d Abandon]" if evidence.has_gap else "[d Deny]", Role.FOCUS)]
    if COLLECT in evidence.choices:
        out += _key("c", "Collect more")
    if LIMIT in evidence.choices:
        out += _key("l", f"Limit to {evidence.proven_targets}")
    if before_words.read_back(card) is not None:
        out += _key("r", "Read back first")
    out += _key("a", _anyway(card))
    for end in ("Deny + end session", "Deny + end"):
        whole = (*out, *_key("x", end))
        if width_of(whole) <= width:
            return whole
    return tuple(out)


def _anyway(card: Card) -> str:
    if not card.evidence.has_gap:
        return "Send again"
    several = any(len(need.proven) + len(need.unproven) > 1 for need in card.evidence.items)
    return "All anyway" if several else "Anyway"


def _key(key: str, word: str) -> tuple[Span, ...]:
    return (Span("  "), Span(key, Role.KEY), Span(f" {word}"))
