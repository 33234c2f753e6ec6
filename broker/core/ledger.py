"""Rules of the attempt ledger: which changes are the same change, and what a repeat may be told.

A change in doubt blocks every write with the same change key, whoever asks, until it is settled. Neither a query
nor a header, a space nor a time stamp makes another change of it. Storage is operations/ledger.py's business.
"""

from dataclasses import dataclass
from enum import StrEnum

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.frozen import FrozenRequest


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
    summary: str  # method and URL without the query
    args: JsonObject
    agent: str
    session_id: str
    started_at_ms: int
    state: AttemptState = AttemptState.RUNNING
    envelope: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """An attempt whose outcome is unknown, as cards and lists show it."""

    correlation_id: str
    session_id: str
    agent: str
    operation: str
    summary: str
    sent_at_ms: int


def change_key(frozen: FrozenRequest) -> str | None:
    """Name of the change that a request makes; None for a read."""
    if not frozen.is_write:
        return None
    owner = frozen.service.credential or f"service {frozen.service.name}"
    facts: dict[str, JsonValue] = {"credential": owner}
    declared = frozen.declared
    if declared is None:
        facts |= {"host": frozen.host, "port": frozen.port, "method": frozen.method, "path": frozen.path}
    else:
        facts |= {"operation": declared.name, "arguments": _named(declared.change_key, frozen.args)}
    return digest("doorward/change/v1", facts)


def in_doubt(frozen: FrozenRequest, category: Category, effect: RemoteEffect, retry: Retry) -> bool:
    """Whether an ending leaves the change unsettled, so that a repeat has to be refused."""
    if not frozen.is_write or category is Category.PARTIAL:
        return False
    return effect is RemoteEffect.UNKNOWN or (
        category is Category.MALFORMED_RESPONSE and retry is Retry.RECONCILE_FIRST
    )


def _named(names: tuple[str, ...] | None, args: JsonObject) -> JsonObject:
    if names is None:
        return {}
    return {name: args.get(name) for name in names}
