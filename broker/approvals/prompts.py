"""How often a human is asked: prompt budgets, and the memory of what was denied.

Budgets run per session, per agent and per user, so that neither a new process nor a copy of a program is a way round:
all programs of a user that no policy names count as one. Shows nothing and settles nothing: see desk.py for the cards.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from broker.core.ledger import change_key
from broker.ports import Question

WINDOW_S = 60.0
DENIALS_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A budget that is used up. `shared` marks the user's own, which others may have used up."""

    limit: str
    shared: bool


class Prompts:
    """Counts prompts over the last minute, and remembers denials for as long as the policy says."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._recent: dict[Hashable, deque[float]] = {}
        self._denials: OrderedDict[Hashable, float] = OrderedDict()

    def count(self, question: Question) -> Over | None:
        """Count one more prompt; or say which budget is used up."""
        now = self._monotonic_s()
        self._forget(now - WINDOW_S)
        budgets = _budgets(question)
        for key, limit in budgets:
            used = len(self._recent.get(key, ()))
            if used >= limit:
                return Over(limit=f"{used} cards in a minute", shared=key[0] == "user")
        for key, _ in budgets:
            self._recent.setdefault(key, deque()).append(now)
        return None

    def deny(self, question: Question) -> None:
        """Remember that a human denied this change."""
        change = _change(question)
        self._denials.pop(change, None)
        self._denials[change] = self._monotonic_s() + question.policy.limits.denial_memory_s
        while len(self._denials) > DENIALS_KEPT:
            self._denials.popitem(last=False)

    def denied_recently(self, question: Question) -> bool:
        return self._denials.get(_change(question), 0.0) > self._monotonic_s()

    def __len__(self) -> int:
        return len(self._recent)

    def _forget(self, before_s: float) -> None:
        for key, recent in list(self._recent.items()):
            while recent and recent[0] < before_s:
                recent.popleft()
            if not recent:
                del self._recent[key]


def _budgets(question: Question) -> list[tuple[tuple[str, Hashable], int]]:
    uid, per_minute = question.caller.program.uid, question.policy.limits.prompts_per_minute
    return [
        (("session", question.session.id), per_minute),
        (("agent", (uid, question.caller.agent)), per_minute * 2),
        (("user", uid), per_minute * 4),
    ]


def _change(question: Question) -> Hashable:
    """What a denial is remembered for: this change, by this agent and user.

    Where the operation does not say what tells its changes apart, and for reads, its targets do.
    """
    frozen, declared = question.frozen, question.frozen.declared
    what: Hashable = change_key(frozen)
    if what is None or (declared is not None and declared.change_key is None):
        what = (frozen.operation, frozen.targets or (frozen.identifies,) if declared else (frozen.subject,))
    return (question.caller.program.uid, question.caller.agent, what)
