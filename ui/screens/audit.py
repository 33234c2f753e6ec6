"""The Audit screen: how far the log reaches, what its last verification said, and where its head is kept.

Two verdicts are told apart: the daemon's own at its start and at unlock, and that of a verifier which was started from
this window as a program of its own. OK stands there only with what it was held against.
"""

from dataclasses import dataclass, field

from broker.client.card_words import clock_time
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.listing import Listing
from ui.messages import Verify, WriteCheckpoint
from ui.paper import LINE, Paper, Role, Row, Span, cut_end, row, rule, wrap
from ui.screens.listed import ListScreen
from ui.screens.sheet import AskFirst, Effect, Moment, Say, Sheet, body_height, filled
from ui.served import Status
from ui.served_log import Checkpoint, SaidVerdict
from ui.world import World

_WELL = frozenset({"OK", "OK_UNANCHORED"})
_RUNGS = {
    "none": "nothing",
    "outside": "a copy outside",
    "vault": "the vault",
    "keyring": "the keyring",
    "file": "the anchor file",
}
_TROUBLE = {"unwritable": "CAN'T BE WRITTEN", "disk_low": "DISK NEARLY FULL"}
DETAIL_ROWS, DETAIL_ROWS_TALL = 7, 12
TALL = 30
LEAST_FREE_MIB = 256


def _listing() -> Listing[Checkpoint]:
    return Listing(same=lambda item: str(item.at_ms), searched=lambda item: item.note)


@dataclass(slots=True, kw_only=True)
class AuditScreen(ListScreen[Checkpoint]):
    listed: Listing[Checkpoint] = field(default_factory=_listing)

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del now
        match key.name:
            case "v":
                return () if world.verifying else (Verify(),)
            case "w" if world.approver:
                return (AskFirst(question="Write a checkpoint?", task=WriteCheckpoint()),)
            case "w":
                return (Say(words="its note gets your root key's line: unlock the approver key first (1, then u)"),)
            case "slash":
                return None
            case _:
                return () if self.listed.key(key, world.checkpoints) else None

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        del now
        top = [*_facts(world, paper), *_warnings(world.status, paper), ()]
        heading = f" {'Checkpoint':<13}{'Time':<14}{'Records':>9}  {'Signed by':<24}Kept where"
        detail = _detail(self.listed.focused(world.checkpoints), paper)
        room = max(body_height(paper) - len(top) - 1 - len(detail), 1)
        items = world.checkpoints
        none = "None was written from this window yet: w writes one."
        rows = self.rows(items, lambda item: _line(item, items, paper), paper, room, empty=none)
        return Sheet(
            title=title(paper, "Audit", _writing(world.status)),
            body=filled([*top, row(Span(heading, Role.FAINT)), *rows, *detail], paper),
            last_rule=last_rule(paper),
            hints=(
                Hint(key="v", word="verify"),
                Hint(key="w", word=f"checkpoint{paper.dots}"),
                Hint(key="j/k", word="row"),
                Hint(key="1-7", word="screens"),
                Hint(key="q", word="quit"),
            ),
        )


def _writing(status: Status) -> str:
    return "writing" if status.audit_trouble is None else _TROUBLE.get(status.audit_trouble, "OUT OF ORDER").lower()


def _facts(world: World, paper: Paper) -> list[Row]:
    status = world.status
    outside = any(one.countersigned for one in world.checkpoints)
    rows = [
        _labelled("Head", row(f"{status.audit_seq + 1:,} records   log {paper.foreign(status.log_id, limit=40)}")),
        *_verdict_rows(world, paper),
        _labelled(
            "Anchored",
            row(Span("+", Role.GOOD), " file, another directory")
            if status.audit_anchored
            else row(Span("! NOT ANCHORED", Role.LOOK)),
        ),
    ]
    if not outside:
        rows.append(
            _labelled(
                "",
                row(
                    Span("!", Role.LOOK),
                    " No copy of the head outside is known here. ",
                    Span("w", Role.KEY),
                    " makes one.",
                ),
            )
        )
    facts = world.log_facts
    if facts is not None:
        size, free = _amount(facts.size_bytes), _amount(facts.free_bytes)
        rows.append(_labelled("Disk", row(f"{size}, {free} free (refuses actions below {LEAST_FREE_MIB} MiB)")))
    return rows


