"""When a screen's list is asked for again: by the clock, or when something happened. Pure."""

from ui.frame import SCREENS
from ui.messages import Done, StatusNews
from ui.world import World

BY_THE_CLOCK = {"Activity", "Sessions", "Vault"}  # they show what no happening tells of: the log, and counts of calls
TOLD_BY_STATUS = {"Audit"}  # reading it again would bring the next status, and so on without end


def is_live(screen: int, world: World) -> bool:
    """Whether it is read every few seconds. The page for an empty queue tells what was done last."""
    calm = SCREENS[screen - 1] == "Approvals" and world.approver and not world.pending
    return calm or SCREENS[screen - 1] in BY_THE_CLOCK


def read_anew(screen: int, news: Done | StatusNews) -> bool:
    """Whether the news are a reason to read it at once. Activity goes by the clock, but for a deed of this window."""
    name = SCREENS[screen - 1]
    return name not in TOLD_BY_STATUS and (isinstance(news, Done) or name != "Activity")
