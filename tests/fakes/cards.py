"""Sample cards as the daemon would send them."""

from collections.abc import Mapping
from copy import deepcopy

from broker.contract.wire import JsonValue

NOW_MS = 1_763_130_000_000

TAIL = "0123456789abcdef" * 3 + "01234567"  # the rest of a digest

_READ: dict[str, JsonValue] = {
    "v": 1,
    "approval_id": "ap_0123456789ab",
    "correlation_id": "op_0193a1b2c3d4" + TAIL[:28] + "9f3e",
    "created_at_ms": NOW_MS - 18_000,
    "expires_at_ms": NOW_MS + 102_000,
    "arming_ms": 1500,
    "log_id": "5c1d",
    "vault_term": 12,
    "summary": {
        "effect": "READ",
        "service": "github",
        "operation": "issues.list",
        "identifies": "acme/site",
        "targets": 0,
    },
    "target": {
        "method": "GET",
        "url": "https://api.github.com/repos/acme/site/issues?state=open",
        "plain_http": False,
    },
    "evidence": {"needed": False, "state": "not_needed", "items": [], "looks": [], "choices": []},
    "doubts": [],
    "who": {
        "agent": "claude-code",
        "identified": True,
        "interpreter": False,
        "exe": "/usr/bin/node",
        "pid": 4711,
        "span": "tree",
        "chain": [
            {"pid": 4711, "name": "node", "anchors": True},
            {"pid": 4102, "name": "zsh", "anchors": False},
        ],
        "cwd": "/home/ann/src/site",
        "container": False,
        "session_id": "se_1",
        "opened_at_ms": NOW_MS - 38 * 60_000,
        "calls": 14,
        "denied": 0,
        "label": None,
        "says": "look for open bugs about the login",
    },
    "why": {
        "rule": "github-read",
        "reason": "Reading issues and code",
        "gate": "session",
        "rules": ["github-read"],
        "policy": "sha256:3f9c21ab" + TAIL,
        "file": "github.toml",
        "line": 31,
    },
    "uses": {"credential": "github", "version": 3},
    "yes": {
        "once": "this one request, once",
        "undo": False,
        "session": {
            "offered": True,
            "per": "rule",
            "what": "any request under rule github-read",
            "max_uses": 200,
            "max_age_s": 3600,
            "why_not": None,
        },
    },
    "body": {"bytes": 0, "sha256": "e3b0c442" + TAIL, "media": None, "text": None, "cut": False},
    "exact": {
        "request_digest": "sha256:a41e07d2" + TAIL,
        "headers": [["accept", "application/vnd.github+json"]],
    },
    "typed_word": None,
}


