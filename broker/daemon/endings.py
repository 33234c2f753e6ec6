"""What the end of a session means for the cards that it asked for."""

from broker.core.approval import Happening
from broker.server.sessions import Ended

_HAPPENED = {Ended.LOCKED: Happening.LOCKED, Ended.FROZEN: Happening.FROZEN, Ended.STOPPED: Happening.STOPPING}


def happening(why: Ended) -> Happening:
    """Where it is nothing else, the session alone ended."""
    return _HAPPENED.get(why, Happening.SESSION_ENDED)
