"""Which change an SSH request makes, and small words about its parts."""

from dataclasses import replace

import pytest

from broker.core.ssh.card import payload, target_url, yes_session
from broker.core.ssh.change import facts_of_change
from broker.core.ssh.commands import fault_of_pattern
from broker.core.ssh.frozen import LookUp
from broker.core.ssh.model import SshOperation
from broker.core.ssh.operation import fits_of
from tests.fakes.hosts import POLICY, command, ended, frozen, get, operation, put

TOUCH = frozen(command("touch x"))


def test_a_change_is_of_its_place_and_of_what_makes_it() -> None:
    place = {"ssh": "web-1.example", "port": 22, "user": "deploy"}

    assert place | {"program": "touch"} == facts_of_change(TOUCH)
    assert place | {"operation": "restart"} == facts_of_change(frozen(operation("restart", unit="x")))
    assert place | {"file": "/a"} == facts_of_change(frozen(put("/a"))) == facts_of_change(frozen(get("/a")))
    assert place | {"of": "op_1"} == facts_of_change(replace(TOUCH, action=LookUp(operation_id="op_1", since=None)))


def test_a_name_of_a_host_is_one_however_it_is_spelled() -> None:
    spelled = replace(TOUCH, host=replace(TOUCH.host, address="WEB-1.example."))

    assert facts_of_change(TOUCH) == facts_of_change(spelled)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "names no word"),
        ("  ", "names no word"),
        ("ls ** x", "at the end"),
        ("ls a*", "a whole word"),
        ("* x", "spelled out"),
        ("**", "spelled out"),
    ],
)
def test_a_pattern_at_fault_is_told(pattern: str, says: str) -> None:
    assert says in (fault_of_pattern(pattern) or "")


def test_the_most_literal_operation_is_the_one_whatever_their_order() -> None:
    settings = POLICY.services["web"].ssh
    assert settings is not None
    both = [settings.operations["nginx"], settings.operations["restart"]]

    def names(operations: list[SshOperation]) -> list[str]:
        return [fit.operation.name for fit in fits_of(operations, TOUCH.host, ("systemctl", "restart", "nginx"))]

    assert ["nginx"] == names(both) == names(both[::-1])


def test_an_outcome_shows_no_output_where_it_is_printed() -> None:
    assert "canary" not in repr(ended(0, b"canary", b"canary", said=b"canary"))


def test_a_transfer_from_there_carries_nothing_and_is_called_one() -> None:
    asked = frozen(get("/etc/motd"))

    assert b"" == payload(asked)
    assert "this very transfer, on web-1 as deploy, again" == yes_session(asked)
    assert "deploy@[2001:db8::1]:22" == target_url(replace(asked, host=replace(asked.host, address="2001:db8::1")))
