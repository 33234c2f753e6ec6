"""`doorward vault methods` and `passphrase`, and `unlock` where more than a passphrase is at hand."""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.client.approver import ApproverKey, WrongPassphrase, derive, read_key_file, rewrapped_beside, stage_rewrap
from broker.contract.kdf import KdfParams
from broker.core.secret import Secret
from tests.fakes.command_line import KDF, LOG_ID, PASSPHRASE, CommandLine, status
from tests.fakes.pinentries import giving, pinentry
from tests.fakes.unix_daemon import UnixDaemon

BOTH = "passphrase+keyring"
NEW = "canary words, other ones"
WRONG = (403, {"error": {"code": "wrong_passphrase", "message": "It does not open.", "retry_after_s": 0.01}})
NO_SHARE = (409, {"error": {"code": "keyring", "message": "The keyring is locked."}})
READY = (200, {"state": "ready", "term": 13})


def told(*methods: str, kdf: KdfParams = KDF, state: str = "ready") -> dict[str, object]:
    vault = {"state": state, "term": 12, "kdf": kdf.to_json(), "methods": list(methods)}
    return {**status(), "vault": vault}


@pytest.fixture
def daemon(cli: CommandLine) -> Iterator[UnixDaemon]:
    cli.make_key()
    with cli.control_daemon() as made:
        made.replies["GET /v1/status"] = (200, told("passphrase"))
        yield made


@contextmanager
def line(text: str) -> Iterator[int]:
    """A descriptor that holds one."""
    reading, writing = os.pipe()
    os.write(writing, text.encode() + b"\n")
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def kek(passphrase: str, kdf: KdfParams = KDF) -> str:
    return base64.b64encode(derive(Secret(passphrase), kdf).vault_kek.reveal()).decode()


