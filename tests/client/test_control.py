import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from broker.client.control import ControlClient
from broker.client.faults import Broken, Refused
from broker.client.places import Places
from broker.contract.statements import control_bytes, decision_bytes, policy_bytes, statement_bytes
from broker.contract.wire import JsonValue, digest
from tests.fakes.cards import NOW_MS, delete_sample, sample
from tests.fakes.unix_daemon import UnixDaemon

LOG_ID = "5c1d"
NONCE = "n" * 22
STATUS = {"log_id": LOG_ID, "vault": {"state": "ready", "term": 12}}


class Key:
    """Signs by spelling the bytes out, so that a test can read what was signed."""

    log_id = LOG_ID

    def sign_decision(self, values: Mapping[str, JsonValue]) -> bytes:
        return decision_bytes(values)

    def sign_statement(self, values: Mapping[str, JsonValue]) -> bytes:
        return statement_bytes(values)

    def sign_control(self, values: Mapping[str, JsonValue]) -> bytes:
        return control_bytes(values)

    def sign_policy(self, values: Mapping[str, JsonValue]) -> bytes:
        return policy_bytes(values)


class ForeignKey(Key):
    log_id = "another"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places({"DOORWARD_HOME": str(tmp_path)})


@pytest.fixture
def daemon(places: Places) -> Iterator[UnixDaemon]:
    with UnixDaemon(Path(places.control_socket)) as running:
        running.replies["GET /v1/status"] = (200, STATUS)
        running.replies["GET /v1/nonce"] = (200, {"nonce": NONCE, "expires_at_ms": 1})
        yield running


@pytest.fixture
def client(places: Places, daemon: UnixDaemon) -> Iterator[ControlClient]:
    assert daemon.path.exists()
    with ControlClient(places) as opened:
        yield opened


def served(card: dict[str, JsonValue], **changes: JsonValue) -> dict[str, JsonValue]:
    return {
        "id": card["approval_id"],
        "state": "pending",
        "card": card,
        "card_digest": digest("doorward/card/v1", card),
        "nonce": NONCE,
        "arming_ms": 1500,
        "served_at_ms": NOW_MS,
        "expires_at_ms": NOW_MS + 102_000,
        "joined": 1,
        **changes,
    }


