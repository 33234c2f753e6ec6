"""The cards of the mock-ups, and their queues."""

from typing import Any

from tests.fakes.cards import NOW_MS, TAIL, before_part, delete_sample, gap_sample, proven_evidence, sample

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
    return delete_release(left_s) | {"evidence": proven_evidence(), "no": {"memory_s": 600}}


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


FINGERPRINT = "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDsJwnX2uFqK5vYb1M"


def first_contact(left_s: int = 110) -> dict[str, Any]:
    """Mock-up 4: a command on a host whose key nobody has seen before."""
    raw: dict[str, Any] = sample(
        summary={"effect": "RUN", "service": "web-3", "operation": "restart-web", "identifies": "nginx"},
        target={"method": "SSH", "url": "deploy@web-3.acme.example:22"},
        why={"rule": "restart-web", "gate": "per_call", "reason": "", "rules": ["restart-web"]},
        uses={"credential": "deploy-web"},
        typed_word="web-3",
        ssh={
            "action": "exec",
            "host": "web-3",
            "address": "web-3.acme.example",
            "port": 22,
            "user": "deploy",
            "jump": [],
            "what": "systemctl restart nginx",
            "command_sha256": "0" * 64,
            "argv": None,
            "pty": False,
            "detach": False,
            "marker": "required",
            "host_key": {"state": "unverified", "algorithm": "ssh-ed25519", "fingerprint": FINGERPRINT},
        },
    )
    raw["who"] |= {
        "opened_at_ms": NOW_MS - 52 * MINUTE_MS,
        "calls": 31,
        "says": "nginx serves the old certificate",
    }
    once = "trusting this key for web-3 from now on, and this command, once. A wrong key: commands go to a stranger."
    raw["yes"] |= {"once": once}
    raw["yes"]["session"] |= {"offered": False, "why_not": "this rule asks each time"}
    return expiring(raw, left_s, "ap_000000000004")


def repeat_in_doubt(left_s: int = 93) -> dict[str, Any]:
    """Mock-up 5: the same change may have happened already."""
    raw: dict[str, Any] = sample(
        summary={
            "effect": "WRITE",
            "service": "deploy",
            "operation": "deployments.create",
            "identifies": "prod web 2.4.1",
            "targets": 1,
        },
        target={"method": "POST", "url": "https://deploy.acme.example/v2/deployments"},
        why={"rule": "deploy-write", "gate": "per_call", "reason": "", "rules": ["deploy-write"]},
        uses={"credential": "deploy-prod"},
        doubts=[
            {
                "correlation_id": "op_0193a1b2c3d4" + TAIL[:28] + "9f3e",
                "sent_at_ms": NOW_MS - 6 * MINUTE_MS,
                "summary": "handed over, 412 bytes, no answer: 30 s",
                "agent": "claude-code",
                "same_session": True,
                "read_back": "deployments.list",
            }
        ],
        body={"bytes": 16, "media": "application/json", "text": '{"tag":"v2.4.1"}'},
        typed_word="2.4.1",
    )
    raw["who"] |= {"opened_at_ms": NOW_MS - 44 * MINUTE_MS, "calls": 22, "says": "retrying after time-out"}
    raw["yes"] |= {"once": "sending it a second time, once"}
    raw["yes"]["session"] |= {"offered": False, "why_not": "an earlier attempt is in doubt"}
    return expiring(raw, left_s, "ap_000000000005")


def wide_gap() -> dict[str, Any]:
    """Mock-up 17: the gap of mock-up 3 with all that a wide window has room for."""
    raw = delete_accounts()
    wide = wide_write()
    raw["who"] |= {name: wide["who"][name] for name in ("exe", "pid", "chain", "cwd", "label", "opened_at_ms")}
    raw["why"] |= {"file": "cloud.toml"}
    return {**raw, "before": before_part(denied=1)}


def changed_write() -> dict[str, Any]:
    """A write like one that was approved before, but for two places."""
    changes = [("path", "/repos/acme/site/issues/7", "/repos/acme/site/issues/8"), ("body.labels.1", None, "urgent")]
    raw: dict[str, Any] = sample(
        summary={"effect": "WRITE", "operation": "issues.update", "identifies": "acme/site 8", "targets": 1},
        target={"method": "PATCH", "url": "https://api.github.com/repos/acme/site/issues/8"},
        body={"bytes": 28, "media": "application/json", "text": '{"labels":["bug","urgent"]}'},
        before=before_part(changes=list(changes)),
    )
    return expiring(raw, 100, "ap_000000000008")


def unnamed_agent() -> dict[str, Any]:
    """A program that no policy names."""
    raw: dict[str, Any] = sample(who={"agent": "unidentified", "identified": False, "exe": "/opt/agent/bin/agent"})
    return expiring(raw, 100, "ap_000000000009")
