"""The pages of a card that its keys open: the whole "who", the whole body, the exact request. Pure."""

from functools import lru_cache

from broker.client import card_words as words
from broker.client.before_words import repeat_key
from broker.client.control import Served
from broker.contract.neutralise import visible
from ui.paper import Paper, Span, row
from ui.served import Waiting
from ui.wording import LABEL_WIDTH, Line, Named, Part, body_head, body_text, escapes_shown, foreign_row, laid_out, part
from ui.world import World

FOLDS = {"i": "who", "o": "body", "e": "exact"}


def who_lines(served: Served, now_ms: int) -> list[Part]:
    card = served.card
    lines = [words.who(card, now_ms), *words.joined(served.joined), words.span(card), *words.doubts_about_who(card)]
    return [
        part("Who", [*lines, *words.says(card), *words.naming(card)]),
        part("Chain", [words.chain(card)]),
        part("Process", words.place(card)),
        part("Session", [visible(card.who.session_id), f"opened {words.clock_time(card.who.opened_at_ms)}"]),
    ]


def body_lines(served: Served, paper: Paper, width: int) -> tuple[Line, ...]:
    """The whole body, laid out once for each size."""
    return _body_laid_out(Named(served.digest, served.card), paper, width)


def exact_parts(served: Served) -> list[Part]:
    card = served.card
    headers = [f"{visible(name)}: {visible(value)}" for name, value in card.headers]
    return [
        part("Request", [visible(card.request_digest)]),
        part("Card", [served.digest]),
        part("Policy", [visible(card.why.policy), *words.where_ruled(card)]),
        Part(label="Target", lines=(escapes_shown([Span(words.target(card, whole_url=True))]),)),
        Part(label="Headers", lines=tuple(foreign_row(line) for line in headers) or (row("none"),)),
        part("Body", [words.body(card), f"sha256 {visible(card.body.sha256 or 'not known')}"]),
        part("Uses", [words.uses(card)]),
        *([part("Repeat", repeat_key(card))] if card.idempotency_key is not None else []),
        *([part("In doubt", [visible(one.correlation_id) for one in card.doubts])] if card.doubts else []),
        part("Ids", [visible(card.approval_id), visible(card.correlation_id)]),
        part("Log", [f"{visible(card.log_id)}, vault term {card.vault_term}"]),
    ]


def why_sealed(world: World, focus: str | None, paper: Paper) -> str:
    """Why there is no whole card."""
    if world.card_fault is not None and world.card_fault.approval_id == focus:
        return paper.foreign(world.card_fault.problem, limit=400)
    if not world.approver:
        return "the whole card opens once the approver key is unlocked in this window: u"
    return "the card is being fetched"


def sealed_parts(entry: Waiting, problem: str, paper: Paper) -> list[Part]:
    """What can be said of a card that this process may not open."""
    return [
        part("Who", [paper.foreign(entry.agent)]),
        part("Sealed", [f"! {problem}", "It can be denied without being opened."]),
    ]


@lru_cache(maxsize=4)
def _body_laid_out(named: Named, paper: Paper, width: int) -> tuple[Line, ...]:
    head = Part(label="Body", lines=(body_head(named),))
    text = Part(label="", lines=body_text(named, width - LABEL_WIDTH))
    return tuple(laid_out([head, text], paper, width, gaps=False))
