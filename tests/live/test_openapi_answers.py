"""A real daemon answers each route of both documents as its schema says."""

import base64
import http.client
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from broker.client.places import Places
from broker.contract.openapi import document
from broker.contract.schemas import schema
from broker.contract.statements import control_bytes, decision_bytes, policy_bytes, statement_bytes
from broker.contract.wire import digest

pytestmark = pytest.mark.live

KEK = b"canary-kek".ljust(32, b".")
POLICY = """
version = 1

[[rules]]
id = "read"
services = ["here", "there"]
effects = ["read"]
approval = "per_call"
reason = "to see a card"

[[rules]]
id = "all"
services = ["here"]
methods = ["POST"]
approval = "none"

[services.here]
kind = "http"
base_url = "http://127.0.0.1:9"
ad_hoc = ["GET", "POST"]

[services.there]
kind = "http"
base_url = "http://127.0.0.1:9/there"
credential = "there"
ad_hoc = ["GET"]

[services.here.operations."items.list"]
request = { method = "GET", path = "/items/{id}", query = ["page"] }
effect = "read"
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


SSH_ASKS: dict[str, dict[str, str]] = {
    "/v1/ssh": {"command": "id"},
    "/v1/ssh/stream": {"command": "id"},
    "/v1/ssh/put": {"path": "/x", "content": "x"},
    "/v1/ssh/get": {"path": "/x"},
}


@cache
def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(schema(name), offline=True)


def named_schema(face: str, method: str, template: str, status: int) -> str:
    told: Any = document(face)
    responses = told["paths"][template][method.lower()]["responses"]
    response = responses.get(str(status)) or responses["default"]
    if "$ref" in response:
        response = told["components"]["responses"][response["$ref"].rpartition("/")[2]]
    in_frames = {"schema": {"$ref": "./schemas/result.json"}}
    name: str = response["content"].get("application/json", in_frames)["schema"].get("$ref", "")
    return name.removeprefix("./schemas/").removesuffix(".json")


AGENT = """
import http.client, json, socket, sys
for line in sys.stdin:
    method, path, body = json.loads(line)
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(sys.argv[1])
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    told = answer.read()
    if answer.getheader("content-type", "").startswith("application/x-doorward-frames"):
        while told:  # the last frame is the envelope
            end = 5 + int.from_bytes(told[1:5], "big")
            last, told = told[5:end], told[end:]
        told = last
    print(json.dumps([answer.status, json.loads(told)]), flush=True)
"""


class Agent:
    """An agent's process: what it is told to ask, it asks."""

    def __init__(self, daemon: "Daemon", process: "subprocess.Popen[str]") -> None:
        self._daemon = daemon
        self._process = process

    def begin(self, method: str, path: str, body: object = None) -> None:
        assert self._process.stdin is not None
        print(json.dumps([method, path, body]), file=self._process.stdin, flush=True)

    def end(self, method: str, template: str) -> Any:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], 30)[0], "the agent has no answer after 30 s"
        status, value = json.loads(self._process.stdout.readline())
        self._daemon.fits("agent", method, template, status, value)
        return value

    def ask(self, method: str, template: str, body: object = None, **ids: str) -> Any:
        self.begin(method, template.format(**ids), body)
        return self.end(method, template.partition("?")[0])


