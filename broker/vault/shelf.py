"""The credentials on the shelf: looking them up, and the edits that add, rotate, rebind and remove them.

Works on values: an edit is written by the vault. Versions of a credential only grow, whichever value is in force, and
a name that is given again goes on behind them: a version never names two values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from broker.core.credential import Binding, Credential, CredentialSecret, check_bindings
from broker.vault.contents import CredentialRecord, ValueRef, decode_credential, encode_secret
from broker.vault.faults import Fault, VaultError
from broker.vault.index import RecordKind
from broker.vault.records import Edit, Put, RecordSet, new_id

MAX_CREDENTIALS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    record_id: bytes
    record: CredentialRecord


Shelf: TypeAlias = Mapping[str, Shelved]


def read_shelf(records: RecordSet) -> Shelf:
    """Open every credential's record; its values stay sealed. Raises Damage or ValueError."""
    shelf: dict[str, Shelved] = {}
    for record_id in records.ids(RecordKind.CREDENTIAL):
        record = decode_credential(records.read(record_id))
        shelf[record.name] = Shelved(record_id=record_id, record=record)
    return dict(sorted(shelf.items()))


def find(shelf: Shelf, name: str) -> Shelved:
    """Raises VaultError."""
    shelved = shelf.get(name)
    if shelved is None:
        raise VaultError(
            Fault.UNKNOWN_CREDENTIAL, "there is no credential of that name; see `doorward credential list`"
        )
    return shelved


def value_of(record: CredentialRecord, version: int) -> ValueRef:
    """Where the value of a version lies. Raises VaultError for a version that is not kept."""
    for ref in (record.current, record.previous):
        if ref is not None and ref.version == version:
            return ref
    raise VaultError(Fault.UNKNOWN_CREDENTIAL, f"version {version} of the credential is not kept any more")


def adding(shelf: Shelf, credential: Credential, now_ms: int, *, retired_version: int) -> Edit:
    if credential.name in shelf:
        raise VaultError(Fault.NAME_TAKEN, "there is a credential of that name; rotate or remove it")
    if len(shelf) >= MAX_CREDENTIALS:
        raise VaultError(Fault.FULL, f"the vault holds {MAX_CREDENTIALS} credentials; remove one")
    value = _value(credential.secret)
    record = CredentialRecord(
        name=credential.name,
        kind=credential.kind,
        bindings=credential.bindings,
        created_at_ms=now_ms,
        rotated_at_ms=None,
        current=ValueRef(version=retired_version + 1, record_id=value.record_id),
        previous=None,
    )
    return Edit(puts=(value, _credential(new_id(), record)))


def rotating(shelved: Shelved, secret: CredentialSecret, now_ms: int) -> Edit:
    """Put a new value in force. The last value that proved itself is kept; one in between that never did is dropped."""
    record, value = shelved.record, _value(secret)
    after = replace(
        record,
        rotated_at_ms=now_ms,
        current=ValueRef(version=record.current.version + 1, record_id=value.record_id),
        previous=record.current if record.previous is None else record.previous,
    )
    removes = () if record.previous is None else (record.current.record_id,)
    return Edit(puts=(value, _credential(shelved.record_id, after)), removes=removes)


def confirming(shelved: Shelved) -> Edit:
    """Drop the value before: the one in force proved itself."""
    before = _pending(shelved.record)
    after = replace(shelved.record, previous=None)
    return Edit(puts=(_credential(shelved.record_id, after),), removes=(before.record_id,))


def undoing(shelved: Shelved, now_ms: int) -> Edit:
    """Put the value before in force again, under a version of its own."""
    record, before = shelved.record, _pending(shelved.record)
    after = replace(
        record,
        rotated_at_ms=now_ms,
        current=ValueRef(version=record.current.version + 1, record_id=before.record_id),
        previous=None,
    )
    return Edit(puts=(_credential(shelved.record_id, after),), removes=(record.current.record_id,))


def rebinding(shelved: Shelved, bindings: tuple[Binding, ...], secret: CredentialSecret, now_ms: int) -> Edit:
    """Bind to other places, with the value given anew: nothing stored before can be sent there."""
    check_bindings(bindings, shelved.record.kind)
    record, value = shelved.record, _value(secret)
    after = replace(
        record,
        bindings=bindings,
        rotated_at_ms=now_ms,
        current=ValueRef(version=record.current.version + 1, record_id=value.record_id),
        previous=None,
    )
    return Edit(puts=(value, _credential(shelved.record_id, after)), removes=_values(record))


def removing(shelved: Shelved) -> Edit:
    return Edit(removes=(shelved.record_id, *_values(shelved.record)))


def _pending(record: CredentialRecord) -> ValueRef:
    if record.previous is None:
        raise VaultError(Fault.NOTHING_PENDING, "no rotation of this credential waits for confirmation")
    return record.previous


def _values(record: CredentialRecord) -> tuple[bytes, ...]:
    return tuple(ref.record_id for ref in (record.current, record.previous) if ref is not None)


def _value(secret: CredentialSecret) -> Put:
    return Put(kind=RecordKind.VALUE, record_id=new_id(), content=encode_secret(secret))


def _credential(record_id: bytes, record: CredentialRecord) -> Put:
    return Put(kind=RecordKind.CREDENTIAL, record_id=record_id, content=record.encode())
