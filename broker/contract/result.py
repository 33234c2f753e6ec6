"""The result envelope: one shape for every channel, every face and every ending.

`ok` follows from `status`, `next` from `category` and `retry`; neither can be set apart from them.
The public specification is schemas/result.json; tests hold both together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.contract.reasons import (
    CODES,
    Category,
    Effect,
    GateState,
    IncompleteCode,
    NextAction,
    RemoteEffect,
    Retry,
    ScrubState,
    Status,
    VaultState,
    WarningCode,
)
from broker.contract.wire import JsonObject, JsonValue

MESSAGE_LIMIT = 300

NOTHING_SENT = frozenset(  # refusals that come before the first byte
    {
        Category.EVIDENCE_REQUIRED,
        Category.POLICY_DENIED,
        Category.VAULT_LOCKED,
        Category.SESSION_DENIED,
        Category.CALL_DENIED,
        Category.APPROVAL_TIMEOUT,
        Category.APPROVAL_PENDING,
        Category.INVALID_REQUEST,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The usable part of an upstream's answer. Exactly one of body, body_json, body_b64 is set where there is one."""

    status: int
    headers: Mapping[str, str]
    media_type: str | None = None
    body: str | None = None
    body_json: JsonValue = None
    has_json: bool = False  # `null` is a JSON document too
    body_b64: str | None = None
    body_bytes: int = 0
    final_url: str

    def to_json(self) -> dict[str, JsonValue]:
        out: dict[str, JsonValue] = {
            "status": self.status,
            "headers": dict(self.headers),
            "media_type": self.media_type,
            "body_bytes": self.body_bytes,
            "final_url": self.final_url,
        }
        if self.has_json:
            out["body_json"] = self.body_json
        elif self.body is not None:
            out["body"] = self.body
        elif self.body_b64 is not None:
            out["body_b64"] = self.body_b64
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteReason:
    code: IncompleteCode
    message: str
    by: str  # provider | broker
    limit: int | None = None
    unit: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "code": self.code.value,
            "message": self.message,
            "limit": self.limit,
            "unit": self.unit,
            "by": self.by,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """How much of what was asked for is in the answer. `complete` is the decision field."""

    complete: bool
    truncated: bool = False
    returned: int | None = None
    total: int | None = None
    reasons: tuple[IncompleteReason, ...] = ()
    pages: int = 1
    items: int | None = None
    bytes: int = 0
    seconds: float = 0.0
    next_cursor: str | None = None
    continuation: JsonObject = field(default_factory=lambda: {"kind": "none"})
    resource: str | None = None
    visibility: str | None = None
    snapshot: str | None = None
    defaults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.complete and self.reasons:
            raise ValueError("complete and incomplete at once")
        if not self.complete and not self.reasons:
            raise ValueError("incomplete without a reason")

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "complete": self.complete,
            "truncated": self.truncated,
            "returned": self.returned,
            "total": self.total,
            "incomplete_reasons": [reason.to_json() for reason in self.reasons],
            "work": {"pages": self.pages, "items": self.items, "bytes": self.bytes, "seconds": self.seconds},
            "next_cursor": self.next_cursor,
            "continuation": dict(self.continuation),
            "scope": {
                "resource": self.resource,
                "visibility": self.visibility,
                "snapshot": self.snapshot,
                "defaults": list(self.defaults),
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Warn:
    code: WarningCode
    message: str
    fields: tuple[JsonObject, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        out: dict[str, JsonValue] = {"code": self.code.value, "message": self.message}
        if self.fields:
            out["fields"] = [dict(item) for item in self.fields]
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """What the gates said. Steps that were not reached are `not_needed`; policy is a digest or None before step 3."""

    vault: VaultState = VaultState.READY
    session: GateState = GateState.NOT_NEEDED
    call: GateState = GateState.NOT_NEEDED
    rules: tuple[str, ...] = ()
    policy: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "vault": self.vault.value,
            "session": self.session.value,
            "call": self.call.value,
            "rules": list(self.rules),
            "policy": self.policy,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubReport:
    state: ScrubState = ScrubState.NOT_NEEDED
    reason: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        return {"state": self.state.value, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The answer to one request. Raises ValueError where its parts contradict each other."""

    category: Category
    code: str
    retry: Retry
    remote_effect: RemoteEffect
    correlation_id: str | None
    message: str
    operation: str | None = None
    effect: Effect | None = None
    retry_after_s: int | None = None
    request_id: str | None = None
    previous_correlation_id: str | None = None
    http: HttpAnswer | None = None
    ssh: JsonObject | None = None
    completeness: Completeness | None = None
    warnings: tuple[Warn, ...] = ()
    evidence: JsonObject | None = None
    scrub: ScrubReport = field(default_factory=ScrubReport)
    gate: GateReport = field(default_factory=GateReport)
    diagnostics_ref: str | None = None
    next_command: str | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES[self.category]:
            raise ValueError(f"{self.code} is no code of {self.category}")
        if self.category is Category.SUCCESS and self.completeness is not None and not self.completeness.complete:
            raise ValueError("success may not be incomplete")
        if not 1 <= len(self.message) <= MESSAGE_LIMIT:
            raise ValueError(f"a message has 1 to {MESSAGE_LIMIT} characters")
        if self.retry is Retry.AFTER_DELAY and self.retry_after_s is None:
            raise ValueError("after_delay without a delay")
        if self.remote_effect is not RemoteEffect.NONE and (
            self.effect is Effect.READ or self.category in NOTHING_SENT
        ):
            raise ValueError("a read, and what was refused before it was sent, has no remote effect")

    @property
    def status(self) -> Status:
        if self.category is Category.SUCCESS:
            return Status.SUCCESS
        if self.category is Category.PARTIAL:
            return Status.PARTIAL
        return Status.FAILURE

    @property
    def next_action(self) -> NextAction:
        return next_action(self.category, self.retry)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "ok": self.status is Status.SUCCESS,
            "status": self.status.value,
            "category": self.category.value,
            "code": self.code,
            "operation": self.operation,
            "effect": None if self.effect is None else self.effect.value,
            "remote_effect": self.remote_effect.value,
            "retry": self.retry.value,
            "retry_after_s": self.retry_after_s,
            "correlation_id": self.correlation_id,
            "request_id": self.request_id,
            "previous_correlation_id": self.previous_correlation_id,
            "message": self.message,
            "next": self._next(),
            "http": None if self.http is None else self.http.to_json(),
            "ssh": None if self.ssh is None else dict(self.ssh),
            "completeness": None if self.completeness is None else self.completeness.to_json(),
            "warnings": [warning.to_json() for warning in self.warnings],
            "evidence": None if self.evidence is None else dict(self.evidence),
            "scrub": self.scrub.to_json(),
            "gate": self.gate.to_json(),
            "diagnostics_ref": self.diagnostics_ref,
        }

    def _next(self) -> dict[str, JsonValue]:
        action = self.next_action
        out: dict[str, JsonValue] = {"action": action.value}
        if action is NextAction.WAIT:
            out["after_s"] = self.retry_after_s
        if action is NextAction.CONTINUE and self.completeness is not None:
            out["cursor"] = self.completeness.next_cursor
        out["command"] = self.next_command
        return out


def next_action(category: Category, retry: Retry) -> NextAction:
    """The machine-usable hint that follows from category and retry alone."""
    match retry:
        case Retry.NEVER:
            return {
                Category.INVALID_REQUEST: NextAction.FIX_REQUEST,
                Category.EVIDENCE_REQUIRED: NextAction.COLLECT,
                Category.AUTHENTICATION_FAILED: NextAction.ASK_HUMAN,
            }.get(category, NextAction.NONE)
        case Retry.BOUNDED:
            return NextAction.CONTINUE if category is Category.PARTIAL else NextAction.RETRY
        case Retry.AFTER_DELAY:
            return NextAction.WAIT
        case Retry.AFTER_HUMAN:
            return NextAction.ASK_HUMAN
        case Retry.RECONCILE_FIRST:
            return NextAction.RECONCILE
