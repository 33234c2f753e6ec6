"""What would be looked at to settle an SSH attempt, in the words of the list of what is in doubt. Decides nothing."""

from broker.core.ssh.frozen import Exec, Get, LookUp
from broker.core.ssh.resolve import LookUpAsk


def in_words(way: LookUpAsk) -> str:
    """What is looked at, for a human who decides whether to look."""
    match way.action:
        case LookUp():
            return f"the command's marker on {way.host}"
        case Get(path=path):
            return f"the file {path} on {way.host}, by its digest"
        case Exec():
            return f"the declared look-up command on {way.host}"
