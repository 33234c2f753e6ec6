"""The header: counts at the left, the five states and the surroundings at the right, or that nothing is known. Pure."""

from collections.abc import Sequence

from broker.client.card_words import clock_time, countdown
from ui.frame import Lamp, header
from ui.paper import Paper, Role, Row, Span
from ui.policy_rows import policy_word
from ui.verdict_words import audit_word
from ui.world import World


def headline(world: World, around: Sequence[Lamp], paper: Paper, now_ms: int) -> Row:
    """Row 1. `around` are warnings of the terminal itself."""
    clock = clock_time(now_ms)
    if world.lost is not None:
        known, waited = bool(world.fresh_ms), countdown(now_ms - world.lost.since_ms)
        lamps = [Lamp(name="daemon", word=f"LOST {waited}  what you see is old" if known else "NOT FOUND")]
        counts = [Span("DAEMON LOST" if known else "NO DAEMON", Role.LOOK)]
    elif not world.started:
        lamps, counts = [Lamp(name="daemon", word="CONNECTING")], [Span("connecting")]
    else:
        lamps, counts = [*_lamps(world, paper), *around], _counts(world, paper)
    return header(paper, counts=counts, lamps=lamps, clock=clock[:5], clock_long=clock)


def _lamps(world: World, paper: Paper) -> list[Lamp]:
    status = world.status
    state = paper.foreign(status.vault_state or "unknown", limit=24).upper()
    return [
        Lamp(name="vault", word=None if status.vault_state == "ready" else state),
        Lamp(name="approver", off=not world.approver),
        Lamp(name="policy", word=policy_word(status)),
        Lamp(name="audit", word=audit_word(paper, status)),
        Lamp(name="daemon"),
    ]


def _counts(world: World, paper: Paper) -> list[Span]:
    pending = len(world.pending)
    out = [Span(f"{pending} waiting", Role.LABEL) if pending else Span("nothing waits")]
    if world.status.in_doubt:
        out.append(Span(f"{world.status.in_doubt} in doubt", Role.UNKNOWN))
    muted = world.muted
    if muted:
        name = paper.foreign(muted[0].agent, limit=24) if len(muted) == 1 else str(len(muted))
        out.append(Span(f"{name} muted", Role.LOOK))
    return [Span("FROZEN", Role.DANGER), *out] if world.status.frozen else out
