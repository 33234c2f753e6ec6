import threading
from pathlib import Path

import pytest

from broker.contract.kdf import KdfParams
from broker.contract.reasons import VaultState
from broker.core.credential import (
    BearerSecret,
)
from broker.core.secret import Secret
from broker.vault import (
    Fault,
    Opened,
    QuarantineReason,
    UnlockTooSoon,
    Vault,
    VaultError,
    VaultLocked,
    VaultQuarantined,
    WrongPassphrase,
)
from tests.fakes.vaults import (
    APPROVER_KEY,
    AUDIT_SK,
    CHEAP_KDF,
    KEK,
    LOG_ID,
    NOW_MS,
    ROOT_SEED,
    WRONG_KEK,
    StillClock,
    bearer,
    new_vault,
)

URL = "https://api.example.com/x"
HEAD = "0" * 63 + "1"


def test_a_new_vault_is_locked_and_says_what_a_client_needs(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        assert VaultState.LOCKED == vault.state
        assert LOG_ID == vault.log_id
        assert CHEAP_KDF == vault.kdf
        assert 0.0 == vault.retry_after_s
        assert vault.quarantine_reason is None


def test_the_term_grows_at_each_change_of_state_and_each_opening(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    terms = []
    for _ in range(2):
        with Vault.open(path) as vault:
            terms.append(vault.term)
            vault.unlock(KEK)
            terms.append(vault.term)
            vault.lock()
            terms.append(vault.term)
            vault.lock()
            assert terms[-1] == vault.term
            vault.unlock(KEK)
            vault.add_credential(bearer(f"c{len(terms)}", "canary-c"), now_ms=NOW_MS)
            terms.append(vault.term)

    assert sorted(set(terms)) == terms
    with Vault.open(path) as vault:
        assert vault.term > terms[-1]


def test_a_vault_that_was_never_locked_comes_back_locked_under_a_new_term(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    killed = Vault.open(path)
    killed.unlock(KEK)
    with Vault.open(path) as vault:  # as after kill -9: nobody locked it
        assert VaultState.LOCKED == vault.state
        assert vault.term > killed.term
    with pytest.raises(VaultQuarantined):
        killed.close()


def test_a_wrong_passphrase_changes_nothing(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path), monotonic_s=StillClock()) as vault:
        before = (vault.term, vault.generation, vault.state)
        with pytest.raises(WrongPassphrase) as wrong:
            vault.unlock(WRONG_KEK)

        assert before == (vault.term, vault.generation, vault.state)
        assert wrong.value.retry_after_s == vault.retry_after_s > 0


def test_a_key_of_the_wrong_length_is_a_wrong_passphrase(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault, pytest.raises(WrongPassphrase):
        vault.unlock(Secret(b"short"))


def test_wrong_passphrases_are_slowed_more_and_more_up_to_a_limit(tmp_path: Path) -> None:
    clock = StillClock()
    waits = []
    with Vault.open(new_vault(tmp_path), monotonic_s=clock) as vault:
        for _ in range(12):
            with pytest.raises(WrongPassphrase) as wrong:
                vault.unlock(WRONG_KEK)
            waits.append(wrong.value.retry_after_s)
            clock.now_s += waits[-1]

        assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0] == waits[:6]
        assert 30.0 == max(waits)
        vault.unlock(KEK)
        assert VaultState.READY == vault.state


def test_within_the_wait_even_the_right_passphrase_is_not_looked_at(tmp_path: Path) -> None:
    clock = StillClock()
    with Vault.open(new_vault(tmp_path), monotonic_s=clock) as vault:
        with pytest.raises(WrongPassphrase):
            vault.unlock(WRONG_KEK)
        for _ in range(3):
            with pytest.raises(UnlockTooSoon) as early:
                vault.unlock(KEK)
            assert 1.0 == early.value.retry_after_s
        clock.now_s += 1.0
        vault.unlock(KEK)

        assert 0.0 == vault.retry_after_s


def test_unlocking_a_ready_vault_checks_the_passphrase_and_changes_nothing(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        before = (vault.term, vault.generation)
        vault.unlock(KEK)
        with pytest.raises(WrongPassphrase):
            vault.unlock(WRONG_KEK)

        assert (*before, VaultState.READY) == (vault.term, vault.generation, vault.state)


def test_while_unlocking_nothing_can_be_had_and_a_check_may_refuse(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        seen: list[object] = []

        def judge(opened: object) -> QuarantineReason:
            seen.append((vault.state, vault.covers("a", URL), vault.credential_version("a"), opened is not None))
            return QuarantineReason.GENERATION_WENT_BACK

        with pytest.raises(VaultQuarantined) as refused:
            vault.unlock(KEK, check=judge)
        assert [(VaultState.UNLOCKING, False, None, True)] == seen
        assert QuarantineReason.GENERATION_WENT_BACK == refused.value.reason == vault.quarantine_reason
        assert VaultState.QUARANTINED == vault.state

    with Vault.open(path) as vault:
        assert VaultState.QUARANTINED == vault.state
        with pytest.raises(VaultQuarantined):
            vault.unlock(KEK)


def test_a_check_that_breaks_leaves_the_vault_locked(tmp_path: Path) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("the log can't be read")

    with Vault.open(new_vault(tmp_path)) as vault:
        with pytest.raises(RuntimeError):
            vault.unlock(KEK, check=broken)
        states = [vault.state]
        vault.unlock(KEK)
        assert [VaultState.LOCKED, VaultState.READY] == [*states, vault.state]


def test_locking_wipes_the_key_of_a_snapshot_in_use(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        taken: list[Opened] = []
        vault.unlock(KEK, check=taken.append)
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
        snapshot = vault._in_use()
        vault.lock()

        assert bytes(32) == bytes(snapshot.records.key._key)
        for opened in (snapshot, *taken):
            with pytest.raises(VaultLocked):
                opened.audit_keys()
            with pytest.raises(VaultLocked):
                opened.derived_key("ledger")


def test_quarantine_lasts_until_a_human_adopts_the_vault(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        vault.remember_audit_head(900, HEAD)
        vault.quarantine(QuarantineReason.AUDIT_MISMATCH)
        term = vault.term
    with Vault.open(path) as vault:
        with pytest.raises(WrongPassphrase):
            vault.readopt(WRONG_KEK)
        assert VaultState.QUARANTINED == vault.state
    with Vault.open(path) as vault:
        vault.readopt(KEK, generation_floor=5000)

        assert VaultState.READY == vault.state
        assert vault.term > term
        assert 5000 < vault.generation
        assert vault.audit_head() is None
        with pytest.raises(VaultError) as refused:
            vault.readopt(KEK)
        assert Fault.NOT_QUARANTINED == refused.value.fault
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert VaultState.READY == vault.state


def test_another_passphrase_opens_the_same_vault(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    fresh = Secret(b"f" * 32)
    fresh_kdf = KdfParams(memory_kib=8192, iterations=2, lanes=1, salt=b"another-salt-16b")
    with Vault.open(path, monotonic_s=StillClock()) as vault:
        vault.rewrap(KEK, fresh, fresh_kdf)
        assert (VaultState.LOCKED, fresh_kdf) == (vault.state, vault.kdf)
        vault.unlock(fresh)
        vault.lock()
        with pytest.raises(WrongPassphrase):
            vault.rewrap(KEK, fresh, fresh_kdf)
    with Vault.open(path) as vault:
        assert fresh_kdf == vault.kdf
        vault.unlock(fresh)
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
        vault.rewrap(fresh, KEK, CHEAP_KDF)
        assert BearerSecret(token=Secret("canary-a")) == vault.secret_of("a", 1)
        with pytest.raises(VaultError, match="bytes"):
            vault.rewrap(KEK, Secret(b"short"), CHEAP_KDF)
        vault.lock()
        vault.unlock(KEK)
        assert BearerSecret(token=Secret("canary-a")) == vault.secret_of("a", 1)


def test_creation_refuses_what_is_there_and_leaves_it(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    before = path.read_bytes()
    with pytest.raises(VaultError) as refused:
        new_vault(tmp_path, kek=WRONG_KEK)

    assert Fault.EXISTS == refused.value.fault
    assert before == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kek", Secret(b"k" * 31)),
        ("audit_sk", Secret(b"")),
        ("root_seed", Secret(b"r" * 33)),
        ("approver_public_key", b"short"),
        ("log_id", ""),
        ("log_id", "a\nb"),
        ("log_id", "x" * 129),
    ],
)
def test_creation_refuses_odd_values(tmp_path: Path, name: str, value: object) -> None:
    values: dict[str, object] = {
        "kek": KEK,
        "kdf": CHEAP_KDF,
        "log_id": LOG_ID,
        "audit_sk": AUDIT_SK,
        "root_seed": ROOT_SEED,
        "approver_public_key": APPROVER_KEY,
        "now_ms": NOW_MS,
    }
    with pytest.raises(VaultError) as refused:
        Vault.create(tmp_path / "data" / "vault.db", **(values | {name: value}))  # type: ignore[arg-type]  # odd on purpose

    assert Fault.INVALID == refused.value.fault
    assert not (tmp_path / "data").exists()


def test_reading_goes_on_beside_writing_and_locking(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
        wrong: list[object] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                try:
                    if vault.secret_of("a", 1) != BearerSecret(token=Secret("canary-a")):
                        wrong.append("another value")
                except VaultLocked:
                    pass
                except BaseException as error:  # noqa: BLE001 - whatever else comes is what this test looks for
                    wrong.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        for round_ in range(3):
            vault.add_credential(bearer(f"c{round_}", "canary-c"), now_ms=NOW_MS)
            vault.lock()
            vault.unlock(KEK)
        done.set()
        reader.join(10)

        assert [] == wrong
