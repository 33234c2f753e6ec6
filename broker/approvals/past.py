"""What a card tells of the past: the last request of its kind that a human approved, and denials of that day.

Kept in memory alone, bounded, and forgotten at a lock: bodies of requests are nowhere on disk in clear.
"""

from collections import OrderedDict
from collections.abc import Hashable

from broker.approvals.prompts import Prompts, owner_of
from broker.contract.wire import JsonObject
from broker.core.identity import UNIDENTIFIED
from broker.core.previous import Approved, approved, held_against
from broker.ports import Question

KEPT = 200


class Past:
    """The last approved request of each operation and agent."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self._approved: OrderedDict[Hashable, Approved] = OrderedDict()

    def approve(self, question: Question, *, scope: str, at_ms: int) -> None:
        """Remember that a human said yes to this request."""
        key = _kind(question)
        self._approved.pop(key, None)
        self._approved[key] = approved(
            question.frozen, correlation_id=question.correlation_id, scope=scope, at_ms=at_ms
        )
        while len(self._approved) > KEPT:
            self._approved.popitem(last=False)

    def before(self, question: Question, *, now_ms: int) -> JsonObject:
        """The card's part on what came before."""
        denied = self._prompts.denied_today(question)
        previous = self._approved.get(_kind(question))
        return {
            "denied": None
            if denied is None
            else {
                "rule": question.ask.rule.id,
                "times": denied[0],
                "last_at_ms": now_ms - round(denied[1] * 1000),
            },
            "previous": None if previous is None else held_against(previous, question.frozen),
        }

    def forget(self) -> None:
        self._approved.clear()

    def __len__(self) -> int:
        return len(self._approved)


def _kind(question: Question) -> Hashable:
    """Programs that no policy names are told apart by what they execute."""
    caller = question.caller
    exe = caller.program.exe if caller.agent == UNIDENTIFIED else None
    return (owner_of(caller), caller.agent, exe, question.frozen.operation)
