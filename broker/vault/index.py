"""The sealed index: which records there are, each with version and digest, and which vault this is.

It is what makes a record that was swapped, rolled back, removed or put in noticed. Sealed anew at each write, under a
generation that only grows. A whole older file agrees with itself: the generation is for the audit log to remember.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from broker.contract.wire import JsonValue, canonical
from broker.vault.fields import Fields
from broker.vault.store import Wrap


class RecordKind(StrEnum):
    """What a record holds. Known to the index alone, which is sealed."""

    APPROVERS = "approvers"
    AUDIT_KEYS = "audit_keys"
    AUDIT_HEAD = "audit_head"
    DAMAGE = "damage"  # of the audit log, that a human took over
    POLICY = "policy"
    CREDENTIAL = "credential"
    VALUE = "value"
    LEDGER = "ledger"  # which attempt ledger belongs to it, and how far that had got
    HOSTS = "hosts"  # keys of SSH hosts that a human accepted, and where their markers lie
    RETIRED = "retired"  # the highest version that a removed credential had


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    kind: RecordKind
    version: int
    digest: str  # of the sealed bytes

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": self.kind.value, "version": self.version, "digest": self.digest}


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """`term` is the one in force at the writing; `wraps_digest` covers every unlock method."""

    log_id: str
    generation: int
    term: int
    wraps_digest: str
    entries: Mapping[bytes, IndexEntry]

    def encode(self) -> bytes:
        return canonical(
            {
                "log_id": self.log_id,
                "generation": self.generation,
                "term": self.term,
                "wraps_digest": self.wraps_digest,
                "entries": {record_id.hex(): entry.to_json() for record_id, entry in self.entries.items()},
            }
        )


def decode_index(content: bytes) -> Index:
    """Raises FieldError."""
    fields = Fields.parse(content, {"log_id", "generation", "term", "wraps_digest", "entries"})
    entries = fields.table("entries")
    return Index(
        log_id=fields.text("log_id"),
        generation=fields.integer("generation"),
        term=fields.integer("term"),
        wraps_digest=fields.text("wraps_digest"),
        entries={bytes.fromhex(record_id): _entry(value) for record_id, value in entries.items()},
    )


def sealed_digest(sealed: bytes) -> str:
    return hashlib.sha256(sealed).hexdigest()


def wraps_digest(wraps: Sequence[Wrap]) -> str:
    """Over method, parameters and wrapped key of every unlock method, in order of their names."""
    rows: list[JsonValue] = [
        [wrap.method, wrap.params.hex(), wrap.sealed.hex()] for wrap in sorted(wraps, key=lambda wrap: wrap.method)
    ]
    return hashlib.sha256(canonical(rows)).hexdigest()


def _entry(value: JsonValue) -> IndexEntry:
    fields = Fields.of(value, {"kind", "version", "digest"})
    return IndexEntry(
        kind=RecordKind(fields.text("kind")), version=fields.integer("version"), digest=fields.text("digest")
    )
