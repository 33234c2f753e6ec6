"""Rules of the attempt ledger: which changes are the same change, and what a repeat may be told.

A change in doubt blocks every write with the same change key, whoever asks, until it is settled. Neither a query
nor a header, a space nor a time stamp makes another change of it, and where in doubt two spellings are one change.
Storage is operations/ledger.py's business.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.channels import Frozen
from broker.core.identity import Caller
from broker.core.ssh.change import ANYTHING, change_of
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.outcome import StoreSeen
from broker.core.ssh.recall import remembered
from broker.core.urls import read_loosely


class AttemptState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    IN_DOUBT = "in_doubt"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request as the ledger knows it. `change_key` is None for reads; `envelope` is set once it ended."""

    correlation_id: str
    anchor_id: str
    request_id: str | None
    request_digest: str
    change_key: str | None
    service: str
    operation: str
    summary: str  # method and URL without the query, or user, host and command
    args: JsonObject
    agent: str
    session_id: str
    started_at_ms: int
    idempotency_key: str | None = None  # of the broker's, where the upstream honours one
    state: AttemptState = AttemptState.RUNNING
    envelope: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMark:
    """Which ledger it is, and how often it was written: what others remember of it."""

    id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An attempt whose outcome is unknown, as cards and lists show it."""

    correlation_id: str
    session_id: str
    agent: str
    operation: str
    summary: str
    sent_at_ms: int
    request_digest: str = ""  # of what was sent
    idempotency_key: str | None = None


def attempt_of(
    frozen: Frozen,
    *,
    correlation_id: str,
    request_id: str | None,
    caller: Caller,
    session_id: str,
    now_ms: int,
    since: StoreSeen | None = None,
    idempotency_key: str | None = None,
) -> Attempt:
    """The entry that is made before the first byte leaves. `since` is the store of markers that a host was known by."""
    return Attempt(
        correlation_id=correlation_id,
        anchor_id=caller.anchor.id,
        request_id=request_id,
        request_digest=frozen.digest,
        change_key=change_key(frozen),
        service=frozen.service.name,
        operation=frozen.operation,
        summary=frozen.summary,
        args=remembered(frozen, since) if isinstance(frozen, FrozenSsh) else frozen.args,
        agent=caller.agent,
        session_id=session_id,
        started_at_ms=now_ms,
        idempotency_key=idempotency_key,
    )


def change_key(frozen: Frozen) -> str | None:
    """Name of the change that a request makes; None for a read. One over SSH begins with the name of its place."""
    if not frozen.is_write:
        return None
    owner = frozen.service.credential or f"service {frozen.service.name}"
    facts: dict[str, JsonValue] = {"credential": owner}
    declared = frozen.declared
    if declared is not None:
        facts |= {"arguments": _named(declared.change_key, frozen.args)}
    if isinstance(frozen, FrozenSsh):
        return change_of(frozen, facts)
    if declared is None:
        path = read_loosely(frozen.path)
        facts |= {"host": frozen.host, "port": frozen.port, "method": frozen.method, "path": path}
    else:
        facts |= {"operation": declared.name}
    return digest("doorward/change/v1", facts)


def are_one_change(key: str, other: str) -> bool:
    """Whether a doubt about one holds up the other. What may change anything meets every change of its place."""
    place, slash, what = key.rpartition("/")
    other_place, _, other_what = other.rpartition("/")
    return key == other or (bool(slash) and place == other_place and ANYTHING in {what, other_what})


def turn_key(frozen: Frozen, key: str) -> str:
    """What is made one at a time: the change where the operation says what tells one from another, else this request.

    A change key that nothing narrows takes in every write of its kind; different ones of those may go out side by side.
    `key` is the request's change key.
    """
    narrowed = frozen.declared is not None and frozen.declared.change_key is not None
    return key if narrowed else f"{key} {frozen.digest}"


def in_doubt(frozen: Frozen, category: Category, effect: RemoteEffect, retry: Retry) -> bool:
    """Whether an ending leaves the change unsettled, so that a repeat has to be refused."""
    if not frozen.is_write or category is Category.PARTIAL:
        return False
    return effect is RemoteEffect.UNKNOWN or (
        category is Category.MALFORMED_RESPONSE and retry is Retry.RECONCILE_FIRST
    )


def _named(names: tuple[str, ...] | None, args: JsonObject) -> JsonObject:
    if names is None:
        return {}
    return {name: _spelled(args.get(name)) for name in names}


def _spelled(value: JsonValue) -> JsonValue:
    """A value as it tells changes apart: texts folded, `7` and `"7"` the same."""
    if isinstance(value, Mapping):
        return {_folded(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return _folded(str(value)) if isinstance(value, str | int) else value


def _folded(text: str) -> str:
    """The text without what can't be seen, each run of spaces as one and none at the ends."""
    visible = (char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return " ".join("".join(visible).split())