def _verdict_rows(world: World, paper: Paper) -> list[Row]:
    """The verifier's own word where there is one, else the daemon's."""
    said, again = world.verdict, (Span("   "), Span("v", Role.KEY), Span(" checks again"))
    if world.verifying:
        return [_labelled("Verdict", row("a verifier of its own is at work"))]
    if said is None or said.at_ms < world.status.audit_verified_at_ms:
        first = _verdict(paper, world.status)
        if not world.status.audit_known:
            return [_labelled("Verdict", (*first, *again))]
        held = f"  held against: {paper.foreign(world.status.audit_rung or 'none', limit=24)}"
        return [_labelled("Verdict", first), _labelled("", (Span(held), *again))]
    if not said.verdict:
        return [_labelled("Verdict", (Span("! the verifier could not be run", Role.LOOK), *again))]
    return _said_rows(said, paper, again)


def _said_rows(said: SaidVerdict, paper: Paper, again: Row) -> list[Row]:
    held = _RUNGS.get(said.rung, paper.foreign(said.rung, limit=24))
    at = f"checked {clock_time(said.at_ms)[:5]} in {said.took_s:.1f} s"
    name = paper.foreign(said.verdict, limit=24)
    if said.verdict in _WELL:
        sign = Span("+ ", Role.GOOD) if said.verdict == "OK" else Span("! ", Role.LOOK)
        return [
            _labelled("Verdict", (sign, Span(f"{name}, whole log, {at}"), *again)),
            _labelled("", row(f"  held against {held}; {said.records:,} records")),
        ]
    where = f"{paper.foreign(said.segment or 'the log', limit=40)} offset {said.offset} record {said.seq}"
    proven = "nothing" if said.proven_to is None else f"all up to record {said.proven_to}"
    notes = wrap(paper.foreign(said.note, limit=300), paper.width - 16)
    return [
        _labelled("Verdict", (Span(f"! {name}", Role.DANGER), Span(f"  {at}"), *again)),
        _labelled("", row(f"  {where}; proven is {proven}")),
        *(_labelled("", row(f"  {line}")) for line in notes[:3]),
    ]


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


def _line(item: Checkpoint, items: tuple[Checkpoint, ...], paper: Paper) -> Row:
    number = len(items) - next(at for at, one in enumerate(items) if one is item)
    signed = "epoch key and root key" if item.countersigned else "epoch key"
    text = f"{number:>4}         {clock_time(item.at_ms):<14}{item.size:>9,}  {signed:<24}the log; below"
    return row(cut_end(text, paper.width - 1, paper.dots))


def _detail(item: Checkpoint | None, paper: Paper) -> list[Row]:
    """The note whole, to be copied: it is short, and its lines are not folded."""
    height = DETAIL_ROWS if paper.height < TALL else DETAIL_ROWS_TALL
    if item is None:
        lines = [
            " Without this program being trusted, on any machine:",
            " doorward audit verify DIR --pin FILE --checkpoint FILE",
            " What the records say, unlocked: doorward audit show, or screen 2",
        ]
        return [row(rule(paper.width, LINE, left="to check it")), *map(row, lines)]
    lines = [f" {paper.foreign(line)}" for line in item.note.rstrip("\n").split("\n") if line]
    shown = [row(cut_end(line, paper.width, paper.dots)) for line in lines]
    rows = [row(rule(paper.width, LINE, left=f"checkpoint of {item.size:,} records: keep a copy elsewhere")), *shown]
    if len(rows) > height - 1:
        rows = rows[: height - 1]
    return [*rows, row(" Whole, or into a file: doorward audit checkpoint --to FILE")]


def _amount(octets: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if octets >= size:
            return f"{octets / size:.1f} {unit}"
    return f"{octets // 1000} kB"


def audit_word(paper: Paper, status: Status) -> str | None:
    """What is wrong with the log, in a word; None where it is well, or nothing is known against it yet."""
    if status.audit_trouble is not None:
        return _TROUBLE.get(status.audit_trouble, "OUT OF ORDER")
    if status.audit_verdict is not None and status.audit_verdict not in _WELL and not status.audit_known:
        return paper.foreign(status.audit_verdict, limit=24)
    return None if status.audit_anchored and status.audit_verdict != "OK_UNANCHORED" else "UNANCHORED"


def _verdict(paper: Paper, status: Status) -> Row:
    if status.audit_verifying is not None:
        return row(f"verifying, {status.audit_verifying} % done")
    if status.audit_verdict is None:
        return row("not made yet")
    said = paper.foreign(status.audit_verdict, limit=24)
    held = f"held against: {paper.foreign(status.audit_rung or 'none', limit=24)}"
    at = clock_time(status.audit_verified_at_ms)
    if status.audit_verdict in _WELL:
        return row(f"{said} at {at}, {held}")
    if status.audit_known:
        return row(f"{said} at {at}: damage that was taken over; the rest is whole")
    return row(Span(f"! {said} at {at}", Role.LOOK), "  see the warnings")


def _labelled(label: str, words: Row) -> Row:
    return (Span(f" {label:<12}", Role.LABEL), *words)
