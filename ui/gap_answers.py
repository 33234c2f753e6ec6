"""The answers of a card whose evidence has a gap: other ways first, the yes last and hardest. Pure."""

from broker.client import evidence_words
from broker.client.card import Card
from broker.client.card_evidence import COLLECT, LIMIT
from broker.contract.neutralise import cells
from ui.paper import Paper, Role, Row, Span, width_of


def ways(card: Card, once: str, paper: Paper, width: int) -> list[tuple[str, str]]:
    """Each key with its sentence. `once` is what a yes covers, in words."""
    evidence = card.evidence
    offered = (("c", evidence_words.collect(evidence)), ("l", evidence_words.limit(evidence)))
    return [*((key, what) for key, what in offered if what is not None), ("a", _despite(card, once, paper, width))]


def _despite(card: Card, once: str, paper: Paper, width: int) -> str:
    """With the word to type; shorter where the row has no room for all of it."""
    word = f": type {paper.foreign(card.typed_word or '')}"
    for sentence in (once, paper.foreign(card.yes.once), paper.foreign(card.yes.once).removesuffix(", once")):
        if cells(sentence + word) <= width:
            return sentence + word
    return once + word


def keys(card: Card, width: int) -> Row:
    """`[d Abandon]  c Collect more  l Limit to 2  a All anyway`, and how to end the session where there is room."""
    evidence = card.evidence
    out: list[Span] = [Span("[d Abandon]", Role.FOCUS)]
    if COLLECT in evidence.choices:
        out += _key("c", "Collect more")
    if LIMIT in evidence.choices:
        out += _key("l", f"Limit to {evidence.proven_targets}")
    several = any(len(need.proven) + len(need.unproven) > 1 for need in evidence.items)
    out += _key("a", "All anyway" if several else "Anyway")
    for end in ("Deny + end session", "Deny + end"):
        whole = (*out, *_key("x", end))
        if width_of(whole) <= width:
            return whole
    return tuple(out)


def _key(key: str, word: str) -> tuple[Span, ...]:
    return (Span("  "), Span(key, Role.KEY), Span(f" {word}"))
