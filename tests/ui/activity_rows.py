"""The morning of mock-ups 11 and 18: what the log tells, from an unlock to a change in doubt."""

from dataclasses import replace
from datetime import UTC, datetime

from ui.served import EventRow
from ui.served_log import ActivityRow

IN_DOUBT = "op_0193a1b2c3d45e6f708192a3b4c5d6e7f80912a3b4c59f3e"
_DAY = datetime(2026, 11, 30, tzinfo=UTC)


def at(clock: str) -> int:
    """Milliseconds of a time of that day."""
    hours, minutes, seconds = (float(part) for part in clock.split(":"))
    return int(_DAY.timestamp() * 1000) + round(((hours * 60 + minutes) * 60 + seconds) * 1000)


def _call(
    clock: str, agent: str, effect: str, operation: str, target: str, category: str, **more: object
) -> ActivityRow:
    seq = at(clock) // 1000 % 86_400 * 10
    row = ActivityRow(
        id=f"op_{seq:044d}",
        seq=seq,
        last_seq=seq + 6,
        event="action.requested",
        state="ended",
        at_ms=at(clock),
        agent=agent,
        effect=effect,
        operation=operation,
        target=target,
        category=category,
        rules=(operation.split(".", 1)[0],),
    )
    return replace(row, **more)  # type: ignore[arg-type]  # fields of a row


def _act(clock: str, event: str, of: str | None = None, **fields: object) -> ActivityRow:
    seq = at(clock) // 1000 % 86_400 * 10 + 1
    return ActivityRow(
        id=f"seq-{seq}",
        seq=seq,
        last_seq=seq,
        event=event,
        state="ended",
        at_ms=at(clock),
        of=of,
        fields=fields,  # type: ignore[arg-type]  # plain values
    )


_RUN = _call(
    "13:57:44", "claude-code", "RUN", "web-1.restart-web", "nginx", "success", status=0, elapsed_ms=640, code="ok"
)
_DONE = {"returned": 30, "complete": True, "code": "ok"}
ROWS = (
    _call(
        "14:02:11", "claude-code", "READ", "github.issues.list", "acme/site state=open", "success",
        **_DONE, elapsed_ms=212,
    ),
    _call("14:02:09", "claude-code", "READ", "github.pulls.get", "acme/site 88", "success", elapsed_ms=94),
    _call(
        "14:02:07", "claude-code", "WRITE", "deploy.deployments.create", "prod web 2.4.1", "outcome_unknown",
        id=IN_DOUBT, retry="reconcile_first", decision="approve", rules=("deploy-write",), elapsed_ms=30_004,
        code="first_byte_timeout",
    ),
    _call(
        "13:59:52", "codex", "READ", "cloud.accounts.list", "acme-prod", "partial",
        returned=842, complete=False, incomplete=("TIME_BUDGET_EXCEEDED",), elapsed_ms=10_001,
    ),
    _call(
        "13:58:40", "codex", "WRITE", "github.issues.create", "acme/site", "call_denied",
        decision="deny", reason="no",
    ),
    _call(
        "13:58:02", "codex", "WRITE", "github.labels.add", "acme/site 12", "confirmed_failure",
        status=422, remote_effect="none", elapsed_ms=180,
    ),
    _RUN,
    _act("13:57:12", "approval.decided", of=_RUN.id, decision="approve", scope="once"),
    _call("13:56:30", "codex", "DELETE", "github.releases.delete", "acme/site 1281", "policy_denied", code="no_rule"),
    _call(
        "13:55:03", "claude-code", "READ", "github.issues.list", "acme/site page=2", "success",
        **_DONE, elapsed_ms=198,
    ),
    _act("13:54:58", "grant.made", rule="github-read", max_uses=200, expires_at_ms=at("14:54:58")),
    _act("12:01:20", "vault.unlocked", term=12),
)  # fmt: skip


def _event(clock: str, name: str, **fields: object) -> EventRow:
    return EventRow(
        seq=at(clock) // 1000 % 86_400 * 10,
        name=name,
        at_ms=at(clock),
        correlation_id=IN_DOUBT,
        session_id="se_1",
        fields=fields,  # type: ignore[arg-type]  # plain values
    )


TRAIL = (
    _event("14:02:05.118", "action.requested", agent="claude-code", pid=4711),
    _event(
        "14:02:05.120",
        "policy.decided",
        rules=["deploy-write"],
        decision="per_call",
        policy="sha256:3f9c21ab" + "0" * 56,
        digest="sha256:c2d9e01b" + "0" * 56,
        identifies="prod web 2.4.1",
        request={"method": "POST", "url": "https://deploy.acme.example/v2/deployments"},
    ),
    _event("14:02:05.121", "approval.requested", approval_id="ap_7f2100000000"),
    _event("14:02:06.902", "approval.decided", decision="approve", scope="once", signature="00"),
    _event("14:02:06.951", "dispatch.started", credential="deploy-prod"),
    _event("14:02:37.014", "deadline.expired", phase="body_sent", elapsed_ms=30_004, sent_body_bytes=412),
    _event(
        "14:02:37.015",
        "action.result",
        category="outcome_unknown",
        code="first_byte_timeout",
        retry="reconcile_first",
        remote_effect="unknown",
    ),
)
