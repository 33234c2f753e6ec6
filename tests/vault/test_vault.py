from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.core.credential import (
    BasicSecret,
    BearerSecret,
    CredentialKind,
    CredentialSecret,
    HeaderSecret,
    parse_binding,
)
from broker.core.ledger import LedgerMark
from broker.core.secret import Secret
from broker.vault import (
    AuditHead,
    Fault,
    QuarantineReason,
    TrustedPolicy,
    Vault,
    VaultError,
    VaultLocked,
    VaultQuarantined,
)
from tests.fakes.vaults import (
    APPROVER_KEY,
    AUDIT_SK,
    KEK,
    NOW_MS,
    ROOT_SEED,
    bearer,
    credential,
    new_vault,
    signed_policy,
)

URL = "https://api.example.com/x"
HEAD = "0" * 63 + "1"


def test_what_was_put_in_comes_out_after_a_restart(tmp_path: Path) -> None:
    secrets: dict[str, CredentialSecret] = {
        "a": BearerSecret(token=Secret("canary-a")),
        "b": BasicSecret(username="deploy", password=Secret("canary-b")),
        "c": HeaderSecret(header="X-Key", template="t {value}", value=Secret("canary-c")),
    }
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        for name, secret in secrets.items():
            vault.add_credential(credential(name, secret, URL, "https://b.example"), now_ms=NOW_MS)
        vault.trust_policy(signed_policy(1))
        vault.remember_audit_head(7, HEAD)

    with Vault.open(path) as vault:
        vault.unlock(KEK)

        assert secrets == {name: vault.secret_of(name, 1) for name in secrets}
        assert ["a", "b", "c"] == [meta.name for meta in vault.credentials()]
        assert [CredentialKind.BEARER, CredentialKind.BASIC, CredentialKind.HEADER] == [
            meta.kind for meta in vault.credentials()
        ]
        assert {(parse_binding(URL), parse_binding("https://b.example"))} == {m.bindings for m in vault.credentials()}
        assert signed_policy(1) == vault.trusted_policy()
        assert AuditHead(seq=7, h=HEAD) == vault.audit_head()
        assert (APPROVER_KEY,) == vault.approver_keys()
        assert (AUDIT_SK, ROOT_SEED) == (vault.audit_sk(), vault.root_seed())


@pytest.mark.parametrize(
    "ask",
    [
        lambda vault: vault.credentials(),
        lambda vault: vault.secret_of("a", 1),
        lambda vault: vault.approver_keys(),
        lambda vault: vault.trusted_policy(),
        lambda vault: vault.audit_sk(),
        lambda vault: vault.root_seed(),
        lambda vault: vault.audit_head(),
        lambda vault: vault.known_damage(),
        lambda vault: vault.sign_as_root(b"x"),
        lambda vault: vault.derived_key("ledger"),
        lambda vault: vault.add_credential(bearer("b", "canary-b"), now_ms=NOW_MS),
        lambda vault: vault.rotate_credential("a", Secret("canary-b"), now_ms=NOW_MS),
        lambda vault: vault.confirm_rotation("a"),
        lambda vault: vault.undo_rotation("a", now_ms=NOW_MS),
        lambda vault: vault.rebind_credential("a", (parse_binding(URL),), Secret("canary-b"), now_ms=NOW_MS),
        lambda vault: vault.remove_credential("a"),
        lambda vault: vault.trust_policy(signed_policy(1)),
        lambda vault: vault.remember_audit_head(1, HEAD),
    ],
)
def test_a_locked_or_quarantined_vault_answers_nothing(tmp_path: Path, ask: Callable[[Vault], object]) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        with pytest.raises(VaultLocked):
            ask(vault)
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
        vault.lock()
        with pytest.raises(VaultLocked):
            ask(vault)
        vault.quarantine(QuarantineReason.AUDIT_MISMATCH)
        with pytest.raises(VaultQuarantined):
            ask(vault)


