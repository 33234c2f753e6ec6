"""What an unlocked vault answers, from one frozen snapshot in memory.

Names, bindings and public keys are opened once; a credential's value, the policy and the audit keys only when asked
for. A snapshot whose key was wiped in the meantime answers like a locked vault.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from broker.core.credential import CredentialMeta, CredentialSecret, covers_url
from broker.core.damage import KnownDamage
from broker.core.ledger import LedgerMark
from broker.core.secret import Secret
from broker.vault.contents import (
    Approver,
    AuditHead,
    AuditKeys,
    TrustedPolicy,
    decode_approvers,
    decode_audit_head,
    decode_audit_keys,
    decode_damage,
    decode_ledger,
    decode_policy,
    decode_retired,
    decode_secret,
)
from broker.vault.faults import Damage, Fault, QuarantineReason, VaultError, VaultLocked
from broker.vault.hosts import KnownHosts, decode_hosts
from broker.vault.index import RecordKind
from broker.vault.records import RecordSet
from broker.vault.sealed import SealBroken
from broker.vault.shelf import Shelf, find, read_shelf, value_of

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Opened:
    records: RecordSet
    shelf: Shelf
    approvers: tuple[Approver, ...]

    @property
    def generation(self) -> int:
        return self.records.head.generation

    def approver_keys(self) -> tuple[bytes, ...]:
        return tuple(approver.public_key for approver in self.approvers)

    def credentials(self) -> tuple[CredentialMeta, ...]:
        return tuple(shelved.record.meta for shelved in self.shelf.values())

    def credential_version(self, name: str) -> int | None:
        shelved = self.shelf.get(name)
        return None if shelved is None else shelved.record.current.version

    def covers(self, name: str, url: str) -> bool:
        shelved = self.shelf.get(name)
        return shelved is not None and any(covers_url(binding, url) for binding in shelved.record.bindings)

    def secret_of(self, name: str, version: int) -> CredentialSecret:
        record = find(self.shelf, name).record
        content = self._read(value_of(record, version).record_id)
        return _decoded(lambda octets: decode_secret(record.kind, octets), content)

    def audit_keys(self) -> AuditKeys:
        return _decoded(decode_audit_keys, self._read(self.records.ids(RecordKind.AUDIT_KEYS)[0]))

    def audit_head(self) -> AuditHead | None:
        return self._only(RecordKind.AUDIT_HEAD, decode_audit_head)

    def known_damage(self) -> KnownDamage | None:
        return self._only(RecordKind.DAMAGE, decode_damage)

    def ledger_mark(self) -> LedgerMark | None:
        return self._only(RecordKind.LEDGER, decode_ledger)

    def trusted_policy(self) -> TrustedPolicy | None:
        return self._only(RecordKind.POLICY, decode_policy)

    def known_hosts(self) -> KnownHosts:
        return self._only(RecordKind.HOSTS, decode_hosts) or KnownHosts()

    def retired_version(self) -> int:
        """The highest version that any removed credential had; 0 where none was removed."""
        return self._only(RecordKind.RETIRED, decode_retired) or 0

    def derived_key(self, purpose: str) -> Secret:
        try:
            return self.records.key.for_purpose(purpose)
        except SealBroken:
            raise VaultLocked from None

    def _only(self, kind: RecordKind, decode: Callable[[bytes], Content]) -> Content | None:
        ids = self.records.ids(kind)
        return _decoded(decode, self._read(ids[0])) if ids else None

    def _read(self, record_id: bytes) -> bytes:
        try:
            return self.records.read(record_id)
        except Damage:  # the snapshot was checked, so the key is what is gone
            raise VaultLocked from None


def opened(records: RecordSet) -> Opened:
    """Open what every request asks for. Raises Damage where checked records do not read as what they should be."""
    approvers_ids = records.ids(RecordKind.APPROVERS)
    if not approvers_ids or not records.ids(RecordKind.AUDIT_KEYS):
        raise Damage(QuarantineReason.RECORD_MISSING)
    try:
        approvers = decode_approvers(records.read(approvers_ids[0]))
        return Opened(records=records, shelf=read_shelf(records), approvers=approvers)
    except ValueError:
        raise Damage(QuarantineReason.RECORD_CHANGED) from None


def _decoded(decode: Callable[[bytes], Content], content: bytes) -> Content:
    try:
        return decode(content)
    except ValueError as cause:
        raise VaultError(Fault.UNREADABLE, f"a record was not written by this version: {cause}") from cause
