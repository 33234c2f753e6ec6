"""`doorward host-keys`: which keys were accepted, and how one is forgotten."""

import pytest

from broker.contract.wire import JsonValue, parse_object
from tests.fakes.cards import NOW_MS
from tests.fakes.command_line import PASSPHRASE, CommandLine

KEY: dict[str, JsonValue] = {
    "host": "web-3\u202e",
    "address": "10.0.4.13",
    "port": 22,
    "algorithm": "ssh-ed25519",
    "fingerprint": "SHA256:abc",
    "accepted_at_ms": NOW_MS,
}
OTHER = KEY | {"host": "web-3", "address": "10.0.4.14"}


def test_keys_are_listed(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        cli.make_key()
        daemon.replies["GET /v1/host-keys"] = (200, {"host_keys": [KEY]})
        code, out, _ = cli.run("host-keys", "list", passphrase=PASSPHRASE)
        machine = cli.run("host-keys", "list", "--json", passphrase=PASSPHRASE)[1]

    assert 0 == code
    assert ["web-3\\u{202e}", "10.0.4.13:22", "SHA256:abc"] == out.splitlines()[1].split()[:3]
    assert {"host_keys": [KEY]} == parse_object(machine.encode())


def test_an_empty_list_says_so(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        cli.make_key()
        daemon.replies["GET /v1/host-keys"] = (200, {"host_keys": []})

        assert "no key was accepted at a first contact\n" == cli.run("host-keys", "list", passphrase=PASSPHRASE)[1]


@pytest.mark.parametrize(("name", "address"), [("web-3", "10.0.4.14"), ("10.0.4.13:22", "10.0.4.13")])
def test_one_is_forgotten_by_a_signed_word(cli: CommandLine, name: str, address: str) -> None:
    with cli.control_daemon() as daemon:
        cli.make_key()
        daemon.replies["GET /v1/host-keys"] = (200, {"host_keys": [KEY, OTHER]})
        daemon.replies["POST /v1/host-keys/forget"] = (200, {"forgotten": True})
        code, out, err = cli.run("host-keys", "forget", name, "--yes", passphrase=PASSPHRASE)
        (body,) = daemon.bodies("POST /v1/host-keys/forget")

    assert (0, "") == (code, err)
    assert "asks anew" in out
    assert ("host_key.forget", {"address": address, "port": 22}) == (
        body["statement"]["verb"], body["statement"]["params"],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["web-9", "10.0.4.15:22", ""])
def test_a_host_without_one_is_told(cli: CommandLine, name: str) -> None:
    with cli.control_daemon() as daemon:
        cli.make_key()
        daemon.replies["GET /v1/host-keys"] = (200, {"host_keys": [KEY]})
        code, _, err = cli.run("host-keys", "forget", name, "--yes", passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/host-keys/forget")
    assert 0 != code
    assert "host-keys list" in err