def test_the_generation_grows_at_each_sealed_write(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        before = vault.generation
        vault.add_credential(bearer("a", "canary-1"), now_ms=NOW_MS)
        vault.remember_audit_head(1, HEAD)
        vault.remember_audit_head(1, HEAD)

        assert before + 2 == vault.generation


def test_a_policy_is_trusted_under_the_next_counter_alone(tmp_path: Path) -> None:
    path = new_vault(tmp_path)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert vault.trusted_policy() is None
        for counter in (0, 2):
            with pytest.raises(VaultError) as stale:
                vault.trust_policy(signed_policy(counter))
            assert Fault.STALE_COUNTER == stale.value.fault
        vault.trust_policy(signed_policy(1))
        vault.trust_policy(signed_policy(2))
        assert signed_policy(2) == vault.trusted_policy()


def unsigned(**changes: object) -> TrustedPolicy:
    policy = signed_policy(1)
    values = {name: getattr(policy, name) for name in ("files", "digest", "counter", "signature", "approver")}
    return TrustedPolicy(**(values | changes))


@pytest.mark.parametrize(
    "policy",
    [
        signed_policy(1, signer=Ed25519PrivateKey.from_private_bytes(b"x" * 32)),
        signed_policy(1, log_id="another-log"),
        unsigned(digest="sha256:" + "f" * 64),
        unsigned(signature=b""),
        unsigned(signature=bytes(64)),
        unsigned(approver="0" * 16),
    ],
)
def test_a_policy_that_no_enrolled_approver_signed_for_this_log_is_refused(
    tmp_path: Path, policy: TrustedPolicy
) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        with pytest.raises(VaultError) as refused:
            vault.trust_policy(policy)

        assert Fault.BAD_SIGNATURE == refused.value.fault
        assert vault.trusted_policy() is None


def test_a_policy_beyond_all_measure_is_refused(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        with pytest.raises(VaultError) as full:
            vault.trust_policy(unsigned(files=(("a.toml", bytes((4 << 20) + 1)),)))
        assert Fault.FULL == full.value.fault
        vault.trust_policy(unsigned(files=(("a.toml", bytes(4 << 20)),)))
        vault.lock()
        vault.unlock(KEK)
        policy = vault.trusted_policy()
        assert policy is not None
        assert 4 << 20 == len(policy.files[0][1])


def test_the_remembered_audit_head_never_goes_back(tmp_path: Path) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        assert vault.audit_head() is None
        vault.remember_audit_head(7, HEAD)
        for seq, h in ((6, HEAD), (7, "f" * 64)):
            with pytest.raises(VaultError) as refused:
                vault.remember_audit_head(seq, h)
            assert Fault.HEAD_WENT_BACK == refused.value.fault
        for seq, h in ((-1, HEAD), (8, "F" * 64), (8, "")):
            with pytest.raises(VaultError) as odd:
                vault.remember_audit_head(seq, h)
            assert Fault.INVALID == odd.value.fault


def test_derived_keys_are_lasting_and_one_per_purpose_and_vault(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with Vault.open(new_vault(tmp_path / "one")) as vault, Vault.open(new_vault(tmp_path / "two")) as other:
        vault.unlock(KEK)
        other.unlock(KEK)
        key = vault.derived_key("ledger/fingerprints")
        vault.lock()
        vault.unlock(KEK)

        assert 32 == len(key)
        assert key == vault.derived_key("ledger/fingerprints")
        assert key != vault.derived_key("ledger/results")
        assert key != other.derived_key("ledger/fingerprints")
        for purpose in ("", "Ledger", "a b", "x" * 65, "a\n"):
            with pytest.raises(VaultError):
                vault.derived_key(purpose)


def test_the_ledger_that_belongs_to_it_is_remembered_with_the_head(tmp_path: Path) -> None:
    path, mark = new_vault(tmp_path), LedgerMark(id="abc", generation=7)
    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert vault.ledger_mark() is None
        vault.remember_audit_head(7, HEAD, segment=2, offset=99, at_ms=5, ledger=mark)
        before = vault.generation
        vault.remember_audit_head(7, HEAD, ledger=mark)
        vault.remember_audit_head(7, HEAD)
        assert before == vault.generation, "nothing new is not written"

    with Vault.open(path) as vault:
        vault.unlock(KEK)
        assert mark == vault.ledger_mark()
        assert AuditHead(seq=7, h=HEAD, segment=2, offset=99, at_ms=5) == vault.audit_head()
