"""The sealed records of an open vault, checked against their index, and the writes that follow from an edit.

A set of records is a frozen snapshot that stays in memory, values sealed: reading one asks no disk and waits for no
writer. An edit makes a new snapshot and the change to write; the caller uses the one after the other was durable.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from broker.vault.faults import Damage, QuarantineReason
from broker.vault.index import Index, IndexEntry, RecordKind, decode_index, sealed_digest, wraps_digest
from broker.vault.sealed import SealBroken, VaultKey
from broker.vault.store import Change, Contents, Head, SealedRecord, Wrap

RECORD_ID_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Put:
    """A record to write, new or in place of its older version."""

    kind: RecordKind
    record_id: bytes
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    puts: tuple[Put, ...] = ()
    removes: tuple[bytes, ...] = ()
    wraps: tuple[Wrap, ...] = ()
    drops: tuple[str, ...] = ()  # unlock methods


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordSet:
    """One generation of the vault's records."""

    key: VaultKey
    head: Head
    wraps: tuple[Wrap, ...]
    index: Index
    sealed: Mapping[bytes, bytes]

    def ids(self, kind: RecordKind) -> tuple[bytes, ...]:
        return tuple(record_id for record_id, entry in self.index.entries.items() if entry.kind is kind)

    def read(self, record_id: bytes) -> bytes:
        """Raises Damage where the record does not open; in a checked set that means that the key was wiped."""
        entry = self.index.entries[record_id]
        try:
            return self.key.open_record(record_id, entry.version, self.sealed[record_id])
        except SealBroken:
            raise Damage(QuarantineReason.RECORD_CHANGED) from None

    def put_only(self, kind: RecordKind, content: bytes) -> Put:
        """The put that makes this content the one record of its kind."""
        ids = self.ids(kind)
        return Put(kind=kind, record_id=ids[0] if ids else new_id(), content=content)

    def changed(self, edit: Edit, *, term: int, generation: int | None = None) -> "tuple[RecordSet, Change]":
        """The next generation, and what to write for it. Lifts a quarantine: only a checked set can be changed."""
        sealed, entries = dict(self.sealed), dict(self.index.entries)
        for record_id in edit.removes:
            del sealed[record_id], entries[record_id]
        put = tuple(self._sealed_record(item) for item in edit.puts)
        for item, record in zip(edit.puts, put, strict=True):
            sealed[record.id] = record.sealed
            entries[record.id] = IndexEntry(kind=item.kind, version=record.version, digest=sealed_digest(record.sealed))
        wraps = {wrap.method: wrap for wrap in (*self.wraps, *edit.wraps) if wrap.method not in edit.drops}
        index = Index(
            log_id=self.head.log_id,
            generation=self.head.generation + 1 if generation is None else generation,
            term=term,
            wraps_digest=wraps_digest(list(wraps.values())),
            entries=entries,
        )
        head = replace(
            self.head,
            term=term,
            quarantine=None,
            generation=index.generation,
            sealed_index=self.key.seal_index(index.generation, index.encode()),
        )
        after = RecordSet(key=self.key, head=head, wraps=tuple(wraps.values()), index=index, sealed=sealed)
        new_wraps = {wrap.method: wrap for wrap in edit.wraps}
        return after, Change(head=head, put=put, remove=edit.removes, wraps=new_wraps, drop=edit.drops)

    def _sealed_record(self, item: Put) -> SealedRecord:
        before = self.index.entries.get(item.record_id)
        version = 1 if before is None else before.version + 1
        sealed = self.key.seal_record(item.record_id, version, item.content)
        return SealedRecord(id=item.record_id, version=version, sealed=sealed)


def new_id() -> bytes:
    return os.urandom(RECORD_ID_BYTES)


def blank(key: VaultKey, *, log_id: str, term: int) -> RecordSet:
    """The records of a vault that is not written yet: none, at generation 0."""
    head = Head(aead=key.aead, log_id=log_id, term=term, quarantine=None, generation=0, sealed_index=b"")
    index = Index(log_id=log_id, generation=0, term=term, wraps_digest=wraps_digest([]), entries={})
    return RecordSet(key=key, head=head, wraps=(), index=index, sealed={})


def checked(key: VaultKey, contents: Contents, *, term: int | None) -> RecordSet:
    """The records of a file, every one compared with the index. Raises Damage.

    `term` is the one in force: beyond the sealed one, for the vault was locked or opened since. None adopts any.
    """
    head = contents.head
    try:
        index = decode_index(key.open_index(head.generation, head.sealed_index))
    except (SealBroken, ValueError):
        raise Damage(QuarantineReason.INDEX_BROKEN) from None
    if (index.generation, index.log_id) != (head.generation, head.log_id):
        raise Damage(QuarantineReason.INDEX_BROKEN)
    if term is not None and index.term >= term:
        raise Damage(QuarantineReason.TERM_WENT_BACK)
    if index.wraps_digest != wraps_digest(contents.wraps):
        raise Damage(QuarantineReason.WRAPS_CHANGED)
    for record in contents.records:
        entry = index.entries.get(record.id)
        if entry is None:
            raise Damage(QuarantineReason.RECORD_UNKNOWN)
        if (entry.version, entry.digest) != (record.version, sealed_digest(record.sealed)):
            raise Damage(QuarantineReason.RECORD_CHANGED)
    if len(contents.records) != len(index.entries):
        raise Damage(QuarantineReason.RECORD_MISSING)
    sealed = {record.id: record.sealed for record in contents.records}
    return RecordSet(key=key, head=head, wraps=contents.wraps, index=index, sealed=sealed)
