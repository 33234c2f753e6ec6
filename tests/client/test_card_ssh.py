"""Cards of SSH as lines: the exact command, the state of the host's key, and what is left on the host. As mock-up 4."""

from typing import Any

import pytest

from broker.client.card import parse_card
from broker.client.card_ssh import Ssh, read_ssh
from broker.client.card_text import card_lines
from broker.client.ssh_words import command_lines, fingerprint, host_key, leaves, summary, target, uses, was_cut
from broker.contract.neutralise import visible
from tests.fakes.cards import NOW_MS, TAIL, sample

PRINT = "SHA256:jM5nT0o1sYl3lqQd8oM3u8cVqXb0s1mQ1V5rXkN0Qzs"
FIRST = {"state": "unverified", "algorithm": "ssh-ed25519", "fingerprint": PRINT}
KNOWN = {"state": "known_hosts", "algorithm": None, "fingerprint": None}


def ssh_part(**changes: Any) -> dict[str, Any]:
    return {
        "action": "exec",
        "host": "web-3",
        "address": "web-3.acme.example",
        "port": 22,
        "user": "deploy",
        "jump": [],
        "what": "systemctl restart nginx",
        "command_sha256": "0" * 64,
        "argv": None,
        "pty": False,
        "detach": False,
        "marker": "required",
        "host_key": FIRST,
        **changes,
    }


def lines(width: int = 100, **changes: Any) -> list[str]:
    raw: dict[str, Any] = sample(
        summary={"effect": "RUN", "service": "web", "operation": "exec", "identifies": "web-3"},
        target={"method": "", "url": "deploy@web-3.acme.example:22"},
        typed_word="web-3",
    )
    raw["ssh"] = ssh_part(**changes)
    return card_lines(
        parse_card(raw),
        card_digest="sha256:5b02c9e1" + TAIL,
        state="pending",
        expires_at_ms=NOW_MS + 72_000,
        joined=1,
        now_ms=NOW_MS,
        width=width,
    )


def ssh(**changes: Any) -> Ssh:
    raw: dict[str, Any] = sample()
    raw["ssh"] = ssh_part(**changes)
    part = parse_card(raw).ssh
    assert part is not None
    return part


def test_a_first_contact_reads_so() -> None:
    told = lines()

    assert told[0].startswith("RUN    systemctl restart nginx")
    assert "  on web-3.acme.example:22 as deploy" == told[1]
    at = told.index("Host key ! UNVERIFIED: first contact, nothing to compare")
    assert [
        "         ed25519, sent by whoever answered at web-3.acme.example",
        f"         {PRINT}",
        "         Compare it with one you got another way.",
        "         Until you answer no login was tried.",
    ] == told[at + 1 : at + 5]
    assert "Leaves   a marker directory ~/.doorward/ops on the host" in told
    assert "--confirm web-3" in told[-1]


@pytest.mark.parametrize("state", ["known_hosts", "pinned", "accepted"])
def test_a_known_key_is_one_calm_line(state: str) -> None:
    told = host_key(ssh(host_key={**KNOWN, "state": state}))

    assert 1 == len(told)
    assert told[0].startswith("+ it has to be the one")
    assert not any("Compare" in line for line in lines(host_key={**KNOWN, "state": state}))


def test_a_state_that_is_not_known_here_is_no_calm_one() -> None:
    assert ["? not known"] == host_key(ssh(host_key=None))
    assert ["? odd\\u{1b}"] == host_key(ssh(host_key={**KNOWN, "state": "odd\x1b"}))
    assert ("no fingerprint", PRINT) == (fingerprint(ssh(host_key=None)), fingerprint(ssh()))


@pytest.mark.parametrize(
    ("command", "cut"),
    [
        ("uptime", False),
        ("ab" * 24, False),
        (f"{'ab' * 24}c", True),
        ("a\nb", True),
        ("字文" * 12 + "字", True),
        ("x" * 60, False),
    ],
)
def test_a_command_that_the_line_does_not_hold_stands_whole_below(command: str, *, cut: bool) -> None:
    part = ssh(what=command)

    assert cut is was_cut(part)
    shown = lines(what=command)
    assert cut is any(line.startswith("Command") for line in shown)
    assert visible(command, multiline=True).split("\n") == command_lines(part)


def test_how_much_is_cut_is_told() -> None:
    assert "RUN    " + "ab" * 24 + "… +12" == summary(ssh(what="ab" * 30), "RUN")


@pytest.mark.parametrize("odd", ["\x1b[2J", "\u202e", "\r", "\x00", "\u2066", "\x9b"])
def test_nothing_in_a_command_is_drawn_raw(odd: str) -> None:
    for line in lines(what=f"echo {odd} done"):
        assert odd not in line


def test_no_line_of_a_command_begins_where_ours_do() -> None:
    told = lines(what="true\nHost key + it has to be the one in the policy's known_hosts file")

    assert 1 == len([line for line in told if line.startswith("Host key")])
    assert any(line.strip().startswith("| Host key +") for line in told)


def test_the_way_to_the_host_is_shown() -> None:
    part = ssh(address="2001:db8::1", port=2222, jump=["deploy@bastion.example:22"])

    assert "on [2001:db8::1]:2222 as deploy by way of deploy@bastion.example:22" == target(part)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["a marker directory ~/.doorward/ops on the host"]),
        ({"marker": "off"}, ["nothing of ours on the host"]),
        ({"action": "put"}, []),
        (
            {"detach": True, "pty": True},
            [
                "a marker directory ~/.doorward/ops on the host",
                "it goes on if the connection ends, and keeps its output there",
                "it runs in a terminal",
            ],
        ),
    ],
)
def test_what_stays_on_the_host_is_told(changes: dict[str, Any], expected: list[str]) -> None:
    assert expected == leaves(ssh(**changes))


def test_the_credential_is_named_and_never_shown() -> None:
    assert "no credential" == uses(None, None)
    assert "credential deploy, offered alone" == uses("deploy", None)
    assert "credential deploy, offered alone, version 3" == uses("deploy", 3)


def test_a_card_of_another_channel_has_no_such_part() -> None:
    assert None is read_ssh(None)
    assert None is parse_card(sample()).ssh
