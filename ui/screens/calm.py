"""The page for an empty queue: how the day went, what ended last, and what is open. Pure.

Counts are of what this window has read of the log; where that is not the whole day, the label says so.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from broker.client import card_words as words
from broker.contract.neutralise import cells
from ui.activity_words import told
from ui.frame import last_rule, title
from ui.hints import calm_hints
from ui.paper import BAR, Paper, Role, Row, Span, cut_end, fit, row
from ui.queuepane import Filter, queue_rows, queue_width
from ui.screens.sheet import Moment, Sheet, body_height, filled
from ui.served import GrantRow
from ui.served_log import ActivityRow
from ui.waiting_line import WaitingLine
from ui.wording import effect_role
from ui.world import World

WHOLE_DAY_UNDER = 200  # so many rows come at first; if all are of today, there may be more
FIXED_ROWS = 9  # all that stands on the page but the last ends, the grants, and an approver key that is locked
MOST_GRANTS = 3
REFUSED = frozenset({"policy_denied", "session_denied"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """What the page tells: lines per label, already neutralised."""

    parts: tuple[tuple[str, tuple[Row, ...]], ...]


def empty_sheet(calm: Calm, paper: Paper, words: Filter | None = None) -> Sheet:
    """Nothing waits. `words` filter what may come."""
    queue = queue_width(paper)
    height = body_height(paper)
    name = (words or Filter()).title(paper, queue)
    left = queue_rows(WaitingLine(), Filter(), None, muted=False, now_ms=0, paper=paper, height=height)
    right: list[Row] = [row("Nothing waits for you."), (), ()]
    for label, lines in calm.parts:
        right += [(Span(f"{label if at == 0 else '':<9}", Role.LABEL), *line) for at, line in enumerate(lines)]
    right += [(), row("You can leave this open. A card rings the bell once.")]
    width = paper.width - queue - 2
    edge = f"{BAR} " if queue else " "
    return Sheet(
        title=title(paper, "", queue=queue, left_of_queue=name),
        body=tuple((*left[at], Span(edge), *fit(line, width)) for at, line in enumerate(filled(right, paper))),
        last_rule=last_rule(paper, queue=queue),
        hints=calm_hints(paper),
        cursor=(queue + 2, 3),
    )


def calm_of(world: World, now: Moment, paper: Paper) -> Calm:
    """What is known of how things stand while nothing waits."""
    grants = [_grant_row(grant, now, paper) for grant in world.grants[:MOST_GRANTS]]
    if len(world.grants) > MOST_GRANTS:
        grants.append(row(f"{len(world.grants) - MOST_GRANTS} more: 3 Sessions"))
    room = body_height(paper) - FIXED_ROWS - max(len(grants), 1) - (not world.approver)
    parts = [_today(world, now), *_last(world, paper, room)]
    parts.append(("Grants", tuple(grants) or (row("none"),)))
    muted = ", ".join(sorted({paper.foreign(session.agent, limit=24) for session in world.muted})) or "none"
    frozen = Span("YES: doorward thaw", Role.LOOK) if world.status.frozen else Span("no ")
    parts.append(("Frozen", (row(frozen, f"     Muted   {muted}"),)))
    if not world.approver:
        locked = row(Span("! locked", Role.LOOK), ": ", Span("u", Role.KEY), " unlocks it in this window")
        parts.append(("Approver", (locked,)))
    return Calm(parts=tuple(parts))


def _today(world: World, now: Moment) -> tuple[str, tuple[Row, ...]]:
    """From the log where it is open to this window, else from the sessions that live."""
    if world.activity is None:
        agents = {session.agent for session in world.sessions}
        calls = sum(session.calls for session in world.sessions)
        denied = sum(session.denied for session in world.sessions)
        live = words.counted(len(world.sessions), "live session")
        alive = f"{words.counted(calls, 'call')} by {words.counted(len(agents), 'agent')} in {live}"
        return "Now", (row(alive), row(f"{denied} denied   {world.status.in_doubt} in doubt"))
    midnight_ms = _midnight_ms(now.wall_ms)
    known = [item for item in world.activity if item.at_ms >= midnight_ms]
    whole = len(known) < len(world.activity) or len(known) < WHOLE_DAY_UNDER
    return "Today" if whole else "Lately", _counts([item for item in known if not item.alone], world.status.in_doubt)


def _counts(asked: Sequence[ActivityRow], in_doubt: int) -> tuple[Row, ...]:
    agents = words.counted(len({item.agent for item in asked}), "agent")
    sessions = words.counted(len({item.session_id for item in asked}), "session")
    yes = sum(item.decision == "approve" for item in asked)
    no = sum(item.decision == "deny" for item in asked)
    granted = sum(item.asking == "session" and item.decision is None and item.sent_bytes is not None for item in asked)
    refused = sum(item.category in REFUSED for item in asked)
    return (
        row(f"{words.counted(len(asked), 'call')} by {agents} in {sessions}"),
        row(f"{granted} under grants   {yes} you approved   {no} you denied"),
        row(f"{refused} refused by policy   {in_doubt} in doubt"),
    )


def _last(world: World, paper: Paper, room: int) -> list[tuple[str, tuple[Row, ...]]]:
    """As many ends as there is room for."""
    ended = [item for item in (world.activity or ())[: room * 3] if not item.alone and item.category][: max(room, 0)]
    return [("Last", tuple(_end(item, paper) for item in ended))] if ended else []


def _end(item: ActivityRow, paper: Paper) -> Row:
    said = told(item, None, paper)
    who = cut_end(said.who, 11, paper.dots)
    name = said.what.partition(" ")[2] if item.operation else said.what  # without its service
    name = cut_end(name or said.what, 30, paper.dots)
    effect = Span(said.effect, effect_role(said.effect))
    room = " " * (7 - cells(said.effect))
    return row(f"{words.clock_time(item.at_ms)} ", Span(said.sign, said.role), f" {who:<11} ", effect, room, name)


def _grant_row(grant: GrantRow, now: Moment, paper: Paper) -> Row:
    rule, agent = (cut_end(paper.foreign(text), 12, paper.dots) for text in (grant.rule, grant.agent))
    left = words.duration(grant.expires_at_ms - now.wall_ms)
    return row(f"{rule:<12} {agent:<12} {words.counted(grant.max_uses - grant.used, 'call')}, {left} left")


def _midnight_ms(now_ms: int) -> int:
    """The beginning of the day here."""
    day = time.localtime(now_ms / 1000)
    return int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))) * 1000
