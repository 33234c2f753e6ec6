"""`doorward vault readopt`: what is shown, asked, signed and sent."""

import base64
import json

from broker.client.approver import derive, read_key_file
from broker.contract.statements import statement_bytes
from broker.core.secret import Secret
from broker.vault import verify
from tests.fakes.command_line import KDF, PASSPHRASE, CommandLine, status

STATEMENT = {"reason": "audit_altered", "verdict": "ALTERED", "seq": 567, "head": "a" * 64}
SHOWN = {
    "state": "quarantined",
    "reason": "audit_altered",
    "words": "records of the audit log were altered",
    "remedy": "restore what is missing, or look into it and take it over: doorward vault readopt",
    "adoptable": True,
    "lost": "what stood in the record 567",
    "proven": "records 0 to 566 of the audit log, by their signatures",
    "found": {
        "verdict": "ALTERED",
        "rung": "none",
        "pinned": True,
        "live": True,
        "segment": "00000003.seg",
        "offset": 1234,
        "seq": 567,
        "proven_to": 566,
        "records": 567,
        "note": "its hash does not fit\x1b[2J",
    },
    "statement": STATEMENT,
}
DONE = {"state": "ready", "term": 14, "known": True, "frozen": False}


def test_it_shows_what_was_found_and_signs_that(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/vault/quarantine"] = (200, SHOWN)
        daemon.replies["POST /v1/vault/readopt"] = (200, DONE)
        code, out, err = cli.run("vault", "readopt", "--yes", passphrase=PASSPHRASE)
        (sent,) = daemon.bodies("POST /v1/vault/readopt")
        assert not any(PASSPHRASE.encode() in asked.body for asked in daemon.asked)

    assert (0, "") == (code, err)
    for words in (
        "00000003.seg offset 1234 record 567",
        "lost    what stood",
        "proven  records 0 to 566",
        "known from now",
    ):
        assert words in out
    assert "\x1b" not in out
    keys = derive(Secret(PASSPHRASE), KDF)
    statement = sent["statement"]
    assert STATEMENT == statement["params"]
    assert ("vault.readopt", 12) == (statement["verb"], statement["vault_term"])
    assert base64.b64encode(keys.vault_kek.reveal()).decode() == sent["kek_b64"]
    with read_key_file(cli.places.approver_key).opened(keys.approver_kek) as key:
        signature = base64.b64decode(sent["signature"])
        assert key.key_id == verify([key.public_key], statement_bytes(statement), signature)


def test_json_goes_to_standard_output_alone(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/vault/quarantine"] = (200, SHOWN)
        daemon.replies["POST /v1/vault/readopt"] = (200, {**DONE, "frozen": True})
        code, out, err = cli.run("vault", "readopt", "--yes", "--json", passphrase=PASSPHRASE)

    assert 0 == code
    assert {**DONE, "frozen": True} == json.loads(out)
    assert "quarantined (audit_altered)" in err


def test_a_freeze_that_stays_is_said(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/vault/quarantine"] = (200, {**SHOWN, "found": None})
        daemon.replies["POST /v1/vault/readopt"] = (200, {**DONE, "frozen": True, "known": False})
        _, out, _ = cli.run("vault", "readopt", "--yes", passphrase=PASSPHRASE)

    assert "doorward thaw" in out
    assert "known from now" not in out


def test_nothing_is_asked_where_nothing_is_quarantined(cli: CommandLine) -> None:
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/vault/quarantine"] = (200, {"state": "ready", "reason": None})
        assert (0, "the vault is not quarantined: there is nothing to take over\n", "") == cli.run("vault", "readopt")


def test_what_needs_a_backup_is_not_asked_for(cli: CommandLine) -> None:
    cli.make_key()
    told = {**SHOWN, "reason": "record_changed", "adoptable": False, "remedy": "restore the vault from a backup"}
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/vault/quarantine"] = (200, told)
        code, _, err = cli.run("vault", "readopt", "--yes", passphrase=PASSPHRASE)
        assert [] == daemon.bodies("POST /v1/vault/readopt")
    assert (1, True) == (code, "restore the vault from a backup" in err)


def test_a_daemon_of_another_log_gets_no_key(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/status"] = (200, status(log_id="another"))
        daemon.replies["GET /v1/vault/quarantine"] = (200, SHOWN)
        code, _, err = cli.run("vault", "readopt", "--yes", passphrase=PASSPHRASE)
        assert [] == daemon.bodies("POST /v1/vault/readopt")
    assert "another log" in err
    assert 0 != code
