"""How often a human is asked: prompt budgets, and the memory of what was denied.

Budgets run per session, per executable and per user, so that a new process is no way round. Shows nothing and settles
nothing: see desk.py for the cards.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

from broker.core.ledger import change_key
from broker.ports import Question

WINDOW_S = 60.0
DENIALS_KEPT = 1000


class Prompts:
    """Counts prompts over the last minute, and remembers denials for as long as the policy says."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._recent: dict[Hashable, deque[float]] = {}
        self._denials: OrderedDict[Hashable, float] = OrderedDict()

    def count(self, question: Question) -> str | None:
        """Count one more prompt; or say which budget is used up."""
        now = self._monotonic_s()
        self._forget(now - WINDOW_S)
        budgets = _budgets(question)
        for key, limit in budgets:
            used = len(self._recent.get(key, ()))
            if used >= limit:
                return f"{used} cards in a minute"
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


def _budgets(question: Question) -> list[tuple[Hashable, int]]:
    program, per_minute = question.caller.program, question.policy.limits.prompts_per_minute
    return [
        (("session", question.session.id), per_minute),
        (("program", program.uid, program.exe_id or program.exe), per_minute * 2),
        (("user", program.uid), per_minute * 4),
    ]


def _change(question: Question) -> Hashable:
    """What a denial is remembered for: this change (or this read of these things), by this executable and user."""
    frozen, program = question.frozen, question.caller.program
    what: Hashable = change_key(frozen)
    if what is None:
        what = (frozen.operation, frozen.targets or (frozen.identifies,) if frozen.declared else (frozen.path,))
    return (program.uid, question.caller.agent, program.exe_id or program.exe, what)
