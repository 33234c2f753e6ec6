"""Pages that take the place of a screen: the vault is locked, the daemon is lost. Pure."""

from broker.client import card_words as words
from broker.client.lock_words import lock_words
from ui.frame import Hint, last_rule, title
from ui.messages import Lost
from ui.paper import Paper, Role, Row, Span, row, wrap
from ui.passphrase import Passphrase
from ui.screens.sheet import Moment, Sheet, filled
from ui.world import World

INDENT = 12


def locked_sheet(world: World, field: Passphrase, paper: Paper) -> Sheet:
    """The vault is not ready: nothing runs. Also used where only the approver key is locked."""
    state = world.status.vault_state
    vault_ready = state == "ready"
    shut = paper.foreign(state, limit=24).upper() or "STATE NOT KNOWN"
    heading = "APPROVER KEY LOCKED" if vault_ready else f"VAULT {shut}"
    why = _why_locked(world)
    lines = [*why, "", "", *_what_it_opens(vault_ready=vault_ready)]
    rows: list[Row] = [(), (), row(Span(heading, Role.LOOK)), (), *[row(line) for line in lines]]
    at = 4 + len(why)
    rows[at] = field.line()
    if field.problem:
        told = wrap(f"! {paper.foreign(field.problem, limit=400)}", max(paper.width - INDENT - 1, 20))
        rows[at + 1 : at + 2] = [row(Span(line, Role.LOOK)) for line in told]
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


def _why_locked(world: World) -> list[str]:
    state = world.status.vault_state
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
    why = lock_words(world.status.vault_locked_for)
    return [
        "Nothing runs and nothing is asked while it is locked.",
        "It was not unlocked since the daemon started." if why is None else f"Locked: {why}.",
        "Cards and grants of before are void; sessions start anew.",
        "",
        "Requests are refused meanwhile. Each is recorded.",
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
    """No connection to the daemon: nothing can be decided, and what is known is old, or nothing is."""
    waited = words.countdown(now.wall_ms - lost.since_ms)
    next_s = max((lost.next_try_at_ms - now.wall_ms + 999) // 1000, 0)
    why = wrap(paper.foreign(lost.why), max(paper.width - INDENT - 11, 20))
    lines: list[Row] = [
        (),
        (),
        row(Span("NO CONNECTION TO THE DAEMON", Role.LOOK)),
        (),
        row("Nothing can be decided here. Nothing new runs through this window."),
        row(_what_of_actions(world)),
        (),
        *(row(f"{'socket' if at == 0 else '':<9}{line}") for at, line in enumerate(why[:3])),
        row(f"since    {words.clock_time(lost.since_ms)}  ({waited})"),
        row(f"trying   again in {next_s} s, try {lost.tries}     ", Span("r", Role.KEY), " try now"),
        (),
        *_what_of_cards(world),
        row("To look:    doorward status      doorward doctor"),
        row("To start:   doorward serve"),
    ]
    body = filled([(Span(" " * INDENT), *line) if line else () for line in lines], paper)
    at = f"Approvals, as they were at {words.clock_time(world.fresh_ms)}" if world.fresh_ms else "Approvals"
    hints = (
        Hint(key="r", word="try now"),
        *([Hint(key="2-7", word="look at old data (marked old)")] if world.fresh_ms else []),
        Hint(key="q", word="quit"),
    )
    return Sheet(title=title(paper, at), body=body, last_rule=last_rule(paper), hints=hints, cursor=(INDENT, 3))


def _what_of_actions(world: World) -> str:
    if not world.fresh_ms:
        return "This window has not found one yet. It goes on trying by itself."
    return "An action that was under way may have finished; the log will tell."


def _what_of_cards(world: World) -> list[Row]:
    if not world.fresh_ms:
        return []
    waited = len(world.pending)
    are = "is" if waited == 1 else "are"
    void = f"The {words.counted(waited, 'card')} that waited {are} void if the daemon was restarted."
    told = row("If it comes back, this screen shows what is in doubt first.")
    return [*([row(void)] if waited else []), told, ()]
