"""A lock calls off what was asked for before it, and nothing that is asked for after it."""

import pytest

from broker.daemon.openings import Openings, refuse_called_off
from broker.server.faults import ControlError


def test_every_opening_that_is_under_way_or_waits_is_called_off() -> None:
    openings = Openings()
    with openings.begin() as first, openings.begin() as second:
        before = (first.is_set(), second.is_set())
        openings.call_off()

        assert ((False, False), (True, True)) == (before, (first.is_set(), second.is_set()))


def test_an_opening_that_is_asked_for_after_the_lock_is_meant() -> None:
    openings = Openings()
    with openings.begin():
        openings.call_off()
        with openings.begin() as later:
            assert not later.is_set()


def test_an_opening_that_has_ended_is_called_off_no_more() -> None:
    openings = Openings()
    with openings.begin() as ended:
        pass
    openings.call_off()

    assert not ended.is_set()


def test_only_what_is_called_off_is_refused() -> None:
    refuse_called_off(None)
    openings = Openings()
    with openings.begin() as called_off:
        refuse_called_off(called_off)
        openings.call_off()
        with pytest.raises(ControlError, match="locked while it was being opened") as refused:
            refuse_called_off(called_off)

    assert "vault_locked" == refused.value.code
