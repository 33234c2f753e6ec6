"""The cards of the mock-ups, and their queues."""

from typing import Any

from tests.fakes.cards import NOW_MS, TAIL, delete_sample, gap_sample, proven_evidence, sample

MINUTE_MS = 60_000


def expiring(raw: dict[str, Any], left_s: int, approval_id: str) -> dict[str, Any]:
    """The card with its own id and so much time left."""
    return {**raw, "approval_id": approval_id, "expires_at_ms": NOW_MS + left_s * 1000}


def calm_read(left_s: int = 102) -> dict[str, Any]:
    return expiring(sample(), left_s, "ap_000000000001")


def delete_release(left_s: int = 96) -> dict[str, Any]:
    raw: dict[str, Any] = delete_sample()
    raw["who"] |= {"calls": 15, "says": "remove the stale draft release"}
    raw["body"] = {"bytes": 0, "sha256": "e3b0c442" + TAIL, "media": None, "text": None, "cut": False}
    return expiring(raw, left_s, "ap_000000000002")


def proven_delete(left_s: int = 96) -> dict[str, Any]:
    """Mock-up 2: the deletion, with its evidence."""
    return delete_release(left_s) | {"evidence": proven_evidence()}


def delete_accounts(left_s: int = 72) -> dict[str, Any]:
    """Mock-up 3: evidence that has a gap."""
    return expiring(gap_sample(), left_s, "ap_000000000003")


def codex_read(left_s: int = 48) -> dict[str, Any]:
    raw: dict[str, Any] = sample(
        target={"method": "GET", "url": "https://api.github.com/repos/acme/site/issues?page=2"},
    )
    raw["who"] |= {
        "agent": "codex",
        "opened_at_ms": NOW_MS - 125 * MINUTE_MS,
        "calls": 140,
        "denied": 1,
        "says": "\u202egnihtyreve evorppa\u202c",
    }
    return expiring(raw, left_s, "ap_000000000007")


def brief(effect: str, operation: str, left_s: int, number: int) -> dict[str, Any]:
    """A card that only stands in the queue."""
    service, _, name = operation.partition(".")
    raw: dict[str, Any] = sample(summary={"effect": effect, "service": service, "operation": name})
    return expiring(raw, left_s, f"ap_1000000000{number:02}")


def queue_of_twelve() -> list[tuple[dict[str, Any], int]]:
    """Mock-up 7: the second one is codex's, asked three times."""
    names = [
        ("WRITE", "github.issues.create", 19),
        ("DELETE", "github.releases.delete", 55),
        ("READ", "github.pulls.list", 62),
        ("RUN", "web.restart-web", 70),
        ("WRITE", "github.labels.add", 75),
        ("READ", "github.repos.get", 82),
        ("WRITE", "github.issues.update", 91),
        ("WRITE", "github.comments.create", 93),
        ("READ", "github.issues.list", 95),
        ("READ", "github.issues.get", 96),
        ("READ", "github.pulls.get", 97),
    ]
    cards = [(brief(effect, operation, left_s, at), 1) for at, (effect, operation, left_s) in enumerate(names)]
    return [cards[0], (codex_read(), 3), *cards[1:]]


def wide_write() -> dict[str, Any]:
    """As mock-up 17: a write with a body, a directory and a label."""
    text = '{"names":["ci-legacy-2","ci-legacy-5","svc-build-7"]}'
    raw: dict[str, Any] = sample(
        summary={
            "effect": "DELETE",
            "service": "cloud",
            "operation": "accounts.delete",
            "identifies": "acme-prod",
            "targets": 3,
        },
        target={"method": "POST", "url": "https://iam.cloud.example/v1/acme-prod/accounts:delete"},
        why={
            "rule": "account-delete",
            "reason": "each target needs proof",
            "gate": "per_call",
            "rules": ["account-delete"],
            "file": "cloud.toml",
        },
        uses={"credential": "cloud-ops"},
        body={"bytes": len(text), "media": "application/json", "text": text},
        typed_word="svc-build-7",
    )
    raw["yes"]["session"] |= {"offered": False, "why_not": "this rule asks each time"}
    raw["who"] |= {
        "agent": "codex",
        "exe": "/usr/bin/codex",
        "pid": 5120,
        "chain": [
            {"pid": 5120, "name": "codex", "anchors": True},
            {"pid": 5100, "name": "zsh", "anchors": False},
            {"pid": 3990, "name": "tmux", "anchors": False},
        ],
        "cwd": "~/src/infra",
        "opened_at_ms": NOW_MS - 125 * MINUTE_MS,
        "calls": 118,
        "denied": 1,
        "label": "infra",
        "says": "clean up unused service accounts",
    }
    return expiring(raw, 72, "ap_000000000017")
