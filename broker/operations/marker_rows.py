"""Where the markers of commands lie, and which settled ones can be taken away, in the ledger's file.

A row is written with the end of its operation, in one transaction, and sealed, so that no other hand can have the
marker of an unsettled one removed. It goes once its host said that the marker is gone, or after a while. Called with
the ledger's lock held; rows without a seal of ours are passed over.
"""

import hashlib
import hmac
import sqlite3

from broker.core.ledger import AttemptState
from broker.core.ssh.outcome import StoreSeen
from broker.core.ssh.recall import bound_to, marker_place
from broker.operations.ledger_file import Keys, LedgerError, sealed, unsealed

FORGOTTEN_MS = 90 * 24 * 3600 * 1000  # a host that nobody comes to any more keeps its markers
_FIELD = "marker"


def bind(database: sqlite3.Connection, keys: Keys, correlation_id: str, store: StoreSeen) -> None:
    """Note the store that a command is sent into with its attempt. Within a transaction."""
    (told,) = database.execute("SELECT attempt FROM attempts WHERE correlation_id = ?", (correlation_id,)).fetchone()
    attempt = unsealed(keys, correlation_id, "attempt", told)
    before = attempt["args"]
    args = bound_to(before, store) if isinstance(before, dict) else None
    if args is not None:
        told = sealed(keys, correlation_id, "attempt", {**attempt, "args": args})
        database.execute("UPDATE attempts SET attempt = ? WHERE correlation_id = ?", (told, correlation_id))


def note(database: sqlite3.Connection, keys: Keys, correlation_id: str, *, now_ms: int) -> None:
    """The operation is over: where it left a marker, that is one to be taken away later. Within a transaction."""
    row = database.execute("SELECT attempt FROM attempts WHERE correlation_id = ?", (correlation_id,)).fetchone()
    told = {} if row is None else unsealed(keys, correlation_id, "attempt", row[0])
    args = told.get("args")
    place = marker_place(args) if isinstance(args, dict) else None
    if place is None:
        return
    database.execute("DELETE FROM markers WHERE settled_at_ms < ?", (now_ms - FORGOTTEN_MS,))
    database.execute(
        "INSERT OR REPLACE INTO markers VALUES (?, ?, ?, ?)",
        (
            correlation_id,
            _print(keys, place),
            now_ms,
            sealed(keys, correlation_id, _FIELD, {"place": place, "settled_at_ms": now_ms}),
        ),
    )


def due(database: sqlite3.Connection, keys: Keys, place: str, *, settled_before_ms: int, limit: int) -> tuple[str, ...]:
    """Operations that were settled before that time and left a marker in this place, the oldest first."""
    rows = database.execute(
        "SELECT correlation_id, proof FROM markers WHERE place = ? AND settled_at_ms < ? AND correlation_id NOT IN"
        " (SELECT correlation_id FROM attempts WHERE state IN (?, ?)) ORDER BY settled_at_ms LIMIT ?",
        (_print(keys, place), settled_before_ms, AttemptState.RUNNING, AttemptState.IN_DOUBT, limit),
    ).fetchall()
    return tuple(one for one, proof in rows if _proves(keys, one, proof, place, settled_before_ms))


def gone(database: sqlite3.Connection, correlation_ids: tuple[str, ...]) -> None:
    """Ask for these no more. Within a transaction."""
    database.executemany("DELETE FROM markers WHERE correlation_id = ?", [(one,) for one in correlation_ids])


def _proves(keys: Keys, correlation_id: str, proof: bytes, place: str, settled_before_ms: int) -> bool:
    try:
        told = unsealed(keys, correlation_id, _FIELD, proof)
    except LedgerError:
        return False
    at_ms = told["settled_at_ms"]
    return told["place"] == place and isinstance(at_ms, int) and at_ms < settled_before_ms


def _print(keys: Keys, place: str) -> bytes:
    return hmac.new(keys.fingerprint, b"marker\0" + place.encode(), hashlib.sha256).digest()
