"""The Audit screen: how far the log reaches, what its last verification said, and where its head is kept.

Two verdicts are told apart: the daemon's own at its start and at unlock, and that of a verifier which was started from
this window as a program of its own. OK stands there only with what it was held against. Whether a copy of the head is
kept outside this machine is for the human to know: it is asked for as long as this window has made none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.client.card_words import clock_time
from ui.answering import Key
from ui.dates import day_and_minute
from ui.frame import Hint, last_rule, title
from ui.kept import Kept
from ui.listing import Listing
from ui.messages import Verify, WriteCheckpoint
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, row, rule, width_of, wrap
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Effect, Moment, Say, Sheet, body_height, filled
from ui.scrolled import Scrolled
from ui.served import Status
from ui.served_lists import LogCheckpoint
from ui.verdict_words import TROUBLE, verdict_rows
from ui.world import World

DETAIL_ROWS = 6
TALL = 30
LEAST_FREE_MIB = 256
LABEL = 12
HASH_SHOWN = 16
OUTSIDE = 2  # spans of the last rung
_RUNGS = ("file", "keyring", "vault")


def _listing() -> Listing[LogCheckpoint]:
    return Listing(same=lambda item: str(item.seq), searched=lambda item: item.note)


@dataclass(slots=True, kw_only=True)
class AuditScreen(ListScreen[LogCheckpoint]):
    listed: Listing[LogCheckpoint] = field(default_factory=_listing)
    _numbers: "Kept[dict[int, int]]" = field(default_factory=Kept)
    _opened: Scrolled = field(default_factory=Scrolled)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        items = _items(world)
        if self._opened.on is not None:
            return self._opened.key(key)
        match key.name:
            case "v":
                return () if world.verifying else (Verify(),)
            case "w" if world.approver:
                return (AskFirst(question="Write a checkpoint?", task=WriteCheckpoint()),)
            case "w":
                return (Say(words="its note gets your root key's line: unlock the approver key first (1, then u)"),)
            case "slash":
                return None
            case "enter":
                item = self.listed.focused(items)
                if item is not None:
                    self._opened.open(str(item.seq))
                return ()
            case _:
                return () if self.listed.key(key, items) else None

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        del now
        items = _items(world)
        item = self.listed.focused(items)
        if item is not None and self._opened.on == str(item.seq):
            return self._opened.sheet(f"Checkpoint of {item.size or 0:,} records", _whole(item, paper), paper)
        self._opened.close()
        top = [*_facts(world, paper), *_warnings(world.status, paper), ()]
        heading = f" {'Checkpoint':<{LABEL}}{'Time':<13}{'Records':>7}   {'Signed by':<16}Kept where"
        detail = _detail(item, paper)
        room = max(body_height(paper) - len(top) - 1 - len(detail), 1)
        whole = world.log_checkpoints is not None and world.log_checkpoints.whole
        numbers = self._numbers.of(lambda: {one.seq: len(items) - at for at, one in enumerate(items)}, items)

        def line(one: LogCheckpoint) -> Row:
            return _line(one, numbers.get(one.seq) if whole else None, world.status, paper)

        none = "None stands in the log yet: w writes one."
        shown = None if world.log_checkpoints is None else items
        rows = self.rows(shown, line, paper, room, empty=none)
        return Sheet(
            title=title(paper, "Audit", _writing(world.status)),
            body=filled([*top, row(Span(heading, Role.FAINT)), *rows, *detail], paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="j/k", word="row"),
                Hint(key="Enter", word="opens"),
                Hint(key="v", word="verify"),
                Hint(key="w", word=f"checkpoint{paper.dots}"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )


def _items(world: World) -> Sequence[LogCheckpoint]:
    return () if world.log_checkpoints is None else world.log_checkpoints.checkpoints


def _writing(status: Status) -> str:
    if status.audit_trouble is not None:
        return TROUBLE.get(status.audit_trouble, "OUT OF ORDER").lower()
    return "writing" if status.audit_behind_ms is None else f"writing, {status.audit_behind_ms} ms behind"


def _facts(world: World, paper: Paper) -> list[Row]:
    status = world.status
    rows = [_labelled("Head", _head(status, paper)), *(_labelled(*line) for line in verdict_rows(world, paper))]
    anchors = _anchors(status, made=bool(world.checkpoints))
    held = [row(*anchors[:-OUTSIDE]), anchors[-OUTSIDE:]] if width_of(anchors) + LABEL + 1 > paper.width else [anchors]
    rows += [_labelled("" if at else "Anchored", line) for at, line in enumerate(held)]
    if not world.checkpoints:
        no_copy = row(Span("!", Role.LOOK), " No copy of the head outside this machine is known. ")
        rows.append(_labelled("", (*no_copy, Span("w", Role.KEY), Span(" makes one."))))
    facts = world.log_facts
    if facts is not None:
        size, free = _amount(facts.size_bytes), _amount(facts.free_bytes)
        rows.append(_labelled("Disk", row(f"{size}, {free} free (refuses actions below {LEAST_FREE_MIB} MiB)")))
    return rows


def _head(status: Status, paper: Paper) -> Row:
    digest = paper.foreign(status.audit_head, limit=80)[:HASH_SHOWN]
    if not digest:
        return row(f"{status.audit_seq + 1:,} records   log {paper.foreign(status.log_id, limit=40)}")
    fours = " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))
    segment = "" if status.audit_segment is None else f"   segment {status.audit_segment:08}"
    at = "" if status.audit_head_at_ms is None else f"   {clock_time(status.audit_head_at_ms)}"
    return row(f"{status.audit_seq + 1:,} records{segment}   {fours}{at}")


def _anchors(status: Status, *, made: bool) -> Row:
    """Each rung with how many records it vouches for; what nothing is known of has its sign."""
    if not status.audit_anchored:
        return row(Span("! NOT ANCHORED", Role.LOOK))
    out: list[Span | str] = [] if status.audit_anchors else [Span("+", Role.GOOD), " file, another directory"]
    for name, seq in sorted(status.audit_anchors, key=lambda pair: _place(pair[0])):
        sign = Span("+", Role.GOOD) if seq is not None else Span("-", Role.NO)
        told = f"{seq + 1:,}" if seq is not None else "none"
        out += ["   " if out else "", sign, f" {name} {told}"]
    outside = row(Span("?", Role.UNKNOWN), " outside: made") if made else row(Span("-", Role.NO), " outside: no")
    return (*row(*out, "   "), *outside)


def _place(rung: str) -> int:
    return _RUNGS.index(rung) if rung in _RUNGS else len(_RUNGS)


def _warnings(status: Status, paper: Paper) -> list[Row]:
    folded = [line for one in status.warnings for line in wrap(paper.foreign(one), paper.width - 16)]
    room = 3 if paper.height < TALL else 8
    shown = (
        folded
        if len(folded) <= room
        else [*folded[: room - 1], f"{len(folded) - room + 1} more lines: doorward status"]
    )
    return [
        _labelled("Warnings" if at == 0 else "", row(Span(f"! {line}", Role.LOOK))) for at, line in enumerate(shown)
    ]


def _line(item: LogCheckpoint, number: int | None, status: Status, paper: Paper) -> Row:
    size = "?" if item.size is None else f"{item.size:,}"
    at = "not told" if item.at_ms is None else day_and_minute(item.at_ms)
    signed = "not known" if item.epoch is None else f"epoch {item.epoch}"
    signed = f"{signed}, root" if item.countersigned else signed
    vouch = [name for name, seq in status.audit_anchors if name != "file" and seq is not None and item.size is not None]
    beyond = [name for name, seq in status.audit_anchors if name in vouch and (seq or 0) + 1 >= (item.size or 0)]
    name = f"{number:>4}" if number is not None else f"#{item.seq}"
    text = f"{name:<{LABEL}}{at:<13}{size:>7}   {signed:<16}{', '.join(['log', *beyond])}"
    return row(cut_end(text, paper.width - 1, paper.dots))


def _detail(item: LogCheckpoint | None, paper: Paper) -> list[Row]:
    lines = [
        " To check without this program being trusted, on any machine:",
        " doorward audit verify DIR --pin FILE --checkpoint FILE",
        " What the records say, unlocked: doorward audit show, or screen 2",
    ]
    if item is None:
        rows = [row(rule(paper.width, LINE, left="to check it")), *map(row, lines)]
    else:
        origin, root = (paper.foreign(item.line(at), limit=60) for at in (0, 2))
        key = paper.foreign(item.note.rstrip("\n").rpartition("\n")[2].removeprefix("— "), limit=60)
        origin = cut_end(origin, 30 if paper.width < 110 else 60, paper.dots)
        root = cut_end(root, 9 if paper.width < 110 else 44, paper.dots)
        named = f" origin {origin}   size {item.size or 0}   root {root}"
        signed = f" signed by {key}" if paper.width >= 110 else ""
        keep = " The whole note: Enter, or into a file: doorward audit checkpoint --to FILE"
        rows = [row(rule(paper.width, LINE, left=f"checkpoint of {item.size or 0:,} records"))]
        rows += [row(cut_end(named + signed, paper.width, paper.dots)), *map(row, lines[:2]), row(keep)]
    return [*rows, *[()] * (DETAIL_ROWS - len(rows))]


def _whole(item: LogCheckpoint, paper: Paper) -> list[Row]:
    """The note as it is, to be copied. A line that is longer than the terminal goes on below, one column further in."""
    room = paper.width - 3
    rows: list[Row] = [()]
    for line in item.note.rstrip("\n").split("\n"):
        text = paper.foreign(line)
        pieces = [text[at : at + room] for at in range(0, len(text), room)] or [""]
        rows += [row(f"{'  ' if at else ' '}{piece}") for at, piece in enumerate(pieces)]
    lines = (
        "Keep a copy of these lines elsewhere: on paper, with somebody else, on another machine.",
        "Into a file: doorward audit checkpoint --to FILE",
        "To check a log against it: doorward audit verify DIR --pin FILE --checkpoint FILE",
    )
    return [*rows, (), *(row(f" {folded}") for line in lines for folded in wrap(line, room))]


def _amount(octets: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if octets >= size:
            return f"{octets / size:.1f} {unit}"
    return f"{octets // 1000} kB"


def _labelled(label: str, words: Row) -> Row:
    return (Span(f" {label:<{LABEL}}", Role.LABEL), *words)
