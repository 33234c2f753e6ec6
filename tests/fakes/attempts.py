"""Attempts for the ledger, full of canaries, and ledgers with known keys."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from broker.core.ledger import Attempt
from broker.core.secret import Secret
from broker.operations.ledger import LedgerStore
from tests.fakes.clock import SetClock

SEAL, PRINT = Secret(b"s" * 32), Secret(b"f" * 32)
OP, OTHER = ("op_" + digit * 44 for digit in "01")
CHANGE = "sha256:canary-change"
ENVELOPE: dict[str, Any] = {"category": "success", "code": "ok", "message": "canary-answer"}


def attempt(correlation_id: str = OP, **changes: Any) -> Attempt:
    made = Attempt(
        correlation_id=correlation_id,
        anchor_id="an_1",
        request_id="canary-request-id",
        request_digest="sha256:1",
        change_key=CHANGE,
        service="market",
        operation="market.orders.create",
        summary="POST https://canary.example/orders",
        args={"name": "canary-argument", "count": 1.5, "nested": [{"a": None}]},
        agent="canary-agent",
        session_id="se_1",
        started_at_ms=1,
    )
    return replace(made, **changes)


def opened(path: Path, clock: SetClock, *, unlock: bool = True) -> LedgerStore:
    made = LedgerStore(path, now_ms=clock.now_ms)
    if unlock:
        made.unlock(seal_key=SEAL, fingerprint_key=PRINT)
    return made
