from broker.server.rates import Rates


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at_s = 600.0

    def __call__(self) -> float:
        return self.at_s


def test_a_rule_is_used_up_after_its_number_and_not_before() -> None:
    rates = Rates(monotonic_s=Hand())

    assert [True, True, True, False] == [rates.take(("r",), 3) for _ in range(4)]


def test_rules_are_counted_apart_and_a_refusal_counts_under_none() -> None:
    rates = Rates(monotonic_s=Hand())
    rates.take(("a",), 1)

    assert not rates.take(("a", "b"), 1)
    assert rates.take(("b",), 1)


def test_a_burst_does_not_double_at_the_border_of_a_minute() -> None:
    clock = Hand()
    rates = Rates(monotonic_s=clock)
    clock.at_s = 659.0
    taken = sum(rates.take(("r",), 10) for _ in range(20))
    clock.at_s = 661.0
    taken += sum(rates.take(("r",), 10) for _ in range(20))

    assert 11 == taken


def test_after_a_quiet_minute_it_is_as_at_first() -> None:
    clock = Hand()
    rates = Rates(monotonic_s=clock)
    for _ in range(5):
        rates.take(("r",), 5)
    clock.at_s += 180.0

    assert rates.take(("other",), 5)
    assert 1 == len(rates)
    assert rates.take(("r",), 5)
