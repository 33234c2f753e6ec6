"""Callers by name alone, for asking what a policy says; no process stands behind one, and none is let in by it."""

from broker.core.identity import UNIDENTIFIED, Caller, ProcessFacts, identify
from broker.core.policy.model import AgentProgram
from broker.server.peer import nobody_behind

NOBODY = "(nobody)"


def caller_called(agent: str) -> Caller:
    """A caller that goes by this name of [agents], or by none."""
    nobody = ProcessFacts(pid=0, start_ticks=0, inode=0, uid=0, exe=NOBODY, exe_id=None)
    named = {} if agent == UNIDENTIFIED else {agent: AgentProgram(name=agent, exe=NOBODY)}
    return identify(nobody_behind(nobody), agents=named, holders={})