def signature(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


@pytest.mark.parametrize(
    ("verb", "method", "path", "params", "secret"),
    [
        ("thaw", "POST", "/v1/thaw", {}, None),
        ("session.unmute", "POST", "/v1/sessions/se_1/unmute", {"id": "se_1"}, None),
        (
            "credential.add",
            "POST",
            "/v1/credentials",
            {"name": "gh", "kind": "bearer", "origins": ["https://a"]},
            {"token": "canary-token"},
        ),
        ("credential.rotate", "PUT", "/v1/credentials/gh", {"name": "gh"}, {"token": "canary-token"}),
        (
            "credential.rebind",
            "PUT",
            "/v1/credentials/gh",
            {"name": "gh", "origins": ["https://b"]},
            {"token": "canary-token"},
        ),
        ("credential.remove", "DELETE", "/v1/credentials/gh", {"name": "gh"}, None),
        (
            "operation.settle",
            "POST",
            "/v1/operations/op_1/settle",
            {"correlation_id": "op_1", "as": "applied", "reason": "seen"},
            None,
        ),
    ],
)
def test_what_widens_is_signed_with_a_fresh_nonce_and_the_secret_stands_apart(
    client: ControlClient,
    daemon: UnixDaemon,
    verb: str,
    method: str,
    path: str,
    params: dict[str, JsonValue],
    secret: dict[str, JsonValue] | None,
) -> None:
    daemon.replies[f"{method} {path}"] = (200, {"done": True})
    calls = {
        "thaw": lambda: client.thaw(Key()),
        "session.unmute": lambda: client.unmute("se_1", Key()),
        "credential.add": lambda: client.add_credential(params, secret or {}, Key()),
        "credential.rotate": lambda: client.rotate_credential("gh", secret or {}, Key()),
        "credential.rebind": lambda: client.rebind_credential("gh", ["https://b"], secret or {}, Key()),
        "credential.remove": lambda: client.remove_credential("gh", Key()),
        "operation.settle": lambda: client.settle("op_1", "applied", "seen", Key()),
    }
    statement: dict[str, JsonValue] = {
        "verb": verb,
        "params": params,
        "nonce": NONCE,
        "log_id": LOG_ID,
        "vault_term": 12,
    }

    assert {"done": True} == calls[verb]()
    expected = {"statement": statement, "signature": signature(statement_bytes(statement))}
    assert [expected if secret is None else {**expected, "secret": secret}] == daemon.bodies(f"{method} {path}")


def test_a_key_of_another_log_signs_nothing(client: ControlClient, daemon: UnixDaemon) -> None:
    with pytest.raises(Broken, match="another log"):
        client.thaw(ForeignKey())
    with pytest.raises(Broken, match="another log"):
        client.open_session(ForeignKey())

    assert {"GET /v1/status"} == {f"{asked.method} {asked.path}" for asked in daemon.asked}


def test_a_control_session_answers_the_challenge_for_this_process(client: ControlClient, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/control-session"] = (200, {"key_id": "0" * 16, "opened": True})
    client.open_session(Key())

    signed = control_bytes({"nonce": NONCE, "pid": os.getpid(), "log_id": LOG_ID})
    assert [{"nonce": NONCE, "signature": signature(signed)}] == daemon.bodies("POST /v1/control-session")


@pytest.mark.parametrize(("scope", "uses", "age"), [("once", None, None), ("session", 200, 3600)])
def test_a_yes_signs_the_digest_of_the_card_that_was_drawn(
    client: ControlClient, daemon: UnixDaemon, scope: str, uses: int | None, age: int | None
) -> None:
    card = sample()
    daemon.replies["GET /v1/approvals/ap_0123456789ab"] = (200, served(card))
    daemon.replies["POST /v1/approvals/ap_0123456789ab/decision"] = (
        200,
        {"id": "ap_0123456789ab", "state": "approved"},
    )

    client.approve(client.approval("ap_0123456789ab"), Key(), scope=scope, confirm="1290", reason="fine")

    body = daemon.bodies("POST /v1/approvals/ap_0123456789ab/decision")[0]
    statement = body["statement"]
    assert signature(decision_bytes(statement)) == body["signature"]
    assert digest("doorward/card/v1", card) == statement["card_digest"]
    assert (scope, uses, age) == (statement["scope"], statement["max_uses"], statement["max_age_s"])
    assert (NONCE, LOG_ID, 12, "fine") == tuple(statement[name] for name in ("nonce", "log_id", "vault_term", "reason"))
    assert ("1290", "fine", None) == (body["confirm"], body["reason"], body["choice"])


@pytest.mark.parametrize(
    "changed",
    [
        {"card_digest": "sha256:" + "0" * 64},
        {"id": "ap_ffffffffffff"},
        {"card": None},
        {"card": {**sample(), "vault_term": 1.5}},
        {"nonce": None},
        {"arming_ms": True},
        {"card": {**sample(), "surprise": 1}},
    ],
)
def test_a_card_that_is_not_what_it_says_is_never_shown(
    client: ControlClient, daemon: UnixDaemon, changed: dict[str, JsonValue]
) -> None:
    daemon.replies["GET /v1/approvals/ap_0123456789ab"] = (200, {**served(sample()), **changed})

    with pytest.raises(Broken):
        client.approval("ap_0123456789ab")


def test_a_no_carries_no_signature(client: ControlClient, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/approvals/ap_1/decision"] = (200, {"id": "ap_1", "state": "denied"})
    client.deny("ap_1")
    client.deny("ap_1", reason="no", end_session=True)

    assert [
        {"decision": "deny"},
        {"decision": "deny", "reason": "no", "end_session": True},
    ] == daemon.bodies("POST /v1/approvals/ap_1/decision")


def test_trust_signs_digest_and_counter(client: ControlClient, daemon: UnixDaemon) -> None:
    daemon.replies["POST /v1/policy/trust"] = (200, {"digest": "d", "counter": 3})
    client.trust_policy("sha256:ab", 3, Key())

    signed = policy_bytes({"policy_digest": "sha256:ab", "counter": 3, "log_id": LOG_ID})
    assert [{"policy_digest": "sha256:ab", "counter": 3, "signature": signature(signed)}] == daemon.bodies(
        "POST /v1/policy/trust"
    )


def test_what_only_takes_away_and_what_is_read_ask_their_routes(client: ControlClient, daemon: UnixDaemon) -> None:
    lists = ("approvals", "sessions", "grants", "credentials", "operations")
    for name in lists:
        daemon.replies[f"GET /v1/{name}"] = (200, {name: [{"id": name}]})
    routes = (
        "GET /v1/policy",
        "GET /v1/policy/pending",
        "GET /v1/audit/events",
        "POST /v1/unlock",
        "POST /v1/lock",
        "POST /v1/freeze",
        "DELETE /v1/sessions/se_1",
        "POST /v1/sessions/se_1/mute",
        "DELETE /v1/grants/g%2F1",
        "POST /v1/explain",
        "POST /v1/operations/op_1/reconcile",
    )
    for line in routes:
        daemon.replies[line] = (200, {})

    assert [{"id": "approvals"}] == client.approvals(state="pending")
    assert [{"id": "sessions"}] == client.sessions()
    assert [{"id": "grants"}] == client.grants()
    assert [{"id": "credentials"}] == client.credentials()
    assert [{"id": "operations"}] == client.operations(state="in_doubt")
    client.policy()
    client.policy_pending()
    client.audit_events(after_seq=3, limit=2, correlation_id="op_1", event="vault.locked")
    client.unlock(b"k" * 32)
    client.lock()
    client.freeze()
    client.revoke_session("se_1", kill=True)
    client.mute("se_1")
    client.revoke_grant("g/1")
    client.explain({"method": "GET"}, agent="codex")
    client.reconcile("op_1")

    targets = [asked.target for asked in daemon.asked]
    assert "/v1/approvals?state=pending" in targets
    assert "/v1/sessions/se_1?kill=1" in targets
    assert "/v1/audit/events?after_seq=3&limit=2&correlation_id=op_1&event=vault.locked" in targets
    assert [{"kek_b64": base64.b64encode(b"k" * 32).decode()}] == daemon.bodies("POST /v1/unlock")
    assert [{"request": {"method": "GET"}, "agent": "codex"}] == daemon.bodies("POST /v1/explain")


def test_a_name_that_is_no_text_is_asked_for_byte_by_byte(client: ControlClient, daemon: UnixDaemon) -> None:
    """It came from a command line, and is the daemon's to refuse."""
    odd = os.fsdecode(b"se\xff/")
    for line in ("DELETE /v1/sessions/se%FF%2F", "GET /v1/audit/events"):
        daemon.replies[line] = (200, {})
    client.revoke_session(odd, kill=False)
    client.audit_events(event=odd)

    targets = [asked.target for asked in daemon.asked]
    assert ["/v1/sessions/se%FF%2F", "/v1/audit/events?event=se%FF%2F"] == targets


def test_a_refusal_carries_code_faults_and_delay(client: ControlClient, daemon: UnixDaemon) -> None:
    fault = {"path": "a.toml:3", "problem": "unknown key", "expected": None}
    error = {"code": "policy_faults", "message": "no", "faults": [fault, 7], "retry_after_s": 4}
    daemon.replies["POST /v1/lock"] = (422, {"error": error})

    with pytest.raises(Refused) as refusal:
        client.lock()
    found = refusal.value
    assert (422, "policy_faults", (("a.toml:3", "unknown key", ""),), 4) == (
        found.status,
        found.code,
        found.faults,
        found.retry_after_s,
    )


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("GET /v1/status", (500, {})),
        ("GET /v1/status", (500, {"error": {"code": 5}})),
        ("GET /v1/status", (200, b"nope")),
        ("GET /v1/sessions", (200, {"sessions": [1]})),
        ("GET /v1/sessions", (200, {})),
    ],
)
def test_an_answer_out_of_shape_is_broken(
    client: ControlClient, daemon: UnixDaemon, line: str, reply: tuple[int, object]
) -> None:
    daemon.replies[line] = reply
    with pytest.raises(Broken):
        client.status() if line.endswith("status") else client.sessions()


def test_a_destructive_card_keeps_its_typed_word(client: ControlClient, daemon: UnixDaemon) -> None:
    daemon.replies["GET /v1/approvals/ap_0123456789ab"] = (200, served(delete_sample()))

    assert "1290" == client.approval("ap_0123456789ab").card.typed_word
