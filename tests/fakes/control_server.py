"""A control socket without a daemon: cards and lists from memory, signatures checked for real, events served.

Also a program, for looking at the interface by hand: `python -m tests.fakes.control_server HOME` serves sample cards
under HOME/run/control.sock and writes HOME/config/approver.key for the passphrase `canary passphrase`.
"""

import base64
import contextlib
import json
import queue
import secrets
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from typing_extensions import override

from broker.client.approver import Secret, create_key_file, derive
from broker.contract.kdf import REDUCED_FLOOR, KdfFloor, KdfParams
from broker.contract.statements import control_bytes, decision_bytes, policy_bytes, statement_bytes
from broker.contract.wire import JsonValue, digest
from tests.fakes.cards import NOW_MS, delete_sample, sample

PASSPHRASE = b"canary passphrase"
LOG_ID = "5c1d"
HEARTBEAT_S = 15.0
Reply = tuple[int, Any]


class Refusal(Exception):  # noqa: N818 - it names what the server says
    """An error body with its status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.reply: Reply = (status, {"error": {"code": code, "message": message}})


class ControlServer:
    """State and routes. Public attributes may be set by tests while it runs; `changed` tells the listeners."""

    def __init__(self, home: Path, *, floor: KdfFloor = REDUCED_FLOOR) -> None:
        for folder in ("config", "run"):
            (home / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = home / "run" / "control.sock"
        self.kdf = KdfParams(
            memory_kib=floor.memory_kib, iterations=floor.iterations, lanes=1, salt=b"0123456789abcdef"
        )
        keys = derive(Secret(PASSPHRASE), self.kdf, floor=floor)
        public = create_key_file(home / "config" / "approver.key", LOG_ID, self.kdf, keys.approver_kek)
        self._public = Ed25519PublicKey.from_public_bytes(public)
        self._vault_kek = base64.b64encode(keys.vault_kek.reveal()).decode()
        self.vault_state = "ready"
        self.term = 12
        self.frozen = False
        self.opened = False
        self.pending_policy = False
        self.cards: dict[str, dict[str, Any]] = {}
        self.states: dict[str, tuple[str, str | None]] = {}
        self.joined: dict[str, int] = {}
        self.served_at_s: dict[str, float] = {}
        self.lists: dict[str, list[dict[str, Any]]] = {name: [] for name in _LISTS}
        self.doubts: list[dict[str, Any]] = []
        self.audit: list[dict[str, Any]] = []
        self.activity: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self._nonces: set[str] = set()
        self._listeners: list[queue.Queue[str]] = []
        self._server = _UnixServer(str(self.path), self)
        self.path.chmod(0o600)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for listener in self._listeners:
            listener.put("")
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
        self.path.unlink(missing_ok=True)

    def put(self, card: dict[str, Any], *, joined: int = 1) -> str:
        """A card comes up. Its times are moved to now."""
        approval_id = str(card["approval_id"])
        shift = time.time_ns() // 1_000_000 - NOW_MS
        card["created_at_ms"] += shift
        card["expires_at_ms"] += shift
        card["who"]["opened_at_ms"] += shift
        for doubt in card["doubts"]:
            doubt["sent_at_ms"] += shift
        self.cards[approval_id] = card
        self.states[approval_id] = ("pending", None)
        self.joined[approval_id] = joined
        self.changed("approval", {"id": approval_id, "state": "pending"})
        return approval_id

    def settle(self, approval_id: str, state: str, ended_by: str | None = None) -> None:
        self.states[approval_id] = (state, ended_by)
        self.changed("approval", {"id": approval_id, "state": state})

    def changed(self, event: str, value: Mapping[str, JsonValue]) -> None:
        for listener in self._listeners:
            listener.put(f"id: {time.monotonic_ns()}\nevent: {event}\ndata: {json.dumps(value)}\n\n")

    def listen(self) -> "queue.Queue[str]":
        listener: queue.Queue[str] = queue.Queue()
        self._listeners.append(listener)
        return listener

    # Routes.

    def reply(self, method: str, path: str, body: dict[str, Any]) -> Reply:
        self.asked.append(f"{method} {path}")
        try:
            route = self._open_routes().get(f"{method} {path}") or self._prefixed(method, path)
            return route(body)
        except Refusal as refusal:
            return refusal.reply
        except (KeyError, TypeError) as fault:
            return 422, {"error": {"code": "schema", "message": f"missing or wrong: {fault}"}}

    def _open_routes(self) -> dict[str, Callable[[dict[str, Any]], Reply]]:
        return {
            "GET /v1/status": lambda _: (200, self._status()),
            "GET /v1/nonce": lambda _: (200, {"nonce": self._nonce(), "expires_at_ms": NOW_MS}),
            "POST /v1/control-session": self._open_session,
            "POST /v1/unlock": self._unlock,
            "POST /v1/lock": lambda _: self._lock(),
            "POST /v1/freeze": lambda _: self._freeze(),
            "GET /v1/approvals": lambda _: (200, {"approvals": [self._row(one) for one in self.cards]}),
            "GET /v1/sessions": lambda _: (200, {"sessions": self.lists["sessions"]}),
            "GET /v1/grants": lambda _: (200, {"grants": self.lists["grants"]}),
            "GET /v1/policy": lambda _: (200, self._policy()),
            "GET /v1/policy/pending": lambda _: (200, self._pending()),
            "POST /v1/policy/trust": self._trust,
            "GET /v1/credentials": lambda _: self._sealed({"credentials": self.lists["credentials"]}),
            "GET /v1/operations": lambda _: self._sealed({"operations": self.doubts}),
            "GET /v1/audit/events": lambda _: self._sealed({"events": self.audit, "next_seq": None, "head": 9}),
            "GET /v1/audit/activity": lambda _: self._sealed(
                {"rows": self.activity, "next_seq": None, "from_seq": 0, "rebuilt": True, "head": 9}
            ),
            "GET /v1/audit/sessions": lambda _: self._sealed(
                {"sessions": [], "from_seq": 0, "rebuilt": True, "head": 9}
            ),
            "GET /v1/audit/checkpoints": lambda _: self._sealed(
                {"checkpoints": self.lists["checkpoints"], "next_seq": None, "whole": True, "head": 9}
            ),
            "GET /v1/credential-requests": lambda _: (200, {"credential_requests": self.lists["wants"]}),
            "GET /v1/host-keys": lambda _: self._sealed({"host_keys": self.lists["host_keys"]}),
            "POST /v1/audit/checkpoint": lambda _: (
                200,
                {"note": "doorward/5c1d\n7\ncm9vdA==\n\n- e c2ln\n", "size": 7, "countersigned": True},
            ),
        }

    def _prefixed(self, method: str, path: str) -> Callable[[dict[str, Any]], Reply]:
        parts = path.strip("/").split("/")
        match (method, *parts):
            case ("GET", "v1", "approvals", one):
                return lambda _: self._card(one)
            case ("GET", "v1", "credential-requests", one):
                return lambda _: self._sealed(next(item for item in self.lists["wants"] if item["id"] == one))
            case ("POST", "v1", "credential-requests", one, "decline"):
                return lambda body: self._declined(one, body)
            case ("POST", "v1", "approvals", one, "decision"):
                return lambda body: self._decide(one, body)
            case ("DELETE", "v1", ("sessions" | "grants") as name, one):
                return lambda _: self._removed(name, one)
            case ("POST", "v1", "sessions", one, ("mute" | "unmute") as verb):
                return lambda body: self._mute(one, verb, body)
            case ("POST", "v1", "operations", one, "settle"):
                return lambda body: self._settle_doubt(one, body)
            case ("POST", "v1", "operations", _, "reconcile"):
                return lambda _: self._sealed({"category": "outcome_unknown", "code": "still_running"})
            case _:
                raise Refusal(404, "unknown", "no such route")

    def _status(self) -> dict[str, Any]:
        pending = sum(state == "pending" for state, _ in self.states.values())
        return {
            "version": "0.1.0",
            "log_id": LOG_ID,
            "vault": {"state": self.vault_state, "term": self.term, "kdf": self.kdf.to_json()},
            "policy": {"digest": "sha256:3f9c21ab" + "0" * 56, "counter": 17, "pending": self.pending_policy},
            "audit": {"seq": 4211, "anchored": True},
            "approvals": {"pending": pending},
            "sessions": len(self.lists["sessions"]),
            "frozen": self.frozen,
            "warnings": [],
            "operations": {"in_doubt": len(self.doubts)},
        }

    def _nonce(self) -> str:
        nonce = secrets.token_hex(8)
        self._nonces.add(nonce)
        return nonce

    def _verify(self, message: bytes, body: dict[str, Any]) -> None:
        try:
            self._public.verify(base64.b64decode(body["signature"], validate=True), message)
        except InvalidSignature:
            raise Refusal(403, "bad_signature", "No enrolled approver key made this signature.") from None

    def _open_session(self, body: dict[str, Any]) -> Reply:
        nonce = body["nonce"]
        if nonce not in self._nonces:
            raise Refusal(409, "stale_nonce", "Ask for a nonce first.")
        self._nonces.discard(nonce)
        self._verify(control_bytes({"nonce": nonce, "pid": body["peer_pid"], "log_id": LOG_ID}), body)
        self.opened = True
        return 200, {"key_id": "5ad1e0", "opened": True}

    def _sealed(self, value: dict[str, Any]) -> Reply:
        if not self.opened:
            raise Refusal(401, "control_session_required", "Open a control session with the approver key.")
        return 200, value

    def _unlock(self, body: dict[str, Any]) -> Reply:
        if body["kek_b64"] != self._vault_kek:
            raise Refusal(403, "wrong_passphrase", "The passphrase does not open the vault.")
        self.vault_state, self.term = "ready", self.term + 1
        self.changed("status", {})
        return 200, {"state": self.vault_state, "term": self.term}

    def _lock(self) -> Reply:
        self.vault_state, self.opened = "locked", False
        for approval_id, (state, _) in self.states.items():
            if state == "pending":
                self.states[approval_id] = ("void", "locked")
        self.changed("status", {})
        return 200, {"state": "locked", "term": self.term}

    def _freeze(self) -> Reply:
        self.frozen = True
        self.changed("status", {})
        return 200, {"frozen": True}

    def _row(self, approval_id: str) -> dict[str, Any]:
        card = self.cards[approval_id]
        state, ended_by = self.states[approval_id]
        what = card["summary"]
        return {
            "id": approval_id,
            "state": state,
            "created_at_ms": card["created_at_ms"],
            "expires_at_ms": card["expires_at_ms"],
            "effect": what["effect"],
            "operation": f"{what['service']}.{what['operation']}",
            "target": f"{card['target']['method']} {card['target']['url']}",
            "agent": card["who"]["agent"],
            "gate": card["why"]["gate"],
            "rules": card["why"]["rules"],
            "evidence_state": card["evidence"]["state"],
            "card_digest": digest("doorward/card/v1", card),
            "joined": self.joined[approval_id],
            "ended_by": ended_by,
        }

    def _card(self, approval_id: str) -> Reply:
        self._sealed({})
        card = self.cards[approval_id]
        self.served_at_s.setdefault(approval_id, time.monotonic())
        return 200, {
            "id": approval_id,
            "state": self.states[approval_id][0],
            "card": card,
            "card_digest": digest("doorward/card/v1", card),
            "nonce": f"nonce-{approval_id}",
            "arming_ms": card["arming_ms"],
            "served_at_ms": time.time_ns() // 1_000_000,
            "expires_at_ms": card["expires_at_ms"],
            "joined": self.joined[approval_id],
        }

    def _decide(self, approval_id: str, body: dict[str, Any]) -> Reply:
        state, _ = self.states[approval_id]
        if state != "pending":
            raise Refusal(409, "settled", f"This card is settled already: {state}.")
        if body["decision"] == "deny":
            self.decisions.append({"id": approval_id, **body})
            self.settle(approval_id, "denied", "denied")
            return 200, {"id": approval_id, "state": "denied"}
        card = self.cards[approval_id]
        waited_ms = (time.monotonic() - self.served_at_s[approval_id]) * 1000
        if waited_ms < card["arming_ms"]:
            raise Refusal(409, "not_armed", "The card was shown too short a time ago.")
        statement = body["statement"]
        self._verify(decision_bytes(statement), body)
        if statement["card_digest"] != digest("doorward/card/v1", card) or statement["nonce"] != f"nonce-{approval_id}":
            raise Refusal(409, "changed", "The statement is not about this card.")
        if card["typed_word"] is not None and body.get("confirm") != card["typed_word"]:
            raise Refusal(409, "wrong_confirm", "This card needs its word typed out.")
        self.decisions.append({"id": approval_id, **body})
        self.settle(approval_id, "approved", "approved")
        return 200, {"id": approval_id, "state": "approved"}

    def _declined(self, one: str, body: dict[str, Any]) -> Reply:
        self.decisions.append({"id": one, "decline": body.get("reason")})
        self.lists["wants"] = [{**item, "state": "declined"} for item in self.lists["wants"] if item["id"] == one]
        return 200, {"id": one, "state": "declined"}

    def _removed(self, name: str, one: str) -> Reply:
        self.lists[name] = [item for item in self.lists[name] if item["id"] != one]
        self.changed("session", {"id": one, "state": "ended"})
        return 200, {}

    def _mute(self, one: str, verb: str, body: dict[str, Any]) -> Reply:
        if verb == "unmute":
            self._verify(statement_bytes(body["statement"]), body)
        for item in self.lists["sessions"]:
            if item["id"] == one:
                item["muted"] = verb == "mute"
        self.changed("session", {"id": one, "state": verb})
        return 200, {}

    def _settle_doubt(self, one: str, body: dict[str, Any]) -> Reply:
        self._verify(statement_bytes(body["statement"]), body)
        self.decisions.append({"id": one, **body})
        self.doubts = [item for item in self.doubts if item["correlation_id"] != one]
        self.changed("operation", {"id": one, "state": "settled"})
        return 200, {}

    def _policy(self) -> dict[str, Any]:
        return {
            "digest": "sha256:3f9c21ab" + "0" * 56,
            "counter": 17,
            "files": [{"name": "github.toml", "sha256": "00"}],
            "rules": 4,
            "services": [
                {"name": "github", "base_url": "https://api.github.com", "credential": "github", "bound": True}
            ],
        }

    def _pending(self) -> dict[str, Any]:
        changes = [
            {"direction": "loosens", "subject": "claude-*  WRITE  github issues.create", "was": "ask each",
             "becomes": "session 50", "file": "github.toml", "line": 31},
            {"direction": "tightens", "subject": "any  DELETE github releases.delete", "was": "ask each",
             "becomes": "denied", "file": "github.toml", "line": 40},
        ]  # fmt: skip
        new = "sha256:b7d0412e" + "1" * 56
        return {
            "digest": new if self.pending_policy else "sha256:3f9c21ab" + "0" * 56,
            "counter": 18,
            "files": [{"name": "github.toml", "sha256": "01"}],
            "faults": [],
            "warnings": [],
            "changes": changes if self.pending_policy else [],
            "same": not self.pending_policy,
        }

    def _trust(self, body: dict[str, Any]) -> Reply:
        values = {"policy_digest": body["policy_digest"], "counter": body["counter"], "log_id": LOG_ID}
        self._verify(policy_bytes(values), body)
        self.decisions.append(body)
        self.pending_policy = False
        self.changed("status", {})
        return 200, {"digest": body["policy_digest"], "counter": body["counter"]}


_LISTS = ("sessions", "grants", "credentials", "host_keys", "checkpoints", "wants")


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 32

    def __init__(self, path: str, control: ControlServer) -> None:
        self.control = control
        super().__init__(path, _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _UnixServer

    @override
    def address_string(self) -> str:
        return "local"

    @override
    def log_message(self, *_: object) -> None:
        """Silent."""

    def _go(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        path = unquote(self.path.partition("?")[0])
        if path == "/v1/events":
            self._events()
            return
        pid, _, _ = struct.unpack("3i", self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        body = {**json.loads(raw or b"{}"), "peer_pid": pid}
        status, value = self.server.control.reply(self.command, path, body)
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _go  # noqa: N815 - the names that the library looks for

    def _events(self) -> None:
        listener = self.server.control.listen()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write(b": here\n\n")
            while True:
                try:
                    text = listener.get(timeout=HEARTBEAT_S)
                except queue.Empty:
                    text = ": alive\n\n"
                if not text:
                    return
                self.wfile.write(text.encode())


def main() -> None:
    """Serve samples until end of input: a line `lock`, `put` or `expire` makes something happen."""
    from broker.contract.kdf import STANDARD_FLOOR  # noqa: PLC0415

    home = Path(sys.argv[1])
    with ControlServer(home, floor=STANDARD_FLOOR) as server:
        server.put(sample(approval_id="ap_000000000001"))
        server.put({**delete_sample(), "approval_id": "ap_000000000002"})
        for line in sys.stdin:
            match line.split():
                case ["lock"]:
                    server.reply("POST", "/v1/lock", {})
                case ["put"]:
                    server.put(sample(approval_id=f"ap_{secrets.token_hex(6)}"))
                case ["expire"]:
                    server.settle("ap_000000000001", "expired", "expired")
                case _:
                    print("lock | put | expire")


if __name__ == "__main__":
    main()
