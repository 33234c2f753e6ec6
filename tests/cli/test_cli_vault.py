import base64

import pytest

from broker.client.approver import derive
from broker.core.secret import Secret
from tests.fakes.command_line import KDF, PASSPHRASE, CommandLine, status


def test_unlock_sends_a_derived_key_and_never_the_passphrase(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/unlock"] = (200, {"state": "ready", "term": 13})
        code, out, err = cli.run("unlock", passphrase=PASSPHRASE)

        kek = derive(Secret(PASSPHRASE), KDF).vault_kek.reveal()
        assert [{"kek_b64": base64.b64encode(kek).decode()}] == daemon.bodies("POST /v1/unlock")
        assert not any(PASSPHRASE.encode() in asked.body for asked in daemon.asked)
    assert (0, "the vault is ready\n", "") == (code, out, err)


def test_unlock_works_without_an_approver_key_of_ones_own(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/unlock"] = (200, {"state": "ready", "term": 13})

        assert 0 == cli.run("unlock", passphrase=PASSPHRASE)[0]


def test_a_daemon_of_another_log_gets_no_key(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/status"] = (200, status(log_id="another"))
        code, _, err = cli.run("unlock", passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/unlock")
    assert (1, True) == (code, "another log" in err)


@pytest.mark.parametrize("kdf", [None, {}, {**KDF.to_json(), "memory_kib": 8192, "iterations": 1}])
def test_a_daemon_that_asks_for_a_cheap_or_no_derivation_gets_no_key(cli: CommandLine, kdf: object) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/status"] = (200, {**status(), "vault": {"state": "locked", "term": 1, "kdf": kdf}})
        code, _, _ = cli.run("unlock", passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/unlock")
    assert code in {1, 31}


def test_a_wrong_passphrase_is_exit_1(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/unlock"] = (403, {"error": {"code": "wrong_passphrase", "message": "Wrong."}})

        assert (1, "", "doorward: Wrong.\n") == cli.run("unlock", passphrase="something else")


@pytest.mark.parametrize(
    ("verb", "reply", "line"),
    [
        ("lock", {"state": "locked", "term": 13}, "the vault is locked\n"),
        ("freeze", {"frozen": True}, "frozen: nothing new runs. To go on: doorward thaw\n"),
    ],
)
def test_taking_away_needs_no_passphrase(cli: CommandLine, verb: str, reply: object, line: str) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies[f"POST /v1/{verb}"] = (200, reply)

        assert (0, line, "") == cli.run(verb)
        assert [f"/v1/{verb}"] == [asked.path for asked in daemon.asked]


def test_thaw_is_signed(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/thaw"] = (200, {"frozen": False})
        code, _, _ = cli.run("thaw", passphrase=PASSPHRASE)

        body = daemon.bodies("POST /v1/thaw")[0]
        assert ("thaw", {}, 12) == tuple(body["statement"][name] for name in ("verb", "params", "vault_term"))
        assert 64 == len(base64.b64decode(body["signature"]))
    assert 0 == code


@pytest.mark.parametrize("passphrase", ["wrong one", "x" * 2000, ""])
def test_a_passphrase_that_does_not_open_the_key_signs_nothing(cli: CommandLine, passphrase: str) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        code, out, err = cli.run("thaw", passphrase=passphrase)

        assert [] == daemon.asked
    assert (1, "") == (code, out)
    assert passphrase not in err or not passphrase


def test_without_an_approver_key_the_remedy_is_named(cli: CommandLine) -> None:
    cli.places.config.mkdir(mode=0o700)
    code, _, err = cli.run("thaw", passphrase=PASSPHRASE)

    assert (1, True) == (code, "doorward init" in err)
