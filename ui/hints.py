"""The keys that the footer of the Approvals screen names, by use. Pure."""

from ui.frame import Hint
from ui.paper import Paper
from ui.wording import WIDE


def card_hints(paper: Paper, *, on_card: bool) -> tuple[Hint, ...]:
    wide = paper.width >= WIDE
    return (
        Hint(key="j/k", word="line" if on_card else "card"),
        Hint(key="PgDn/PgUp" if wide else "PgDn", word="more"),
        Hint(key="i", word="who"),
        Hint(key="o", word="body"),
        Hint(key="e", word="exact"),
        Hint(key="n", word="next waiting" if wide else "next"),
        *((Hint(key="/", word="filter"),) if wide else ()),
        *(apart_hints(paper)),
        Hint(key="q", word="quit"),
    )


def calm_hints(paper: Paper) -> tuple[Hint, ...]:
    """Of the page for an empty queue."""
    return (
        Hint(key="1-7", word="screens"),
        Hint(key="/", word="filter"),
        *apart_hints(paper),
        Hint(key="q", word="quit"),
    )


def apart_hints(paper: Paper) -> tuple[Hint, ...]:
    return Hint(key="F", word=f"freeze{paper.dots}"), Hint(key="L", word=f"lock{paper.dots}")
