"""The Audit screen: how far the log reaches and where its head is kept.

Gives no verdict: that is for a program which need not trust this one.
"""

from dataclasses import dataclass

from ui.answering import Key
from ui.frame import Hint, last_rule, title
from ui.paper import LINE, Paper, Role, Row, Span, row, rule, wrap
from ui.screens.sheet import Effect, Moment, Sheet, filled
from ui.world import World


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
            _labelled("Verdict", row("not made in this window, but by the command below")),
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


def _labelled(label: str, words: Row) -> Row:
    return (Span(f" {label:<12}", Role.LABEL), *words)
