"""How often a human is asked: prompt budgets, and the memory of what was denied.

Budgets run per session, per agent and per user, so that neither a new process nor a copy of a program is a way round:
all programs of a user that no policy names count as one, and are refused what a named one was denied. Shows nothing and
settles nothing: see desk.py for the cards.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

from broker.approvals.want import Want
from broker.core.identity import UNIDENTIFIED, Caller, Span
from broker.core.ledger import change_key
from broker.ports import Question

WINDOW_S = 60.0
DAY_S = 86_400.0
DENIALS_KEPT = 1000
DENIALS_COUNTED = 100  # of one rule in a day; more are told as that many


Asked: TypeAlias = Question | Want


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A budget that is used up. `shared` marks the user's own, which others may have used up."""

    limit: str
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A human's no to a change, as long as it is remembered."""

    at_s: float
    until_s: float


class Prompts:
    """Counts prompts over the last minute, and remembers denials for as long as the policy says.

    How often an agent was denied under a rule is known for a day, for the cards that come after.
    """

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._recent: dict[Hashable, deque[float]] = {}
        self._denials: OrderedDict[Hashable, Denial] = OrderedDict()
        self._days: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def count(self, question: Asked) -> Over | None:
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

    def deny(self, question: Asked) -> None:
        """Remember that a human denied this change."""
        now = self._monotonic_s()
        for change in _changes(question):
            self._denials.pop(change, None)
            self._denials[change] = Denial(at_s=now, until_s=now + question.policy.limits.denial_memory_s)
        if isinstance(question, Question):
            rule = _under_rule(question)
            day = self._days[rule] = self._days.pop(rule, deque(maxlen=DENIALS_COUNTED))
            day.append(now)
        for kept in (self._denials, self._days):
            while len(kept) > DENIALS_KEPT:
                kept.popitem(last=False)

    def denied_recently(self, question: Asked) -> Denial | None:
        """The denial that still stands for this change."""
        denial = self._denials.get(_change(question, question.caller.agent))
        return denial if denial is not None and denial.until_s > self._monotonic_s() else None

    def denied_today(self, question: Question) -> tuple[int, float] | None:
        """How often a human denied this agent under this rule within a day, and how many seconds ago at last."""
        now = self._monotonic_s()
        day = self._days.get(_under_rule(question))
        while day and day[0] <= now - DAY_S:
            day.popleft()
        return (len(day), now - day[-1]) if day else None

    def __len__(self) -> int:
        return len(self._recent)

    def _forget(self, before_s: float) -> None:
        for key, recent in list(self._recent.items()):
            while recent and recent[0] < before_s:
                recent.popleft()
            if not recent:
                del self._recent[key]


def _budgets(question: Asked) -> list[tuple[tuple[str, Hashable], int]]:
    owner, per_minute = owner_of(question.caller), question.policy.limits.prompts_per_minute
    return [
        (("session", question.session.id), per_minute),
        (("agent", (owner, question.caller.agent)), per_minute * 2),
        (("user", owner), per_minute * 4),
    ]


def owner_of(caller: Caller) -> Hashable:
    """The user, or the container whose listener it came by: what is in there uses up nothing of the user's."""
    return caller.budget if caller.span is Span.CONTAINER else caller.program.uid


def _under_rule(question: Question) -> Hashable:
    return (owner_of(question.caller), question.caller.agent, question.ask.rule.id)


def _changes(question: Asked) -> dict[Hashable, None]:
    """What a denial is remembered for: this change, by whichever process has no name, and by this agent.

    In this order, for the last one is forgotten last.
    """
    return dict.fromkeys(_change(question, agent) for agent in (UNIDENTIFIED, question.caller.agent))


def _change(question: Asked, agent: str) -> Hashable:
    """This change, by this agent of this user.

    Where the operation does not say what tells its changes apart, and for reads, its targets do.
    """
    if isinstance(question, Want):
        return (owner_of(question.caller), agent, ("credential", question.credential))
    frozen, declared = question.frozen, question.frozen.declared
    what: Hashable = change_key(frozen)
    if what is None or (declared is not None and declared.change_key is None):
        what = (frozen.operation, frozen.targets or (frozen.identifies,) if declared else (frozen.subject,))
    return (owner_of(question.caller), agent, what)
