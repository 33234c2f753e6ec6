from collections.abc import Callable
from pathlib import Path

import pytest

from broker.contract.wire import canonical
from broker.vault import Fault, Vault, VaultError
from broker.vault.faults import Damage
from broker.vault.index import RecordKind
from broker.vault.opened import opened
from broker.vault.records import Edit, Put, blank
from broker.vault.sealed import VaultKey, preferred
from tests.fakes.vaults import KEK, NOW_MS, bearer, new_vault


def put(kind: RecordKind, content: bytes) -> Put:
    return Put(kind=kind, record_id=kind.value.encode(), content=content)


@pytest.mark.parametrize(
    "puts",
    [
        (),
        (put(RecordKind.AUDIT_KEYS, b"{}"),),
        (put(RecordKind.APPROVERS, b'{"approvers":[]}'),),
        (put(RecordKind.AUDIT_KEYS, b"{}"), put(RecordKind.APPROVERS, b"{}")),
        (
            put(RecordKind.AUDIT_KEYS, b"{}"),
            put(RecordKind.APPROVERS, b'{"approvers":[]}'),
            put(RecordKind.CREDENTIAL, b"{}"),
        ),
    ],
)
def test_records_without_what_every_vault_has_are_damage(puts: tuple[Put, ...]) -> None:
    records, _ = blank(VaultKey.fresh(preferred()), log_id="log", term=1).changed(Edit(puts=puts), term=1)
    with pytest.raises(Damage):
        opened(records)


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        (RecordKind.AUDIT_KEYS, lambda vault: vault.audit_sk()),
        (RecordKind.AUDIT_HEAD, lambda vault: vault.audit_head()),
        (RecordKind.DAMAGE, lambda vault: vault.known_damage()),
        (RecordKind.POLICY, lambda vault: vault.trusted_policy()),
        (RecordKind.VALUE, lambda vault: vault.secret_of("a", 1)),
    ],
)
def test_sealed_content_of_another_version_is_an_error_and_not_shown(
    tmp_path: Path, kind: RecordKind, ask: Callable[[Vault], object]
) -> None:
    with Vault.open(new_vault(tmp_path)) as vault:
        vault.unlock(KEK)
        vault.add_credential(bearer("a", "canary-a"), now_ms=NOW_MS)
        later = canonical({"of": "canary-later"})
        vault._apply(Edit(puts=(vault._in_use().records.put_only(kind, later),)))
        with pytest.raises(VaultError) as refused:
            ask(vault)

        assert Fault.UNREADABLE == refused.value.fault
        assert "canary" not in str(refused.value)
