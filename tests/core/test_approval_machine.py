"""Whatever happens to a card, in whatever order: one ending, one answer, and a yes that only a yes can make."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.contract.reasons import ApprovalState
from broker.core.approval import Happening, after, refusal


class CardMachine(RuleBasedStateMachine):
    """Several cards; events strike one of them or, as a lock or a freeze, all that wait."""

    @initialize(count=st.integers(1, 5))
    def put(self, count: int) -> None:
        self.states = [ApprovalState.PENDING] * count
        self.happened: list[list[Happening]] = [[] for _ in range(count)]

    def strike(self, number: int, happening: Happening) -> None:
        self.happened[number].append(happening)
        settled = after(self.states[number], happening)
        if settled is not None:
            self.states[number] = settled

    @rule(number=st.integers(0, 4), happening=st.sampled_from(Happening))
    def one(self, number: int, happening: Happening) -> None:
        self.strike(number % len(self.states), happening)

    @rule(happening=st.sampled_from([Happening.LOCKED, Happening.FROZEN, Happening.STOPPING]))
    def all(self, happening: Happening) -> None:
        for number in range(len(self.states)):
            self.strike(number, happening)

    @invariant()
    def the_first_thing_that_happens_settles_it(self) -> None:
        for state, happened in zip(self.states, self.happened, strict=True):
            assert (state is ApprovalState.PENDING) == (not happened)
            if happened:
                assert after(ApprovalState.PENDING, happened[0]) is state

    @invariant()
    def approved_means_that_a_yes_came_first(self) -> None:
        for state, happened in zip(self.states, self.happened, strict=True):
            assert (state is ApprovalState.APPROVED) == (happened[:1] == [Happening.APPROVED])

    @invariant()
    def everything_but_a_yes_has_a_refusal(self) -> None:
        for state, happened in zip(self.states, self.happened, strict=True):
            if state not in {ApprovalState.PENDING, ApprovalState.APPROVED}:
                assert refusal(happened[0]).message


CardMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestCards = CardMachine.TestCase
