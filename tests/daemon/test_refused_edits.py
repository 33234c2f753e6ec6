"""What of refused policy edits goes on record: each state once, and no flood of them."""

from broker.daemon.refused_edits import EDITS_PER_HOUR, RefusedEdits
from tests.fakes.clock import SetClock


def test_each_state_is_recorded_once_until_another_comes_between() -> None:
    edits = RefusedEdits(SetClock().monotonic_s)

    assert 0 == edits.due("a fault")
    edits.recorded()
    assert None is edits.due("a fault")
    assert 0 == edits.due("another fault")
    edits.recorded()
    assert 0 == edits.due("a fault"), "it came back after another"
    edits.recorded()
    assert None is edits.due(None)
    assert 0 == edits.due("a fault"), "it came back after a good one"


def test_what_the_log_did_not_take_is_due_again() -> None:
    edits = RefusedEdits(SetClock().monotonic_s)

    assert 0 == edits.due("a fault \udcff")
    edits.not_recorded()
    assert 0 == edits.due("a fault \udcff")


def test_who_edits_in_a_loop_is_recorded_so_often_and_counted_from_then_on() -> None:
    clock = SetClock()
    edits = RefusedEdits(clock.monotonic_s)
    recorded = 0
    for number in range(1000):
        if edits.due(f"fault {number}") is not None:
            edits.recorded()
            recorded += 1
    assert EDITS_PER_HOUR == recorded

    clock.advance(seconds=3601)
    assert 1000 - EDITS_PER_HOUR == edits.due("a later fault")
    edits.recorded()
    assert 0 == edits.due("the next")
