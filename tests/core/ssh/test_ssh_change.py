"""Which change an SSH request makes, and small words about its parts."""

from dataclasses import replace

import pytest

from broker.core.frozen import FrozenRequest
from broker.core.ledger import are_one_change, change_key
from broker.core.resolve import resolve
from broker.core.ssh.card import payload, target_url, yes_session
from broker.core.ssh.change import ANYTHING, subject_of
from broker.core.ssh.commands import fault_of_pattern
from broker.core.ssh.frozen import LookUp
from broker.core.ssh.model import SshOperation
from broker.core.ssh.operation import fits_of
from tests.fakes import market
from tests.fakes.hosts import POLICY, command, ended, frozen, get, operation, put

TOUCH = frozen(command("touch x"))
SYSTEMCTL = "systemctl restart x"
OPEN = (
    f"true; {SYSTEMCTL}", f"true && {SYSTEMCTL}", f"{SYSTEMCTL} | cat", "$(echo systemctl) restart x",
    f"A=b {SYSTEMCTL}", f"(cd / && {SYSTEMCTL})", "s''ystemctl\\ restart", f"# it\n{SYSTEMCTL}", f"{SYSTEMCTL} > y",
    f"sh -c '{SYSTEMCTL}'", f"sudo -n bash -c '{SYSTEMCTL}'", "python3.11 x.py", ". x", "env -S 'systemctl restart x'",
    "env -Ssystemctl restart x", "env --split=systemctl restart x", "xargs systemctl", "sudo", "sudo -i",
)  # fmt: skip


def test_a_change_is_of_what_makes_it() -> None:
    assert {"program": "touch"} == subject_of(TOUCH)
    assert {"operation": "restart"} == subject_of(frozen(operation("restart", unit="x")))
    assert {"file": "a"} == subject_of(frozen(put("/a"))) == subject_of(frozen(get("/a")))
    assert {"file": "a"} == subject_of(frozen(put("b/a"))) == subject_of(frozen(put("/home/deploy/b/a")))
    assert {"of": "op_1"} == subject_of(replace(TOUCH, action=LookUp(operation_id="op_1", since=None)))


def test_a_name_of_a_host_is_one_however_it_is_spelled() -> None:
    spelled = replace(TOUCH, host=replace(TOUCH.host, address="WEB-1.example."))

    assert change_key(TOUCH) == change_key(spelled)


@pytest.mark.parametrize("text", OPEN)
def test_what_a_shell_or_an_interpreter_is_told_may_change_anything(text: str) -> None:
    key = change_key(frozen(command(text)))

    assert key is not None
    assert key.endswith(f"/{ANYTHING}")


def test_what_may_change_anything_meets_every_change_of_its_host_and_user_and_no_other() -> None:
    anything, other = (change_key(frozen(command(OPEN[0], host=f"web/{name}"))) for name in ("web-1", "web-2"))
    narrow = [
        change_key(frozen(ask)) for ask in (command("systemctl stop x"), operation("restart", unit="x"), put("/a"))
    ]
    http = change_key(market_request())
    assert None not in {anything, other, http, *narrow}

    for one in [key for key in narrow if key is not None]:
        assert are_one_change(str(anything), one)
        assert are_one_change(one, str(anything))
        assert not are_one_change(one, str(other))
        assert not are_one_change(str(http), one)
        assert [one] == [key for key in narrow if key is not None and are_one_change(one, key)]
    assert not are_one_change(str(http), str(anything))
    assert are_one_change(str(http), str(http))
    assert not are_one_change("a", "b")


def market_request() -> FrozenRequest:
    request = resolve(market.POLICY, market.CREATE)
    assert isinstance(request, FrozenRequest)
    return request


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
