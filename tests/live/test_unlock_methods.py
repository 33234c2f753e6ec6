"""A real daemon whose vault wants the keyring's share as well: opened, refused, copied away, and opened otherwise."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from broker.client.approver import derive
from broker.client.control_answers import part
from broker.client.faults import Refused
from broker.contract.kdf import REDUCED_FLOOR, KdfParams
from broker.contract.unlock_methods import UnlockMethod
from broker.core.secret import Secret
from broker.daemon.keychain_process import command
from broker.daemon.shares import KeyShares
from broker.vault import Fault, Vault, VaultError
from broker.vault.keychain import CALL_S, Keychain
from broker.vault.unlocking import Given
from tests.fakes.keyrings import SessionKeyring
from tests.live.house import CHEAP, PASSPHRASE, House, until
from tests.live.terminal import Terminal
from tests.live.test_lock_while_unlocking import Opening

pytestmark = pytest.mark.live

BOTH = "passphrase+keyring"
NO_BUS = {"XDG_RUNTIME_DIR": "/nonexistent"}
STANDARD = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=4, salt=b"a salt of a test")
LOOSE_S = 12 * CALL_S  # for whatever is to end within its own limit, on a machine that is busy


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionKeyring]:
    with SessionKeyring(tmp_path / "k") as made:
        yield made


class KeyringHouse(House):
    """One whose daemon lives in the login session of a keyring."""

    def __init__(self, home: Path, session: SessionKeyring, *, kdf: KdfParams = CHEAP) -> None:
        super().__init__(home, kdf=kdf)
        self.environ = {**self.environ, "DBUS_SESSION_BUS_ADDRESS": session.environ["DBUS_SESSION_BUS_ADDRESS"]}


@pytest.fixture
def house(tmp_path: Path, session: SessionKeyring) -> Iterator[KeyringHouse]:
    with KeyringHouse(tmp_path / "h", session) as made:
        made.init(methods=[BOTH]).start()
        yield made


def state(house: House) -> object:
    return part(house.human.client.status(), "vault")["state"]


def methods(house: House) -> object:
    return part(house.human.client.status(), "vault")["methods"]


def refusal(house: House) -> tuple[str, str]:
    """Code and words of an unlock that is not one."""
    with pytest.raises(Refused) as refused:
        house.human.unlock()
    assert "locked" == state(house)
    return refused.value.code, str(refused.value)


def test_passphrase_and_share_open_it_and_a_copy_of_the_directory_does_not(
    house: KeyringHouse, session: SessionKeyring, tmp_path: Path
) -> None:
    assert [BOTH] == methods(house)
    house.human.unlock()
    house.human.open_session()
    house.human.add_bearer("shop", "canary-token-of-a-share", "https://shop.example")
    house.human.client.lock()
    house.human.unlock()
    assert "ready" == state(house)
    house.stop()

    copy = tmp_path / "copy"
    shutil.copytree(house.places.data, copy)
    kek = Secret(house.keys.vault_kek.reveal())
    with Vault.open(copy / "vault.db") as offline:
        for share in (None, Secret(secrets.token_bytes(32))):
            with pytest.raises(VaultError) as refused:
                offline.unlock(kek, share=share)
            assert Fault.SHARE_MISSING is refused.value.fault
    kept = kept_share(house, session)
    with Vault.open(copy / "vault.db") as offline:
        with pytest.raises(VaultError) as refused:
            offline.unlock(Secret(secrets.token_bytes(32)), share=kept)
        assert Fault.WRONG_PASSPHRASE is refused.value.fault
    with Vault.open(copy / "vault.db") as offline:
        offline.unlock(kek, share=kept)
        assert ["shop"] == [meta.name for meta in offline.credentials()]


def kept_share(house: House, session: SessionKeyring) -> Secret:
    """As a program of the session reads it."""
    with closing(Keychain(command(), session.environ)) as keychain:
        share = keychain.get(f"unlock-share/{house.log_id}")
    assert share is not None
    return share


def test_a_locked_a_dead_and_a_hung_keyring_are_told_and_hold_nothing_up(
    house: KeyringHouse, session: SessionKeyring
) -> None:
    session.lock()
    code, words = refusal(house)
    assert ("keyring", True) == (code, "it is locked" in words)
    session.end()
    session.start()
    with closing(Keychain(command(), session.environ)) as keychain:
        share = kept_share(house, session)
        keychain.remove(f"unlock-share/{house.log_id}")
        assert ("keyring", True) == told_of_missing(house)
        keychain.put(f"unlock-share/{house.log_id}", Secret(bytes(32)))
        assert ("keyring", True) == told_of_missing(house, "of another vault")
        keychain.put(f"unlock-share/{house.log_id}", share)
    house.human.unlock()
    house.human.client.lock()

    session.hang()
    code, words = refusal(house)
    assert ("keyring", True) == (code, "does not answer" in words)
    session.go_on()
    until(lambda: opened(house), limit_s=LOOSE_S)
    house.human.client.lock()

    session.end()
    session.end_bus()
    code, words = refusal(house)
    assert ("keyring", True) == (code, "start the daemon from within the login session" in words)
    assert not house.human.client.status()["frozen"], "and the daemon goes on"


def told_of_missing(house: House, words: str = "is not in the keyring") -> tuple[str, bool]:
    code, said = refusal(house)
    return code, words in said


def opened(house: House) -> bool:
    try:
        house.human.unlock()
    except Refused as refused:
        if refused.code != "keyring":
            raise
        return False
    return True


def test_a_lock_waits_for_no_keyring_and_calls_the_unlock_off(house: KeyringHouse, session: SessionKeyring) -> None:
    session.hang()
    kek = house.keys.vault_kek.reveal()
    asked = Opening(house, lambda client: client.unlock(kek))
    until(lambda: asks_keyring(house))
    assert "locked" == house.human.client.lock()["state"]
    assert "vault_locked" == asked.code(), "the lock came while it still waited"
    assert "locked" == state(house)


def asks_keyring(house: House) -> bool:
    """Whether the daemon has a child that talks to the keyring."""
    assert house.process is not None
    with suppress(OSError):
        for task in Path(f"/proc/{house.process.pid}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                if b"keychain_process" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return True
    return False


def test_methods_come_and_go_and_the_last_one_stays(house: KeyringHouse) -> None:
    human, key = house.human, house.key
    human.unlock()
    human.open_session()
    with pytest.raises(Refused, match="every program of the session"):
        human.client.add_method("keyring", None, key)
    with pytest.raises(Refused, match="does not open"):
        human.client.add_method("passphrase", Secret(bytes(32)), key)
    until(lambda: not slowed(lambda: human.client.add_method("passphrase", house.keys.vault_kek, key)))
    assert ["passphrase"] == human.client.remove_method(BOTH, key)["methods"]
    with pytest.raises(Refused, match="only unlock method"):
        human.client.remove_method("passphrase", key)
    human.client.lock()
    human.unlock()
    human.open_session()
    human.client.add_method(BOTH, house.keys.vault_kek, key)
    human.client.remove_method("passphrase", key)
    assert [BOTH] == methods(house)
    recorded = [
        (event["event"], event["fields"]["method"], event["fields"]["key"])
        for event in human.events()
        if event["event"].startswith("vault.method")
    ]
    assert [
        ("vault.method_added", "passphrase", key.key_id),
        ("vault.method_removed", BOTH, key.key_id),
        ("vault.method_added", BOTH, key.key_id),
        ("vault.method_removed", "passphrase", key.key_id),
    ] == recorded


def slowed(ask: Callable[[], object]) -> bool:
    """Whether it is not looked at yet, for a wrong passphrase came before."""
    try:
        ask()
    except Refused as refused:
        if refused.code != "wrong_passphrase":
            raise
        return True
    return False


def test_another_passphrase_keeps_the_share_and_may_not_be_cheaper_to_guess(house: KeyringHouse) -> None:
    human, old = house.human, house.keys.vault_kek
    human.unlock()
    human.open_session()
    dear = replace(house.kdf, iterations=2, salt=b"salt of another!")
    new = derive(Secret("canary words of another day"), dear, floor=REDUCED_FLOOR).vault_kek
    human.client.change_passphrase(old, new, dear.to_json(), house.key)
    with pytest.raises(Refused, match="cheaper"):
        human.client.change_passphrase(new, old, house.kdf.to_json(), house.key)
    human.client.lock()
    assert "wrong_passphrase" == refusal(house)[0]
    until(lambda: not slowed(lambda: human.client.unlock(new)))
    human.open_session()
    (changed,) = human.events("vault.passphrase_changed")
    assert house.key.key_id == changed["fields"]["key"]


def test_a_quarantined_one_is_taken_over_with_both_shares_and_not_with_one(
    house: KeyringHouse, session: SessionKeyring
) -> None:
    house.human.unlock()
    house.stop()
    older = house.places.data / "older.db"
    shutil.copy(house.places.vault, older)
    house.start().human.unlock()
    house.human.open_session()
    house.human.add_bearer("shop", "canary-token-of-a-share", "https://shop.example")
    house.stop()
    older.rename(house.places.vault)
    house.start()
    with pytest.raises(Refused, match="quarantined"):
        house.human.unlock()
    session.lock()
    with pytest.raises(Refused, match="it is locked"):
        house.human.readopt()
    assert "quarantined" == state(house)
    session.end()
    session.start()
    assert "generation_went_back" == house.human.readopt()["reason"]
    assert "ready" == state(house)


def test_the_interface_opens_it_and_says_in_whole_words_why_not(tmp_path: Path, session: SessionKeyring) -> None:
    with KeyringHouse(tmp_path / "ui", session, kdf=STANDARD) as house:
        house.init(methods=[BOTH]).start()
        session.lock()
        command = [sys.executable, "-I", "-m", "ui"]
        with Terminal("keyring", command, environ=dict(house.environ), size=(80, 24)) as window:
            window.until("LOCKED", "Passphrase")
            window.keys("-l", PASSPHRASE)
            window.keys("Enter")
            window.until("keyring", "it is locked", "open it there", limit_s=LOOSE_S)
            assert "locked" == state(house)
            session.end()
            session.start()
            window.keys("-l", PASSPHRASE)
            window.keys("Enter")
            window.until("+vault", "+approver", limit_s=LOOSE_S)
        assert "ready" == state(house)


def test_a_keyring_that_is_enough_opens_it_without_anybody_there(tmp_path: Path, session: SessionKeyring) -> None:
    """As in system mode; made by hand here, for whoever runs the tests may be a login user."""
    with KeyringHouse(tmp_path / "own", session) as house:
        house.init()
        share = secrets.token_bytes(32)
        with closing(KeyShares.of_session(session.environ, house.log_id)) as shares:
            shares.keep(Secret(share))
        with Vault.open(house.places.vault) as vault:
            vault.unlock(house.keys.vault_kek)
            vault.add_method(UnlockMethod.KEYRING, Given(share=Secret(share)))
            vault.remove_method(UnlockMethod.PASSPHRASE)
        house.start()
        assert ["keyring"] == methods(house)
        house.human.client.unlock(None)
        assert "ready" == state(house)
        house.human.client.lock()
        session.lock()
        with pytest.raises(Refused, match="it is locked"):
            house.human.client.unlock(None)


def test_the_command_line_makes_one_that_wants_the_keyring_and_no_half_of_one(
    tmp_path: Path, session: SessionKeyring
) -> None:
    with KeyringHouse(tmp_path / "cli", session) as house:
        without = {name: value for name, value in house.environ.items() if name != "DBUS_SESSION_BUS_ADDRESS"}
        refused = cli(house, "init", "--unlock", BOTH, "--kdf-cost", "least", environ={**without, **NO_BUS})
        assert 1 == refused.returncode
        assert (
            "the keyring of this session is absent: open it, or leave out --unlock passphrase+keyring" in refused.stderr
        )
        assert not house.places.vault.exists()
        assert not house.places.pin.exists()

        assert 0 == cli(house, "init", "--unlock", BOTH, "--kdf-cost", "least").returncode
        house.start()
        told = cli(house, "unlock")
        assert (0, "the vault is ready\n", "") == (told.returncode, told.stdout, told.stderr)
        assert BOTH in cli(house, "vault", "methods").stdout
        added = cli(house, "vault", "methods", "add", "passphrase")
        assert (0, True) == (added.returncode, "as strong as the weakest" in added.stdout)
        assert 0 == cli(house, "vault", "methods", "remove", BOTH).returncode
        session.end_bus()
        cli(house, "lock")
        assert 0 == cli(house, "unlock").returncode


def cli(house: House, *words: str, environ: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """A verb of a human who gives the passphrase by a descriptor."""
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode() + b"\n")
    os.close(writing)
    try:
        return subprocess.run(
            [sys.executable, "-I", "-m", "broker.cli", *words, "--passphrase-fd", str(reading)],
            env=house.environ if environ is None else environ,
            pass_fds=(reading,),
            capture_output=True,
            text=True,
            timeout=LOOSE_S,
            check=False,
        )
    finally:
        os.close(reading)