class Daemon:
    """The daemon as both sides of it see it. Every answer is held against its schema on the way."""

    def __init__(self, places: Places, key: Ed25519PrivateKey, log_id: str) -> None:
        self.places = places
        self.key = key
        self.log_id = log_id
        self.seen: set[tuple[str, str, str]] = set()

    def ask(self, face: str, method: str, template: str, body: object = None, *, status: int = 200, **ids: str) -> Any:
        connection = UnixConnection(self.places.agent_socket if face == "agent" else self.places.control_socket)
        octets = None if body is None else json.dumps(body).encode()
        connection.request(method, template.format(**ids), octets, {"content-type": "application/json"})
        answer = connection.getresponse()
        value = json.loads(answer.read())
        connection.close()
        self.fits(face, method, template.partition("?")[0], answer.status, value)
        assert answer.status == status, value
        return value

    def approve(self, shown: Any) -> None:
        """Approve as soon as the card is armed; before that the answer is a refusal."""
        self.control("POST", "/v1/approvals/{id}/decision", self.decision(shown), id=shown["id"], status=409)
        until(lambda: time.time() * 1000 > shown["served_at_ms"] + shown["arming_ms"])
        self.control("POST", "/v1/approvals/{id}/decision", self.decision(shown), id=shown["id"])

    def fits(self, face: str, method: str, template: str, status: int, value: object) -> None:
        self.seen.add((face, method.lower(), template))
        name = named_schema(face, method, template, status)
        assert not name or [] == [
            f"{'/'.join(map(str, fault.instance_path))}: {fault.message}"
            for fault in validator(name).iter_errors(value)
        ]

    @contextmanager
    def agent(self) -> Iterator["Agent"]:
        """A process of its own, for whoever asked here can't answer there."""
        with subprocess.Popen(
            [sys.executable, "-c", AGENT, self.places.agent_socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            yield Agent(self, process)
            process.communicate(timeout=20)

    def control(self, method: str, template: str, body: object = None, *, status: int = 200, **ids: str) -> Any:
        return self.ask("control", method, template, body, status=status, **ids)

    def sign(self, message: bytes) -> str:
        return base64.b64encode(self.key.sign(message)).decode()

    def signed(self, verb: str, params: object, **more: object) -> dict[str, object]:
        statement: Any = {
            "verb": verb,
            "params": params,
            "nonce": self.control("GET", "/v1/nonce")["nonce"],
            "log_id": self.log_id,
            "vault_term": self.control("GET", "/v1/status")["vault"]["term"],
        }
        return {"statement": statement, "signature": self.sign(statement_bytes(statement)), **more}

    def open_control_session(self) -> None:
        nonce = self.control("GET", "/v1/nonce")["nonce"]
        message = control_bytes({"nonce": nonce, "pid": os.getpid(), "log_id": self.log_id})
        self.control("POST", "/v1/control-session", {"nonce": nonce, "signature": self.sign(message)})

    def trust(self) -> None:
        pending = self.control("GET", "/v1/policy/pending")
        assert pending["faults"] == []
        values = {"policy_digest": pending["digest"], "counter": pending["counter"], "log_id": self.log_id}
        self.control(
            "POST",
            "/v1/policy/trust",
            {
                "policy_digest": pending["digest"],
                "counter": pending["counter"],
                "signature": self.sign(policy_bytes(values)),
            },
        )

    def decision(self, shown: Any) -> dict[str, object]:
        statement: Any = {
            "approval_id": shown["id"],
            "request_digest": shown["card"]["exact"]["request_digest"],
            "card_digest": digest("doorward/card/v1", shown["card"]),
            "decision": "approve",
            "choice": None,
            "scope": "once",
            "max_uses": None,
            "max_age_s": None,
            "reason": None,
            "policy_digest": shown["card"]["why"]["policy"],
            "log_id": self.log_id,
            "vault_term": shown["card"]["vault_term"],
            "nonce": shown["nonce"],
            "decided_at_ms": shown["served_at_ms"],
        }
        signature = self.sign(decision_bytes(statement))
        return {"decision": "approve", "scope": "once", "choice": None, "statement": statement, "signature": signature}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    environ = {**os.environ, "DOORWARD_HOME": str(tmp_path / "h")}
    places = Places(environ)
    key = Ed25519PrivateKey.generate()
    (tmp_path / "h").mkdir(mode=0o700)
    salt = base64.b64encode(bytes(16)).decode()
    request: Any = {
        "kek_b64": base64.b64encode(KEK).decode(),
        "kdf": {"algorithm": "argon2id", "memory_kib": 8192, "iterations": 1, "lanes": 1, "salt": salt},
        "approver_public_key_b64": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
    }
    made = subprocess.run(
        [sys.executable, "-m", "broker.daemon", "--init"],
        input=json.dumps(request).encode(),
        env=environ,
        capture_output=True,
        check=True,
        timeout=60,
    )
    places.policies.mkdir(parents=True, exist_ok=True, mode=0o700)
    (places.policies / "here.toml").write_text(POLICY, encoding="utf-8")
    with subprocess.Popen([sys.executable, "-m", "broker.daemon"], env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], 30)[0], "the daemon did not start in 30 s"
            assert process.stdout.readline() == b"ready\n"
            yield Daemon(places, key, json.loads(made.stdout)["log_id"])
        finally:
            process.terminate()
            process.wait(30)


def until(what: Callable[[], Any]) -> Any:
    """The first true answer; asks again for a minute at most."""
    deadline = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


OP = "op_" + "0" * 44
BEARER = {"name": "one", "kind": "bearer", "origins": ["https://one.example"]}
TOKEN = {"token": "canary-token-of-the-documents"}


def look_while_locked(daemon: Daemon) -> None:
    for path in ("status", "approvals", "sessions", "grants", "policy", "policy/pending", "openapi.json"):
        daemon.control("GET", f"/v1/{path}")
    for path in ("credentials", "operations", "audit/events", "audit/activity", "audit/sessions"):
        daemon.control("GET", f"/v1/{path}", status=401)
    daemon.control("POST", "/v1/unlock", {"kek": 1}, status=422)
    assert {"state": "locked", "reason": None} == daemon.control("GET", "/v1/vault/quarantine")
    statement = {"reason": "audit_altered", "verdict": "ALTERED", "seq": 1, "head": "a" * 64}
    taken = daemon.signed("vault.readopt", statement, kek_b64=base64.b64encode(KEK).decode())
    daemon.control("POST", "/v1/vault/readopt", taken, status=409)
    with daemon.agent() as agent:
        refused = agent.ask("POST", "/v1/http", {"service": "here", "method": "GET", "path": "/x"})
        assert refused["category"] == "vault_locked"


def keep_credentials(daemon: Daemon) -> None:
    daemon.control("POST", "/v1/credentials", daemon.signed("credential.add", BEARER, secret=TOKEN))
    rotate = daemon.signed("credential.rotate", {"name": "one"}, secret=TOKEN)
    daemon.control("PUT", "/v1/credentials/{name}", rotate, name="one")
    rebind = {"name": "one", "origins": ["https://two.example"]}
    daemon.control(
        "PUT", "/v1/credentials/{name}", daemon.signed("credential.rebind", rebind, secret=TOKEN), name="one"
    )
    assert daemon.control("GET", "/v1/credentials")["credentials"][0]["origins"] == ["https://two.example"]
    assert daemon.control("POST", "/v1/credentials/{name}/check", {}, name="one")["verdict"] == "unknown"
    assert daemon.control("GET", "/v1/host-keys")["host_keys"] == []
    forget = daemon.signed("host_key.forget", {"address": "b.example", "port": 22})
    daemon.control("POST", "/v1/host-keys/forget", forget, status=404)
    daemon.control("POST", "/v1/listeners", {}, status=422)  # done, it would shut this very process out: see containers
    remove = daemon.signed("credential.remove", {"name": "one"})
    daemon.control("DELETE", "/v1/credentials/{name}", remove, name="one")
    daemon.control("DELETE", "/v1/credentials/{name}", remove, name="one", status=409)


def open_it_otherwise(daemon: Daemon) -> None:
    kek = {"kek_b64": base64.b64encode(KEK).decode()}
    adding = daemon.signed("vault.method.add", {"method": "passphrase"}, secret=kek)
    daemon.control("POST", "/v1/vault/methods", adding, status=409)
    lasting = daemon.signed("vault.method.remove", {"method": "passphrase"})
    daemon.control("POST", "/v1/vault/methods/remove", lasting, status=409)
    kdf = daemon.control("GET", "/v1/status")["vault"]["kdf"]
    changing = daemon.signed("vault.passphrase", {"kdf": kdf}, secret={**kek, "old_kek_b64": kek["kek_b64"]})
    assert daemon.control("POST", "/v1/vault/passphrase", changing) == {"methods": ["passphrase"]}


def explain(daemon: Daemon) -> None:
    for path, service in (("/items/7", "here"), ("/x", "here"), ("/x", "nowhere")):
        request = {"service": service, "method": "GET", "path": path}
        daemon.control("POST", "/v1/explain", {"request": request})
        daemon.control("POST", "/v1/explain", {"request": {**request, "method": "PUT"}, "agent": "codex"})
        with daemon.agent() as agent:
            agent.ask("POST", "/v1/explain", {"action": "http", "request": request})


def want_a_credential(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.begin("POST", "/v1/credential-requests", {"service": "there", "purpose": "to look"})
        (listed,) = until(lambda: daemon.control("GET", "/v1/credential-requests")["credential_requests"])
        shown = daemon.control("GET", "/v1/credential-requests/{id}", id=listed["id"])
        assert "to look" == shown["purpose"]
        daemon.control("POST", "/v1/credential-requests/{id}/decline", {"reason": "no"}, id=listed["id"])
        assert "declined" == agent.end("POST", "/v1/credential-requests")["code"]
        agent.ask("POST", "/v1/credential-requests", {"service": "none", "purpose": "to look"})


def enrol_another(daemon: Daemon) -> None:
    public_key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    enrolled = daemon.control(
        "POST", "/v1/approvers", daemon.signed("approver.enrol", {"public_key": public_key.hex()})
    )
    assert 2 == len(daemon.control("GET", "/v1/approvers")["approvers"])
    name = enrolled["key_id"]
    daemon.control("DELETE", "/v1/approvers/{key_id}", daemon.signed("approver.remove", {"key_id": name}), key_id=name)


def act(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        agent.ask("POST", "/v1/session", {"label": "documents"})
        agent.begin("POST", "/v1/http", {"service": "here", "operation": "items.list", "args": {"id": "7"}})
        listed = until(lambda: daemon.control("GET", "/v1/approvals?state=pending")["approvals"])
        shown = daemon.control("GET", "/v1/approvals/{id}", id=listed[0]["id"])
        daemon.approve(shown)
        daemon.control("POST", "/v1/approvals/{id}/decision", {"decision": "deny"}, id=shown["id"], status=409)
        result = agent.end("POST", "/v1/http")
        assert (result["category"], result["gate"]["call"]) == ("local_failure", "granted")
        kept = daemon.control("GET", "/v1/diagnostics/{id}", id=result["diagnostics_ref"])
        assert (kept["code"], kept["http"]["status"]) == (result["code"], None)
        daemon.control("GET", "/v1/diagnostics/{id}", id="diag_" + "0" * 40, status=404)
        for request in ({"service": "here", "method": "POST", "path": "/x", "body": {}}, {"service": "here"}):
            agent.ask("POST", "/v1/http", request)
        agent.ask("POST", "/v1/http", {"service": "here", "method": "GET", "path": "/x", "wait_s": 0})
        agent.ask(
            "POST", "/v1/collect", {"service": "here", "operation": "items.list", "args": {"id": "7"}, "wait_s": 0}
        )
        agent.ask("POST", "/v1/collect", {"service": "here"})
        agent.ask("GET", "/v1/results/{correlation_id}", correlation_id=result["correlation_id"])
        agent.ask("DELETE", "/v1/results/{correlation_id}", correlation_id=OP)
        agent.ask("POST", "/v1/reconcile", {"correlation_id": OP})
        agent.ask("POST", "/v1/http/stream", {"service": "none", "method": "GET", "path": "/"})
        for path, more in SSH_ASKS.items():
            agent.ask("POST", path, {"host": "none/none", **more})
        for path in ("session", "services", "health", "openapi.json"):
            agent.ask("GET", f"/v1/{path}")
        agent.ask("GET", "/v1/schemas/{name}", name="result.json")
        session = daemon.control("GET", "/v1/sessions")["sessions"][0]["id"]
        daemon.control("GET", "/v1/grants")
        daemon.control("GET", "/v1/schemas/{id}", id="card")
        daemon.control("POST", "/v1/sessions/{id}/mute", {}, id=session)
        unmute = daemon.signed("session.unmute", {"id": session})
        daemon.control("POST", "/v1/sessions/{id}/unmute", unmute, id=session)
        daemon.control("DELETE", "/v1/sessions/{id}", id=session)
        daemon.control("DELETE", "/v1/grants/{id}", id="gr_0", status=404)


def close_and_stop(daemon: Daemon) -> None:
    daemon.control("GET", "/v1/operations?state=in_doubt")
    settle = daemon.signed("operation.settle", {"correlation_id": OP, "as": "applied", "reason": "looked"})
    daemon.control("POST", "/v1/operations/{id}/settle", settle, id=OP, status=404)
    daemon.control("POST", "/v1/operations/{id}/reconcile", {}, id=OP)
    assert daemon.control("GET", "/v1/audit/events?limit=1000")["events"]
    assert daemon.control("GET", "/v1/audit/activity?limit=1000")["rows"]
    assert daemon.control("GET", "/v1/audit/sessions?limit=1000")["sessions"]
    assert daemon.control("POST", "/v1/audit/checkpoint", {})["countersigned"]
    assert daemon.control("GET", "/v1/audit/checkpoints?limit=10")["checkpoints"]
    daemon.control("POST", "/v1/freeze", {})
    daemon.control("POST", "/v1/thaw", daemon.signed("thaw", {}))
    assert daemon.control("POST", "/v1/lock", {})["state"] == "locked"
    daemon.control("POST", "/v1/unlock", {"kek_b64": "A" * 43 + "="}, status=403)


def test_every_route_answers_as_its_document_says(daemon: Daemon) -> None:
    look_while_locked(daemon)
    daemon.control("POST", "/v1/unlock", {"kek_b64": base64.b64encode(KEK).decode()})
    daemon.open_control_session()
    daemon.trust()
    daemon.control("GET", "/v1/policy")
    keep_credentials(daemon)
    open_it_otherwise(daemon)
    explain(daemon)
    want_a_credential(daemon)
    enrol_another(daemon)
    act(daemon)
    close_and_stop(daemon)

    documents: dict[str, Any] = {face: document(face) for face in ("agent", "control")}
    told = {
        (face, method, path)
        for face, found in documents.items()
        for path, item in found["paths"].items()
        for method in {"get", "put", "post", "delete"} & set(item)
    }
    assert {("control", "get", "/v1/events")} == told - daemon.seen
