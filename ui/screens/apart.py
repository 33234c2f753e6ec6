"""Pages that take the place of a screen: nothing waits, the vault is locked, the daemon is lost. Pure."""

from dataclasses import dataclass

from broker.client import card_words as words
from ui.frame import Hint, last_rule, title
from ui.hints import calm_hints
from ui.messages import Lost
from ui.paper import Paper, Role, Row, Span, cut_end, fit, row, wrap
from ui.passphrase import Passphrase
from ui.queuepane import Filter, queue_rows, queue_width
from ui.screens.sheet import Moment, Sheet, body_height, filled
from ui.served import GrantRow
from ui.waiting_line import WaitingLine
from ui.world import World

INDENT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """What the page for an empty queue tells: lines per label, already neutralised."""

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
    body = [
        (*left[at], Span("│ " if queue else " "), *fit(line, width)) for at, line in enumerate(filled(right, paper))
    ]
    return Sheet(
        title=title(paper, "", queue=queue, left_of_queue=name),
        body=tuple(body),
        last_rule=last_rule(paper, queue=queue),
        hints=calm_hints(paper),
        cursor=(queue + 2, 3),
    )


def calm_of(world: World, now: Moment, paper: Paper) -> Calm:
    """What is known of how things stand while nothing waits."""
    parts: list[tuple[str, tuple[Row, ...]]] = []
    agents = {session.agent for session in world.sessions}
    calls = sum(session.calls for session in world.sessions)
    denied = sum(session.denied for session in world.sessions)
    live = words.counted(len(world.sessions), "live session")
    alive = f"{words.counted(calls, 'call')} by {words.counted(len(agents), 'agent')} in {live}"
    parts.append(("Now", (row(alive), row(f"{denied} denied   {world.status.in_doubt} in doubt"))))
    grants = [_grant_row(grant, now, paper) for grant in world.grants[: max(paper.height - 18, 1)]]
    parts.append(("Grants", tuple(grants) or (row("none"),)))
    muted = ", ".join(sorted({paper.foreign(session.agent, limit=24) for session in world.muted})) or "none"
    frozen = Span("YES: doorward thaw", Role.LOOK) if world.status.frozen else Span("no ")
    parts.append(("Frozen", (row(frozen, f"     Muted   {muted}"),)))
    if not world.approver:
        parts.append(
            ("Approver", (row(Span("! locked", Role.LOOK), ": ", Span("u", Role.KEY), " unlocks it in this window"),))
        )
    return Calm(parts=tuple(parts))


def _grant_row(grant: GrantRow, now: Moment, paper: Paper) -> Row:
    rule, agent = (cut_end(paper.foreign(text), 12, paper.dots) for text in (grant.rule, grant.agent))
    left = words.duration(grant.expires_at_ms - now.wall_ms)
    return row(f"{rule:<12} {agent:<12} {words.counted(grant.max_uses - grant.used, 'call')}, {left} left")


def locked_sheet(world: World, field: Passphrase, paper: Paper) -> Sheet:
    """The vault is not ready: nothing runs. Also used where only the approver key is locked."""
    state = world.status.vault_state
    vault_ready = state == "ready"
    shut = paper.foreign(state, limit=24).upper() or "STATE NOT KNOWN"
    heading = "APPROVER KEY LOCKED" if vault_ready else f"VAULT {shut}"
    lines = _why_locked(state)
    lines += ["", "", *_what_it_opens(vault_ready=vault_ready)]
    rows: list[Row] = [(), (), row(Span(heading, Role.LOOK)), (), *[row(line) for line in lines]]
    at = 4 + len(_why_locked(state))
    rows[at] = field.line()
    if field.problem:
        rows[at + 1] = row(Span(f"! {paper.foreign(field.problem, limit=200)}", Role.LOOK))
    body = filled([(Span(" " * INDENT), *line) if line else () for line in rows], paper)
    hints = (
        Hint(key="Enter", word="unlock"),
        Hint(key="Esc", word="leave the field"),
        Hint(key="F", word=f"freeze{paper.dots}"),
        Hint(key="q", word="quit"),
    )
    return Sheet(
        title=title(paper, "Approvals"),
        body=body,
        last_rule=last_rule(paper),
        hints=hints,
        cursor=(INDENT + 13, 3 + at),
    )


def _why_locked(state: str) -> list[str]:
    if state == "ready":
        return [
            "The vault is open, but this window can not sign.",
            "You can look at the queue and deny; approving needs the key.",
            "",
        ]
    if state == "quarantined":
        return [
            "An integrity check failed. Nothing runs until a human has looked:",
            "doorward audit verify",
            "",
        ]
    return [
        "Nothing runs and nothing is asked while it is locked.",
        "When and why stands in the log. Cards and grants of before are void;",
        "sessions start anew after unlocking.",
        "",
        "Requests are refused meanwhile. Each is recorded, none counted here.",
        "",
    ]


def _what_it_opens(*, vault_ready: bool) -> list[str]:
    if vault_ready:
        return ["unlocks the approver key in this window alone.", "", "Esc goes back to the queue."]
    return [
        "opens the vault (the daemon gets a key for that, not the passphrase)",
        "and unlocks the approver key in this window alone.",
        "",
        "Without it you still can look at what is not sealed, and freeze.",
    ]


def lost_sheet(world: World, lost: Lost, paper: Paper, now: Moment) -> Sheet:
    """No connection to the daemon: nothing can be decided, and what is known is old."""
    waited = words.countdown(now.wall_ms - lost.since_ms)
    next_s = max((lost.next_try_at_ms - now.wall_ms + 999) // 1000, 0)
    why = wrap(paper.foreign(lost.why), max(paper.width - INDENT - 11, 20))
    cards = words.counted(len(world.pending), "card")
    lines: list[Row] = [
        (),
        (),
        row(Span("NO CONNECTION TO THE DAEMON", Role.LOOK)),
        (),
        row("Nothing can be decided here. Nothing new runs through this window."),
        row("An action that was under way may have finished; the log will tell."),
        (),
        *(row(f"{'socket' if at == 0 else '':<9}{line}") for at, line in enumerate(why[:3])),
        row(f"since    {words.clock_time(lost.since_ms)}  ({waited})"),
        row(f"trying   again in {next_s} s, try {lost.tries}     ", Span("r", Role.KEY), " try now"),
        (),
        row(f"The {cards} that waited {'is' if len(world.pending) == 1 else 'are'} void if the daemon was restarted."),
        row("If it comes back, this screen shows what is in doubt first."),
        (),
        row("To look:    doorward status      doorward doctor"),
        row("To start:   doorward serve"),
    ]
    body = filled([(Span(" " * INDENT), *line) if line else () for line in lines], paper)
    at = f"Approvals, as they were at {words.clock_time(world.fresh_ms)}" if world.fresh_ms else "Approvals"
    hints = (
        Hint(key="r", word="try now"),
        Hint(key="2-7", word="look at old data (marked old)"),
        Hint(key="q", word="quit"),
    )
    return Sheet(title=title(paper, at), body=body, last_rule=last_rule(paper), hints=hints, cursor=(INDENT, 3))
