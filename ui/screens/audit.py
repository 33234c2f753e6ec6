"""The Audit screen: how far the log reaches and where its head is kept.

Shows the verdict of the daemon's own verification. That of a program which need not trust this one weighs more.
"""

from dataclasses import dataclass

from broker.client.card_words import clock_time
from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.paper import LINE, Paper, Role, Row, Span, row, rule, wrap
from ui.screens.sheet import Effect, Moment, Sheet, filled
from ui.served import Status
from ui.world import World

_WELL = frozenset({"OK", "OK_UNANCHORED"})


@dataclass(slots=True, kw_only=True)
class AuditScreen:
    def in_field(self, world: World) -> bool:
        del world
        return False

    def paste(self, text: str, world: World) -> None:
        """Nothing here takes text."""

    def tick(self, world: World, now: Moment) -> tuple[Effect, ...]:
        del world, now
        return ()

    def key(self, key: Key, world: World, now: Moment) -> tuple[Effect, ...] | None:
        del key, world, now
        return None

    def draw(self, world: World, paper: Paper, now: Moment) -> Sheet:
        del now
        status = world.status
        anchored = row("+ file") if status.audit_anchored else row(Span("! NOT ANCHORED", Role.LOOK))
        rows: list[Row] = [
            _labelled("Head", row(f"{status.audit_seq:,} records   log {paper.foreign(status.log_id, limit=48)}")),
            _labelled("Anchored", anchored),
            _labelled("Verdict", _verdict(paper, status)),
            _labelled("Disk", row("not shown here yet: doorward doctor")),
            _labelled("Checkpoint", row("none is listed here yet")),
            (),
        ]
        warnings = [folded for one in status.warnings for folded in wrap(paper.foreign(one), paper.width - 16)]
        rows += [
            _labelled("Warnings" if at == 0 else "", row(Span(f"! {line}", Role.LOOK)))
            for at, line in enumerate(warnings)
        ]
        rows += [
            row(rule(paper.width, LINE, left="to check it")),
            row(" Without this program being trusted, on any machine:"),
            row(" doorward audit verify DIR --pin FILE"),
            row(" What the records say, unlocked: doorward audit show, or screen 2"),
        ]
        state = "anchored" if status.audit_anchored else "not anchored"
        return Sheet(
            title=title(paper, "Audit", state),
            body=filled(rows, paper),
            last_rule=last_rule(paper),
            hints=(Hint(key="1-7", word="screens"), Hint(key="q", word="quit")),
        )


_TROUBLE = {"unwritable": "CAN'T BE WRITTEN", "disk_low": "DISK NEARLY FULL"}


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
        return row(f"{said} at {at}: damage that was taken over; the rest is whole, {held}")
    return row(Span(f"! {said} at {at}", Role.LOOK), "  see the warnings")


def _labelled(label: str, words: Row) -> Row:
    return (Span(f" {label:<12}", Role.LABEL), *words)
