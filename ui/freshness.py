"""When a screen's list is asked for again, and what keys may do while all that is known is old. Pure."""

from ui.answering import Key
from ui.frame import SCREENS
from ui.messages import Done, StatusNews, TryNow, Verify
from ui.screens.sheet import AskFirst, Effect, Goto, Say, Sweep
from ui.world import World

BY_THE_CLOCK = {"Activity", "Sessions", "Vault"}  # they show what no happening tells of: the log, and counts of calls
TOLD_BY_STATUS = {"Audit"}  # reading it again would bring the next status, and so on without end


def alive(effects: tuple[Effect, ...] | None, key: Key, world: World) -> tuple[Effect, ...] | None:
    """While the daemon is lost nothing is decided over old data: such keys are dead, and say so. `r` tries again."""
    if world.lost is None:
        return effects
    if key.name == "r" and effects != ():
        return (TryNow(),)
    if effects is None:
        return None
    kept = tuple(effect for effect in effects if _needs_nobody(effect))
    return kept if len(kept) == len(effects) else (*kept, Say(words="no connection to the daemon: nothing was done"))


def _needs_nobody(effect: Effect) -> bool:
    if isinstance(effect, AskFirst):
        return effect.task is None
    return isinstance(effect, TryNow | Verify | Sweep | Goto | Say)


def is_live(screen: int, world: World) -> bool:
    """Whether it is read every few seconds. The page for an empty queue tells what was done last."""
    calm = SCREENS[screen - 1] == "Approvals" and world.approver and not world.pending
    return calm or SCREENS[screen - 1] in BY_THE_CLOCK


def read_anew(screen: int, news: Done | StatusNews) -> bool:
    """Whether the news are a reason to read it at once. Activity goes by the clock, but for a deed of this window."""
    name = SCREENS[screen - 1]
    return name not in TOLD_BY_STATUS and (isinstance(news, Done) or name != "Activity")
