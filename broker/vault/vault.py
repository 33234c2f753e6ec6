"""The vault: what may be asked of it while it is open, and what changes it.

Every change is durable when its call returns, and raises VaultError where nothing was changed. Values come out of
`secret_of` alone; whatever lists or looks up never opens one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.contract.kdf import KdfParams
from broker.contract.statements import policy_bytes
from broker.contract.unlock_methods import UnlockMethod
from broker.core.credential import ALONE, Beside, Binding, Credential, CredentialMeta, CredentialSecret, with_value
from broker.core.damage import KnownDamage
from broker.core.ledger import LedgerMark
from broker.core.secret import Secret
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import HostKeySeen, StoreSeen
from broker.vault.approver_keys import PUBLIC_KEY_BYTES, verify
from broker.vault.approver_list import with_another, without
from broker.vault.contents import (
    Approver,
    AuditHead,
    AuditKeys,
    TrustedPolicy,
    encode_approvers,
    encode_damage,
    encode_ledger,
    encode_retired,
)
from broker.vault.faults import Fault, VaultError
from broker.vault.hosts import KnownHosts
from broker.vault.index import RecordKind
from broker.vault.records import Edit, Put, blank, new_id
from broker.vault.rewrapping import Rewrapping
from broker.vault.sealed import KEY_BYTES, VaultKey, preferred
from broker.vault.shelf import Shelved, adding, confirming, find, rebinding, removing, rotating, undoing
from broker.vault.store import Contents, Store
from broker.vault.unlocking import Given, wrapped

MAX_POLICY_BYTES = 4 << 20
_LOG_ID = re.compile(r"[!-~]{1,128}")
_PURPOSE = re.compile(r"[a-z0-9][a-z0-9./_-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")


class Vault(Rewrapping):
    """One vault file, opened by one process. Made by `open`; safe to use from several threads."""

    @staticmethod
    def create(
        path: Path,
        *,
        kek: Secret,
        kdf: KdfParams,
        log_id: str,
        audit_sk: Secret,
        root_seed: Secret,
        approver_public_key: bytes,
        now_ms: int,
        methods: Sequence[UnlockMethod] = (UnlockMethod.PASSPHRASE,),
        share: Secret | None = None,
    ) -> None:
        """Write a new vault with its first approver, to be opened by each of `methods`.

        Raises VaultError where there is one, and leaves that as it is.
        """
        lengths = (len(kek), len(audit_sk), len(root_seed), len(approver_public_key))
        if lengths != (KEY_BYTES, 32, 32, PUBLIC_KEY_BYTES) or not _LOG_ID.fullmatch(log_id):
            raise VaultError(Fault.INVALID, "a vault is made of four values of 32 bytes and a log id of plain ASCII")
        if not methods:
            raise VaultError(Fault.LAST_METHOD, "a vault has one unlock method or more")
        key, given = VaultKey.fresh(preferred()), Given(kek=kek, share=share)
        approvers = (Approver(public_key=approver_public_key, enrolled_at_ms=now_ms),)
        audit_keys = AuditKeys(audit_sk=audit_sk, root_seed=root_seed)
        edit = Edit(
            puts=(
                Put(kind=RecordKind.APPROVERS, record_id=new_id(), content=encode_approvers(approvers)),
                Put(kind=RecordKind.AUDIT_KEYS, record_id=new_id(), content=audit_keys.encode()),
            ),
            wraps=tuple(wrapped(method, key, given, kdf, log_id=log_id) for method in methods),
        )
        try:
            records, change = blank(key, log_id=log_id, term=1).changed(edit, term=1)
            Store.create(path, Contents(head=records.head, wraps=records.wraps, records=change.put))
        finally:
            key.wipe()

    # What an open vault answers. Raises VaultLocked or VaultQuarantined else.

    def credentials(self) -> tuple[CredentialMeta, ...]:
        return self._in_use().credentials()

    def credential_version(self, name: str) -> int | None:
        current = self._opened
        return None if current is None else current.credential_version(name)

    def covers(self, name: str, url: str) -> bool:
        current = self._opened
        return current is not None and current.covers(name, url)

    def secret_of(self, name: str, version: int) -> CredentialSecret:
        return self._in_use().secret_of(name, version)

    def approver_keys(self) -> tuple[bytes, ...]:
        return self._in_use().approver_keys()

    def approvers(self) -> tuple[Approver, ...]:
        return self._in_use().approvers

    def trusted_policy(self) -> TrustedPolicy | None:
        return self._in_use().trusted_policy()

    def audit_sk(self) -> Secret:
        return self._in_use().audit_keys().audit_sk

    def root_seed(self) -> Secret:
        return self._in_use().audit_keys().root_seed

    def audit_head(self) -> AuditHead | None:
        return self._in_use().audit_head()

    def known_damage(self) -> KnownDamage | None:
        """What a human took over of the audit log, broken as it is."""
        return self._in_use().known_damage()

    def sign_as_root(self, message: bytes) -> bytes:
        """The root key's signature, for the audit log: it vouches for the log's epochs and heads."""
        return Ed25519PrivateKey.from_private_bytes(self.root_seed().reveal()).sign(message)

    def ledger_mark(self) -> LedgerMark | None:
        """The attempt ledger as the vault last saw it."""
        return self._in_use().ledger_mark()

    def derived_key(self, purpose: str) -> Secret:
        """A key for another store, the same for as long as the vault lives. One purpose, one key."""
        if not _PURPOSE.fullmatch(purpose):
            raise VaultError(Fault.INVALID, "a purpose has 1 to 64 of a-z, 0-9, dot, slash, dash, underscore")
        return self._in_use().derived_key(purpose)

    def known_hosts(self) -> KnownHosts:
        """What is remembered of SSH hosts."""
        return self._in_use().known_hosts()

    # What changes it. Each is durable when it returns, and raises VaultError where nothing was changed.

    def add_credential(self, credential: Credential, *, now_ms: int) -> CredentialMeta:
        with self._writing:
            current = self._in_use()
            self._apply(adding(current.shelf, credential, now_ms, retired_version=current.retired_version()))
            return self._meta(credential.name)

    def rotate_credential(self, name: str, value: Secret, beside: Beside = ALONE, *, now_ms: int) -> CredentialMeta:
        """Put a new value in force; the one before is kept until `confirm_rotation` or `undo_rotation`."""
        with self._writing:
            self._apply(rotating(self._shelved(name), self._with_value(name, value, beside), now_ms))
            return self._meta(name)

    def confirm_rotation(self, name: str) -> CredentialMeta:
        with self._writing:
            self._apply(confirming(self._shelved(name)))
            return self._meta(name)

    def undo_rotation(self, name: str, *, now_ms: int) -> CredentialMeta:
        with self._writing:
            self._apply(undoing(self._shelved(name), now_ms))
            return self._meta(name)

    def rebind_credential(
        self, name: str, bindings: tuple[Binding, ...], value: Secret, beside: Beside = ALONE, *, now_ms: int
    ) -> CredentialMeta:
        """Bind to other places. The value is asked for anew, and no value stored before is kept."""
        with self._writing:
            secret = self._with_value(name, value, beside)
            self._apply(rebinding(self._shelved(name), bindings, secret, now_ms))
            return self._meta(name)

    def remove_credential(self, name: str) -> None:
        with self._writing:
            current, shelved = self._in_use(), self._shelved(name)
            retired = max(current.retired_version(), shelved.record.current.version)
            put = current.records.put_only(RecordKind.RETIRED, encode_retired(retired))
            self._apply(replace(removing(shelved), puts=(put,)))

    def accept_host_key(self, host: SshHost, seen: HostKeySeen, *, now_ms: int) -> None:
        """Keep the key of a first contact. Raises VaultError where another one is kept: that is a human's to forget."""
        self._put_hosts(lambda known: known.accepting(host, seen, now_ms))

    def forget_host_key(self, address: str, port: int) -> None:
        self._put_hosts(lambda known: known.forgetting(address, port))

    def remember_store(self, host: SshHost, store: StoreSeen) -> None:
        """Keep where markers lie on a host, and in which boot that was seen."""
        self._put_hosts(lambda known: known.seeing(host, store))

    def _put_hosts(self, change: Callable[[KnownHosts], KnownHosts]) -> None:
        with self._writing:
            current = self._in_use()
            after = change(current.known_hosts())
            self._apply(Edit(puts=(current.records.put_only(RecordKind.HOSTS, after.encode()),)))

    def enrol_approver(self, public_key: bytes, *, now_ms: int) -> None:
        """From now on this key's signatures count as well."""
        self._put_approvers(lambda known: with_another(known, public_key, now_ms=now_ms))

    def remove_approver(self, removed: str) -> None:
        """The key of this id decides nothing any more. The last one stays."""
        self._put_approvers(lambda known: without(known, removed))

    def _put_approvers(self, change: Callable[[tuple[Approver, ...]], tuple[Approver, ...]]) -> None:
        with self._writing:
            current = self._in_use()
            content = encode_approvers(change(current.approvers))
            self._apply(Edit(puts=(current.records.put_only(RecordKind.APPROVERS, content),)))

    def trust_policy(self, policy: TrustedPolicy) -> None:
        """Put a policy in force whose counter is the next one and whose signature is an enrolled approver's."""
        with self._writing:
            current = self._in_use()
            before = current.trusted_policy()
            if policy.counter != (0 if before is None else before.counter) + 1:
                raise VaultError(Fault.STALE_COUNTER, "the policy was signed under another counter; sign it again")
            if sum(len(content) for _, content in policy.files) > MAX_POLICY_BYTES:
                raise VaultError(Fault.FULL, f"the policy files have more than {MAX_POLICY_BYTES} bytes")
            signed = policy_bytes({"policy_digest": policy.digest, "counter": policy.counter, "log_id": self._log_id})
            if verify(current.approver_keys(), signed, policy.signature) != policy.approver:
                raise VaultError(Fault.BAD_SIGNATURE, "no enrolled approver signed this policy")
            self._apply(Edit(puts=(current.records.put_only(RecordKind.POLICY, policy.encode()),)))

    def remember_audit_head(
        self,
        seq: int,
        h: str,
        *,
        segment: int = 1,
        offset: int = 0,
        at_ms: int = 0,
        ledger: LedgerMark | None = None,
    ) -> None:
        """Keep the head of the audit log, and where the ledger stands. The head never goes back but by `readopt`."""
        with self._writing:
            current = self._in_use()
            if seq < 0 or not _HASH.fullmatch(h):
                raise VaultError(Fault.INVALID, "a head is a sequence number and 64 hexadecimal digits")
            known = current.audit_head()
            if known is not None and (seq < known.seq or (seq == known.seq and h != known.h)):
                raise VaultError(Fault.HEAD_WENT_BACK, "the audit log is behind the head that the vault remembers")
            head = AuditHead(seq=seq, h=h, segment=segment, offset=offset, at_ms=at_ms)
            same = known is not None and (known.seq, known.h) == (seq, h)
            puts = [] if same else [current.records.put_only(RecordKind.AUDIT_HEAD, head.encode())]
            if ledger not in {None, current.ledger_mark()}:
                puts.append(current.records.put_only(RecordKind.LEDGER, encode_ledger(ledger)))
            if puts:
                self._apply(Edit(puts=tuple(puts)))

    def remember_damage(self, damage: KnownDamage | None) -> None:
        """Keep what a human took over, in place of what was known before; None where the log is whole."""
        with self._writing:
            current = self._in_use()
            if damage == current.known_damage():
                return
            if damage is None:
                self._apply(Edit(removes=current.records.ids(RecordKind.DAMAGE)))
            else:
                self._apply(Edit(puts=(current.records.put_only(RecordKind.DAMAGE, encode_damage(damage)),)))

    def _shelved(self, name: str) -> Shelved:
        return find(self._in_use().shelf, name)

    def _meta(self, name: str) -> CredentialMeta:
        return self._shelved(name).record.meta

    def _with_value(self, name: str, value: Secret, beside: Beside) -> CredentialSecret:
        version = self._shelved(name).record.current.version
        return with_value(self.secret_of(name, version), value, beside)