def sample(**changes: JsonValue) -> dict[str, JsonValue]:
    """The calm read; `changes` replace top-level parts, objects are merged into them."""
    card = deepcopy(_READ)
    for name, value in changes.items():
        old = card.get(name)
        card[name] = {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return card


def delete_sample() -> dict[str, JsonValue]:
    """A destructive write that asks for a typed word and grants no session."""
    return sample(
        summary={"effect": "DELETE", "operation": "releases.delete", "identifies": "acme/site 1290", "targets": 1},
        target={"method": "DELETE", "url": "https://api.github.com/repos/acme/site/releases/1290"},
        why={"rule": "release-delete", "gate": "per_call", "reason": "", "rules": ["release-delete", "any-write"]},
        yes={
            "session": {
                "offered": False,
                "per": "rule",
                "what": "any request under rule release-delete",
                "max_uses": 1,
                "max_age_s": 60,
                "why_not": "this rule asks each time",
            }
        },
        body={"bytes": 17, "media": "application/json", "text": '{"reason":"old"}\n'},
        typed_word="1290",
    )


def gap_sample(**changes: JsonValue) -> dict[str, JsonValue]:
    """A deletion of three accounts of which two are proven to exist, by a collection that was cut."""
    card = sample(
        summary={
            "effect": "DELETE",
            "service": "cloud",
            "operation": "accounts.delete",
            "identifies": "acme-prod",
            "targets": 3,
        },
        target={"method": "POST", "url": "https://iam.cloud.example/v1/acme-prod/accounts:delete"},
        evidence=gap_evidence(),
        who={
            "agent": "codex",
            "opened_at_ms": NOW_MS - 2 * 3_600_000,
            "calls": 118,
            "denied": 1,
            "says": "clean up unused service accounts",
        },
        why={
            "rule": "account-delete",
            "gate": "per_call",
            "reason": "each target needs proof",
            "rules": ["account-delete"],
        },
        uses={"credential": "cloud-ops"},
        yes={
            "once": "deleting all 3, 1 without proof, once",
            "session": {
                "offered": False,
                "per": "rule",
                "what": "any request under rule account-delete",
                "max_uses": 1,
                "max_age_s": 60,
                "why_not": "proof is missing",
            },
        },
        body={
            "bytes": 74,
            "media": "application/json",
            "text": '{"names":["ci-legacy-2","ci-legacy-5","svc-build-7"]}',
        },
        typed_word="svc-build-7",
    )
    return {**card, **changes}


def gap_evidence(state: str = "incomplete", **changes: JsonValue) -> dict[str, JsonValue]:
    """The evidence of such a card; `changes` replace what is said of its one need."""
    need: dict[str, JsonValue] = {
        "rule": "account-delete",
        "from": "accounts.list",
        "claim": "present",
        "state": state,
        "max_age_s": 900,
        "proven": ["ci-legacy-2", "ci-legacy-5"],
        "unproven": ["svc-build-7"],
        "record": {
            "id": "ev_" + "1" * 32,
            "count": 842,
            "total": None,
            "complete": False,
            "collected_at_ms": NOW_MS - 4 * 60_000,
            "pages": 9,
            "resumable": True,
            "warnings": [],
            "reasons": [
                {
                    "code": "TIME_BUDGET_EXCEEDED",
                    "message": "The upstream's time for the answer ran out.",
                    "limit": 10,
                    "unit": "s",
                    "by": "provider",
                }
            ],
        },
        **changes,
    }
    return {"needed": True, "state": state, "items": [need], "looks": [], "choices": ["collect", "limit"]}


def proven_evidence(**changes: JsonValue) -> dict[str, JsonValue]:
    """Evidence that is all there, and is looked at again just before the change."""
    record: dict[str, JsonValue] = {
        "id": "ev_" + "2" * 32,
        "count": 31,
        "total": 31,
        "complete": True,
        "collected_at_ms": NOW_MS - 2 * 60_000,
        "pages": 1,
        "resumable": False,
        "warnings": [],
        "reasons": [],
    }
    need: dict[str, JsonValue] = {
        "rule": "release-delete",
        "from": "releases.list",
        "claim": "present",
        "state": "complete",
        "max_age_s": 900,
        "proven": ["1290"],
        "unproven": [],
        "record": record,
        **changes,
    }
    look: dict[str, JsonValue] = {
        "rule": "release-delete",
        "operation": "releases.get",
        "expect": "json.draft==`true`",
    }
    return {"needed": True, "state": "complete", "items": [need], "looks": [look], "choices": []}


def before_part(
    *, denied: int = 0, changes: list[tuple[str, str | None, str | None]] | None = None, more: int = 0
) -> dict[str, JsonValue]:
    """What a card tells of the past: so many denials, and an approved request that differs so."""
    listed: list[JsonValue] = [{"what": what, "was": was, "now": now} for what, was, now in changes or ()]
    return {
        "denied": {"rule": "account-delete", "times": denied, "last_at_ms": NOW_MS - 60_000} if denied else None,
        "previous": None
        if changes is None
        else {
            "correlation_id": "op_" + "2" * 44,
            "approved_at_ms": NOW_MS - 3 * 60_000,
            "scope": "once",
            "request_digest": "sha256:" + TAIL + "01234567",
            "changes": listed,
            "more": more,
        },
    }
