"""The one overlay: the keys of the screen it was opened on, and of all screens. Any key closes it. Pure."""

from collections.abc import Sequence

from broker.contract.neutralise import cells
from ui.frame import SCREENS
from ui.paper import BAR, Paper, Role, Row, Span, fit, head, tail

BOX_WIDTH = 66
LEFT_WIDTH = 34
TOP_ROW = 3
KEY_ROWS = 9  # of the screen's own keys, before the signs
_CARD = (
    "d  deny, with a reason",
    "a  approve once (or as shown)",
    "s  for the session, then y",
    "x  deny + end the session, y",
    "c l r  other ways, if shown",
    "o  whole body   i  whole who",
    "e  exact request, digests",
    "M y  mute it   u  unlock, unmute",
)
_LEFT: dict[str, tuple[str, ...]] = {
    "Approvals": ("THIS CARD", *_CARD),
    "Activity": (
        "THIS LIST",
        "f  follow the newest",
        "/  filter",
        "Enter  all events of a row",
        "Esc  back",
    ),
    "Sessions": (
        "THIS LIST",
        "Space  fold a session's lines",
        "R y  revoke a grant, end a session",
        "R K  end it and its processes",
        "M y  mute     u  unmute, signed",
        "/  filter",
    ),
    "In doubt": (
        "THIS LIST",
        "r  read back: one read",
        "t  settle: 1 or 2, reason, y",
        "Enter  its trail of events",
        "/  filter",
    ),
    "Vault": (
        "THIS LIST",
        "c  check a credential: one read",
        "R y  forget a host key, signed",
        "u  unlock     L y  lock",
        "/  filter",
    ),
    "Policy": (
        "THIS CHANGE",
        "t  trust it: typed, signed",
        "d  keep the old one",
        "e  exact lines     v  warnings",
        "PgDn  see the rest",
        "/  filter",
    ),
    "Audit": (
        "THIS LOG",
        "v  verify it whole, again",
        "w y  write a checkpoint",
        "Enter  its note, to be copied",
    ),
}
_SIGNS = (
    "SIGNS",
    "+ proven, done    ! look here",
    "? not known       x failed",
    "~ incomplete      - refused",
    '"..." words of others, harmless',
)
_ANYWHERE = (
    "ANYWHERE",
    "1-7    screens",
    "n p    next, previous waiting",
    "j k    down, up",
    "g G    first, last",
    "Space b  page down, up",
    "Tab    next pane",
    "/      filter; Esc shows all",
    "Esc    back; it never answers",
    "L y    lock the vault",
    "F y    freeze everything",
    "q y    close this window",
    "?      this page, any key out",
    "Enter  alone never approves",
)


def box(screen: int, paper: Paper) -> list[Row]:
    """The framed text, cut from the signs up where there is no room."""
    name = SCREENS[screen - 1]
    left = [*_LEFT[name], *([""] if len(_LEFT[name]) < KEY_ROWS else []), *_SIGNS]
    room = max(paper.height - TOP_ROW - 2 - 2, 1)
    lines = [
        f" {left[at] if at < len(left) else '':<{LEFT_WIDTH}}{_ANYWHERE[at] if at < len(_ANYWHERE) else ''}"
        for at in range(max(len(left), len(_ANYWHERE)))
    ][:room]
    inner = BOX_WIDTH - 2
    top = f"┌─ Help: {name} " + "─" * (inner - len(name) - 9) + "┐"
    framed = [f"{BAR}{line:<{inner}.{inner}}{BAR}" for line in lines]
    return [(Span(line, Role.PLAIN),) for line in (top, *framed, "└" + "─" * inner + "┘")]


def laid_over(rows: Sequence[Row], over: Sequence[Row], paper: Paper) -> list[Row]:
    """The page with the box on it."""
    column = max((paper.width - BOX_WIDTH) // 2, 0)
    out = list(rows)
    for at, line in enumerate(over, start=TOP_ROW):
        if at < len(out):
            out[at] = fit(
                (*_columns(out[at], 0, column), *line, *_columns(out[at], column + BOX_WIDTH, paper.width)), paper.width
            )
    return out


def _columns(line: Row, start: int, end: int) -> Row:
    """The cells from `start` to `end`; a wide character that the border cuts becomes a blank."""
    out: list[Span] = []
    at = 0
    for span in line:
        left, right = max(start - at, 0), max(end - at, 0)
        width = cells(span.text)
        if left < width and right > 0:
            kept = head(span.text, right)
            kept = tail(kept, cells(kept) - left) if left else kept
            out.append(Span(kept, span.role))
        at += width
    return fit(tuple(out), end - start)


def footer_words(seconds_left: str | None) -> str:
    if seconds_left is None:
        return "any key closes"
    return f"any key closes; time goes on: the card behind expires in {seconds_left}"
