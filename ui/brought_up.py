"""A card that the human wants to see by a click at the desktop. It is shown, and nothing is answered by it.

The click comes from outside this window, and whoever runs the notices could send one: so nothing moves under fingers
that are at the keys, nor while a field, a question or the help is open. Then it is only said. A card that is brought up
is armed from the start.
"""

from broker.contract.wire import WireError, parse_object
from ui.screens.approvals import Approvals
from ui.screens.sheet import Effect, Goto, Say
from ui.world import World

HANDS_OFF_S = 3.0  # without a key for so long
APPROVALS = 1
WORDS = "a card was asked for at the desktop: n goes on to it"


def named(data: str) -> str:
    """The card's id in the data of an event; empty where there is none."""
    try:
        return str(parse_object(data.encode()).get("id", ""))
    except WireError:
        return ""


def bring_up(approval_id: str, approvals: Approvals, world: World, *, idle_s: float, busy: bool) -> tuple[Effect, ...]:
    entry = world.entry(approval_id)
    if entry is None or not entry.pending or world.lost is not None:
        return ()
    if busy or idle_s < HANDS_OFF_S or approvals.in_field(world) or approvals.answering.holding:
        return (Say(words=WORDS),)
    return (Goto(screen=APPROVALS), *approvals.go_to(approval_id))