def test_methods_are_listed_without_a_passphrase_and_the_weakest_is_named(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["GET /v1/status"] = (200, told("passphrase", BOTH))
    code, out, err = cli.run("vault", "methods")

    assert (0, "") == (code, err)
    assert ["passphrase", BOTH, "Each"] == [shown.split()[0] for shown in out.splitlines()]


def test_a_method_is_added_with_the_key_of_the_passphrase_and_a_signature(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/vault/methods"] = (200, {"methods": ["passphrase", BOTH]})
    code, out, _ = cli.run("vault", "methods", "add", BOTH, passphrase=PASSPHRASE)

    (body,) = daemon.bodies("POST /v1/vault/methods")
    assert (0, True) == (code, BOTH in out)
    assert ("vault.method.add", {"method": BOTH}) == (body["statement"]["verb"], body["statement"]["params"])
    assert {"kek_b64": kek(PASSPHRASE)} == body["secret"]


def test_a_method_is_removed_and_what_old_copies_still_do_is_said(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/vault/methods/remove"] = (200, {"methods": [BOTH]})
    code, out, _ = cli.run("vault", "methods", "remove", "passphrase", passphrase=PASSPHRASE)

    assert (0, True) == (code, "made before still open" in out)
    assert "secret" not in daemon.bodies("POST /v1/vault/methods/remove")[0]


@pytest.mark.parametrize(
    "words", [("add",), ("list", BOTH), ("remove",), ("add", "telepathy"), ("add", "keyring")], ids=" ".join
)
def test_a_method_that_makes_no_sense_is_refused_before_anybody_types(
    cli: CommandLine, daemon: UnixDaemon, words: tuple[str, ...]
) -> None:
    code, _, err = cli.run("vault", "methods", *words)

    assert (64, True) == (code, bool(err))
    assert [] == daemon.asked


def test_the_keyring_alone_is_refused_with_its_reason_at_the_making_too(cli: CommandLine) -> None:
    code, _, err = cli.run("init", "--unlock", "passphrase", "--unlock", "keyring")

    assert (1, True) == (code, "every program of the session reads an open keyring" in err)
    assert not cli.places.vault.exists()


def test_a_new_passphrase_opens_the_approver_key_and_goes_to_the_vault(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/vault/passphrase"] = (200, {"methods": ["passphrase"]})
    before = read_key_file(cli.places.approver_key)
    with line(NEW) as given:
        code, out, _ = cli.run(
            *("vault", "passphrase", "--kdf-cost", "least", "--new-passphrase-fd", str(given)), passphrase=PASSPHRASE
        )

    (body,) = daemon.bodies("POST /v1/vault/passphrase")
    after = read_key_file(cli.places.approver_key)
    assert (0, True) == (code, "is changed" in out)
    assert after.kdf.to_json() == body["statement"]["params"]["kdf"]
    assert {"old_kek_b64": kek(PASSPHRASE), "kek_b64": kek(NEW, after.kdf)} == body["secret"]
    assert (before.kdf.memory_kib, before.kdf.iterations) == (after.kdf.memory_kib, after.kdf.iterations)
    assert before.kdf.salt != after.kdf.salt
    opened = ApproverKey.load(cli.places.approver_key, derive(Secret(NEW), after.kdf).approver_kek)
    assert (before.public_key, LOG_ID) == (opened.public_key, opened.log_id)
    assert not rewrapped_beside(cli.places.approver_key).exists()


def test_a_vault_that_says_no_keeps_the_old_passphrase_on_both(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/vault/passphrase"] = NO_SHARE
    with line(NEW) as given:
        code, _, err = cli.run(
            *("vault", "passphrase", "--kdf-cost", "least", "--new-passphrase-fd", str(given)), passphrase=PASSPHRASE
        )

    assert (1, "doorward: The keyring is locked.\n") == (code, err)
    assert KDF == read_key_file(cli.places.approver_key).kdf
    assert not rewrapped_beside(cli.places.approver_key).exists()


def test_a_change_that_was_cut_off_is_finished_by_saying_it_again(cli: CommandLine, daemon: UnixDaemon) -> None:
    path, fresh = cli.places.approver_key, KdfParams(memory_kib=KDF.memory_kib, iterations=3, lanes=4, salt=b"s" * 16)
    new = derive(Secret(NEW), fresh)
    stage_rewrap(path, derive(Secret(PASSPHRASE), KDF).approver_kek, new.approver_kek, fresh)
    daemon.replies["POST /v1/thaw"] = (200, {"frozen": False})
    assert "a change of it was cut off: doorward vault passphrase" in cli.run("thaw", passphrase=NEW)[2]
    daemon.replies["GET /v1/status"] = (200, told("passphrase", kdf=fresh))
    code, out, _ = cli.run("vault", "passphrase")

    assert (0, True) == (code, "is finished" in out)
    assert LOG_ID == ApproverKey.load(path, new.approver_kek).log_id
    with pytest.raises(WrongPassphrase):
        ApproverKey.load(path, derive(Secret(PASSPHRASE), fresh).approver_kek)


def test_a_daemon_that_names_a_cheaper_derivation_than_the_approver_key_gets_nothing(
    cli: CommandLine, daemon: UnixDaemon
) -> None:
    cheaper = KdfParams(memory_kib=KDF.memory_kib, iterations=KDF.iterations, lanes=1, salt=b"salt of a thief!")
    path, dearer = cli.places.approver_key, KdfParams(memory_kib=KDF.memory_kib, iterations=4, lanes=4, salt=b"s" * 16)
    stage_rewrap(path, derive(Secret(PASSPHRASE), KDF).approver_kek, Secret(bytes(32)), dearer)
    rewrapped_beside(path).replace(path)
    daemon.replies["GET /v1/status"] = (200, told("passphrase", kdf=cheaper, state="locked"))
    code, _, err = cli.run("unlock", passphrase=PASSPHRASE)

    assert (1, True) == (code, "cheaper key derivation" in err)
    assert [] == daemon.bodies("POST /v1/unlock")


def test_where_the_keyring_is_enough_nobody_is_asked(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["GET /v1/status"] = (200, told("keyring", state="locked"))
    daemon.replies["POST /v1/unlock"] = READY

    assert 0 == cli.run("unlock")[0]
    assert [{}] == daemon.bodies("POST /v1/unlock")


def test_a_keyring_that_fails_leaves_the_passphrase_where_there_is_one(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["GET /v1/status"] = (200, told("keyring", "passphrase", state="locked"))
    daemon.replies["POST /v1/unlock"] = lambda asked: READY if b"kek" in asked.body else NO_SHARE
    code, _, err = cli.run("unlock", passphrase=PASSPHRASE)

    assert (0, "! The keyring is locked.\n") == (code, err)
    assert [{}, {"kek_b64": kek(PASSPHRASE)}] == daemon.bodies("POST /v1/unlock")


def test_pinentry_is_asked_again_with_the_reason_until_it_is_right(cli: CommandLine, daemon: UnixDaemon) -> None:
    answers = iter([WRONG, WRONG, READY])
    daemon.replies["POST /v1/unlock"] = lambda _: next(answers)
    program = giving(cli.home / "p", "canary%20words")
    code, out, _ = cli.run("unlock", "--pinentry", str(program))

    assert (0, "the vault is ready\n") == (code, out)
    said = program.with_name("record").read_text()
    assert 2 == said.count("SETERROR It does not open.")
    assert [{"kek_b64": kek("canary words")}] * 3 == daemon.bodies("POST /v1/unlock")


def test_three_wrong_ones_end_it(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/unlock"] = WRONG
    code, _, err = cli.run("unlock", "--pinentry", str(giving(cli.home / "p", "canary")))

    assert (1, "doorward: It does not open.\n") == (code, err)
    assert 3 == len(daemon.bodies("POST /v1/unlock"))


def test_a_closed_dialog_sends_nothing(cli: CommandLine, daemon: UnixDaemon) -> None:
    closed = pinentry(cli.home / "p", answer="say('ERR 83886179 cancelled')")
    code, _, err = cli.run("unlock", "--pinentry", str(closed))

    assert (1, "doorward: cancelled; nothing was done\n") == (code, err)
    assert [] == daemon.bodies("POST /v1/unlock")


def test_a_descriptor_goes_before_every_dialog(cli: CommandLine, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/unlock"] = READY
    program = giving(cli.home / "p", "canary")

    assert 0 == cli.run("unlock", "--pinentry", str(program), passphrase=PASSPHRASE)[0]
    assert [{"kek_b64": kek(PASSPHRASE)}] == daemon.bodies("POST /v1/unlock")
    assert not program.with_name("record").exists()
