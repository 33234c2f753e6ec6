"""How far the log reaches and where its head is kept, in figures for a human: the part of the status that says so.

The time of the head is that of the anchor's file, which is written after each commit. Whether anybody keeps a copy
outside this machine can't be known here, and nothing of it is told.
"""

from contextlib import suppress

from broker.audit import AuditError
from broker.audit.pin import Anchor, AuditPaths
from broker.contract.wire import JsonValue

NS_PER_MS = 1_000_000


def reach(paths: AuditPaths, *, hash_: str, keyring_seq: int | None, vault_seq: int | None) -> dict[str, JsonValue]:
    """Never raises: what can't be told is null."""
    anchor, at_ms = None, None
    with suppress(OSError):
        at_ms = paths.anchor.stat().st_mtime_ns // NS_PER_MS
    with suppress(AuditError):
        anchor = Anchor.load(paths.anchor)
    return {
        "head": {"hash": hash_, "segment": None if anchor is None else anchor.segment, "at_ms": at_ms},
        "anchors": {"file": None if anchor is None else anchor.seq, "keyring": keyring_seq, "vault": vault_seq},
    }
