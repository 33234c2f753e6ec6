"""Nothing that the agent's user can read lets it decide: decisions need the approver key, the key the passphrase."""

import base64
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.client.approver import ApproverKey, Keys, WrongPassphrase, create_key_file, derive, read_key_file
from broker.contract.kdf import REDUCED_FLOOR
from broker.contract.statements import policy_bytes
from broker.contract.unlock_methods import UnlockMethod
from broker.contract.wire import JsonValue
from broker.core.secret import Secret
from broker.vault import Vault, VaultError, verify
from tests.fakes.vaults import AUDIT_SK, CHEAP_KDF, LOG_ID, NOW_MS, ROOT_SEED, signed_policy

PASSPHRASE = "canary horse battery staple"


def first_policy() -> dict[str, JsonValue]:
    return {"policy_digest": "sha256:0", "counter": 1, "log_id": LOG_ID}


def keys_of(passphrase: str) -> Keys:
    return derive(Secret(passphrase), CHEAP_KDF, floor=REDUCED_FLOOR)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state directory as `init` leaves it."""
    keys = keys_of(PASSPHRASE)
    (tmp_path / "config").mkdir(0o700)
    public_key = create_key_file(tmp_path / "config" / "approver.key", LOG_ID, CHEAP_KDF, keys.approver_kek)
    Vault.create(
        tmp_path / "data" / "vault.db",
        kek=keys.vault_kek,
        kdf=CHEAP_KDF,
        log_id=LOG_ID,
        audit_sk=AUDIT_SK,
        root_seed=ROOT_SEED,
        approver_public_key=public_key,
        now_ms=NOW_MS,
    )
    return tmp_path


def test_no_file_holds_passphrase_derived_keys_or_signing_key(home: Path) -> None:
    keys = keys_of(PASSPHRASE)
    with ApproverKey.load(home / "config" / "approver.key", keys.approver_kek) as key:
        seed = bytes(key._seed)
    on_disk = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())

    for secret in (PASSPHRASE.encode(), seed, keys.vault_kek.reveal(), keys.approver_kek.reveal()):
        for spelled in (secret, secret.hex().encode(), base64.b64encode(secret)):
            assert spelled not in on_disk


def test_what_the_daemon_is_given_opens_no_approver_key(home: Path) -> None:
    with pytest.raises(WrongPassphrase):
        ApproverKey.load(home / "config" / "approver.key", keys_of(PASSPHRASE).vault_kek)


def test_what_an_open_vault_holds_makes_no_signature_of_the_approver(home: Path) -> None:
    message = policy_bytes(first_policy())
    with Vault.open(home / "data" / "vault.db") as vault:
        vault.unlock(keys_of(PASSPHRASE).vault_kek)
        in_reach = [vault.audit_sk(), vault.root_seed(), vault.derived_key("x"), Secret(vault.approver_keys()[0])]
        for secret in in_reach:
            signature = Ed25519PrivateKey.from_private_bytes(secret.reveal()).sign(message)
            assert verify(vault.approver_keys(), message, signature) is None


def test_a_key_file_of_the_agents_own_decides_nothing(home: Path) -> None:
    own = home / "own.key"
    create_key_file(own, LOG_ID, CHEAP_KDF, keys_of("the agent's own").approver_kek)
    own.replace(home / "config" / "approver.key")  # the agent may write where its user may
    with ApproverKey.load(home / "config" / "approver.key", keys_of("the agent's own").approver_kek) as key:
        signature = key.sign_policy(first_policy())
    with Vault.open(home / "data" / "vault.db") as vault:
        vault.unlock(keys_of(PASSPHRASE).vault_kek)

        assert verify(vault.approver_keys(), policy_bytes(first_policy()), signature) is None
        assert key.public_key not in vault.approver_keys()
        with pytest.raises(VaultError, match="no enrolled approver"):
            vault.trust_policy(signed_policy(1))


def test_no_approver_is_enrolled_by_writing_to_the_file(home: Path) -> None:
    path = home / "data" / "vault.db"
    with closing(sqlite3.connect(path)) as connection:
        columns = {
            row[1]
            for table in ("vault", "wraps", "records")
            for row in connection.execute(f"PRAGMA table_info({table})")
        }
        public_key = read_key_file(home / "config" / "approver.key").public_key
        dump = "\n".join(connection.iterdump()).lower()

    assert not {name for name in columns if "approver" in name or "public" in name}
    assert public_key.hex() not in dump


def test_the_share_of_a_keyring_opens_neither_the_vault_nor_the_approver_key(home: Path) -> None:
    """An open keyring is read by every program of the session: with both shares wanted, it is one of two."""
    share, keys = Secret(b"s" * 32), keys_of(PASSPHRASE)
    path = home / "both" / "vault.db"
    Vault.create(
        path,
        kek=keys.vault_kek,
        kdf=CHEAP_KDF,
        log_id=LOG_ID,
        audit_sk=AUDIT_SK,
        root_seed=ROOT_SEED,
        approver_public_key=read_key_file(home / "config" / "approver.key").public_key,
        now_ms=NOW_MS,
        methods=[UnlockMethod.BOTH],
        share=share,
    )
    for kek in (None, share, Secret(bytes(32)), keys.approver_kek):
        with Vault.open(path) as vault, pytest.raises(VaultError):
            vault.unlock(kek, share=share)
    with pytest.raises(WrongPassphrase):
        ApproverKey.load(home / "config" / "approver.key", share)
    with Vault.open(path) as vault:
        vault.unlock(keys.vault_kek, share=share)
