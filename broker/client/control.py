"""The human's client: what may be asked on control.sock, for the command line and the terminal interface.

Each method gives the parsed answer or raises a ClientError; a refusal of the daemon is Refused with its code. What
widens anything is signed here, over what this process was told to do and what it drew, never over what it was handed.
"""

import base64
import os
import time
from dataclasses import dataclass
from typing import Protocol, Self
from urllib.parse import quote, urlencode

from broker.client.card import Card, parse_card
from broker.client.control_answers import integer, items, parsed, part, refusal, text
from broker.client.faults import Broken
from broker.client.handover import key_text
from broker.client.places import Places
from broker.client.transport import ANSWER_S, Connection, EventStream
from broker.contract.wire import JsonObject, JsonValue, WireError, digest, dump
from broker.core.secret import Secret

LOCAL_WORK_S = 60.0  # opening a vault, checking a log
VERIFYING_S = 330.0  # opening a vault waits for the verification of the whole log
MAX_CARD_BYTES = 4 << 20  # a card carries up to 64 KiB of body, escaped


class Signer(Protocol):
    """An approver key in use. It signs for its own log alone."""

    log_id: str

    def sign_decision(self, values: JsonObject) -> bytes: ...
    def sign_statement(self, values: JsonObject) -> bytes: ...
    def sign_control(self, values: JsonObject) -> bytes: ...
    def sign_policy(self, values: JsonObject) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A card as it was served to this process. `digest` is ours, over the very object that `card` was read from."""

    id: str
    state: str
    card: Card
    raw: JsonObject
    digest: str
    nonce: str
    arming_ms: int
    served_at_ms: int
    expires_at_ms: int
    joined: int


class ControlClient:
    """Talks to one daemon; keeps the connection open between calls. Not for use by two threads at once."""

    def __init__(self, places: Places) -> None:
        self._path = places.control_socket
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Open to whoever reaches the socket.

    def status(self) -> dict[str, JsonValue]:
        return self._ask("GET", "/v1/status")

    def approvals(self, *, state: str | None = None) -> list[dict[str, JsonValue]]:
        return items(self._ask("GET", "/v1/approvals" + _query(state=state)), "approvals")

    def sessions(self) -> list[dict[str, JsonValue]]:
        return items(self._ask("GET", "/v1/sessions"), "sessions")

    def session_listing(self) -> dict[str, JsonValue]:
        """The live sessions, and the limits that hold for each."""
        return self._ask("GET", "/v1/sessions")

    def grants(self) -> list[dict[str, JsonValue]]:
        return items(self._ask("GET", "/v1/grants"), "grants")

    def policy(self) -> dict[str, JsonValue]:
        return self._ask("GET", "/v1/policy")

    def policy_pending(self) -> dict[str, JsonValue]:
        return self._ask("GET", "/v1/policy/pending", answer_s=LOCAL_WORK_S)

    def events(self, *, last_id: str | None = None) -> EventStream:
        """A stream on a connection of its own; close it to end it."""
        return Connection(self._path).events("/v1/events", last_id=last_id)

    # What only takes away needs no signature.

    def unlock(self, vault_kek: Secret | bytes | None) -> dict[str, JsonValue]:
        """Without a key where the keyring alone opens the vault."""
        body: JsonObject = {} if vault_kek is None else {"kek_b64": _kek(vault_kek)}
        return self._ask("POST", "/v1/unlock", body, answer_s=VERIFYING_S)

    def quarantine(self) -> dict[str, JsonValue]:
        """Why nothing runs, and what there is to sign for taking it over."""
        return self._ask("GET", "/v1/vault/quarantine", answer_s=VERIFYING_S)

    def lock(self) -> dict[str, JsonValue]:
        return self._ask("POST", "/v1/lock", {}, answer_s=LOCAL_WORK_S)

    def freeze(self) -> dict[str, JsonValue]:
        return self._ask("POST", "/v1/freeze", {})

    def deny(self, approval_id: str, *, reason: str | None = None, end_session: bool = False) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {"decision": "deny"}
        if reason is not None:
            body["reason"] = reason
        if end_session:
            body["end_session"] = True
        return self._ask("POST", f"/v1/approvals/{_segment(approval_id)}/decision", body)

    def revoke_session(self, session_id: str, *, kill: bool = False) -> dict[str, JsonValue]:
        return self._ask("DELETE", f"/v1/sessions/{_segment(session_id)}" + ("?kill=1" if kill else ""))

    def mute(self, session_id: str) -> dict[str, JsonValue]:
        return self._ask("POST", f"/v1/sessions/{_segment(session_id)}/mute", {})

    def revoke_grant(self, grant_id: str) -> dict[str, JsonValue]:
        return self._ask("DELETE", f"/v1/grants/{_segment(grant_id)}")

    def audit_checkpoint(self) -> dict[str, JsonValue]:
        """A signed note of the log's head, to be kept elsewhere."""
        return self._ask("POST", "/v1/audit/checkpoint", {}, answer_s=LOCAL_WORK_S)

    # Sealed: a control session first.

    def open_session(self, key: Signer) -> dict[str, JsonValue]:
        """Prove to hold an approver key; from then on this process may read what is sealed, on any connection."""
        self._same_log(key, self.status())
        challenge: dict[str, JsonValue] = {"nonce": self._nonce(), "pid": os.getpid(), "log_id": key.log_id}
        signature = _b64(key.sign_control(challenge))
        return self._ask("POST", "/v1/control-session", {"nonce": challenge["nonce"], "signature": signature})

    def approval(self, approval_id: str) -> Served:
        """The whole card. Serving it starts its arming time. Raises Broken where it can't be shown in full."""
        answer = self._ask("GET", f"/v1/approvals/{_segment(approval_id)}", max_bytes=MAX_CARD_BYTES)
        return _served(answer)

    def credentials(self) -> list[dict[str, JsonValue]]:
        return items(self._ask("GET", "/v1/credentials"), "credentials")

    def host_keys(self) -> list[dict[str, JsonValue]]:
        return items(self._ask("GET", "/v1/host-keys"), "host_keys")

    def forget_host_key(self, address: str, port: int, key: Signer) -> dict[str, JsonValue]:
        """The next contact with the host is a first one again."""
        params: dict[str, JsonValue] = {"address": address, "port": port}
        return self._signed("POST", "/v1/host-keys/forget", "host_key.forget", params, key)

    def explain(self, request: JsonObject, *, agent: str | None = None, action: str = "http") -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {"request": request}
        if action != "http":
            body["action"] = action
        if agent is not None:
            body["agent"] = agent
        return self._ask("POST", "/v1/explain", body)

    def operations(self, *, state: str | None = None) -> list[dict[str, JsonValue]]:
        return items(self._ask("GET", "/v1/operations" + _query(state=state)), "operations")

    def reconcile(self, correlation_id: str) -> dict[str, JsonValue]:
        """An envelope of its own."""
        return self._ask("POST", f"/v1/operations/{_segment(correlation_id)}/reconcile", {}, answer_s=600.0)

    def diagnostic(self, reference: str) -> dict[str, JsonValue]:
        """The kept details of one failure."""
        return self._ask("GET", f"/v1/diagnostics/{_segment(reference)}")

    def audit_events(self, **query: str | int | None) -> dict[str, JsonValue]:
        """Events that match, from after `after_seq` on or the last before `before_seq`; filters as in the contract."""
        return self._ask("GET", "/v1/audit/events" + _query(**query), answer_s=LOCAL_WORK_S)

    def audit_activity(self, **query: str | int | None) -> dict[str, JsonValue]:
        """Rows of the Activity view, the one that began last first."""
        return self._ask("GET", "/v1/audit/activity" + _query(**query), answer_s=LOCAL_WORK_S)

    def audit_sessions(self, **query: str | int | None) -> dict[str, JsonValue]:
        """Sessions as the log tells of them, ended ones too."""
        return self._ask("GET", "/v1/audit/sessions" + _query(**query), answer_s=LOCAL_WORK_S)

    def audit_checkpoints(self, **query: int | None) -> dict[str, JsonValue]:
        """The checkpoints in the log, the newest first."""
        return self._ask("GET", "/v1/audit/checkpoints" + _query(**query), answer_s=LOCAL_WORK_S)

    # What widens anything is signed.

    def approve(
        self,
        served: Served,
        key: Signer,
        *,
        scope: str = "once",
        choice: str | None = None,
        confirm: str | None = None,
        reason: str | None = None,
    ) -> dict[str, JsonValue]:
        """Sign a yes, or a `choice` that is offered, over the card as it was drawn: the one that `approval` gave."""
        offer = served.card.yes.session
        statement: dict[str, JsonValue] = {
            "approval_id": served.id,
            "request_digest": served.card.request_digest,
            "card_digest": served.digest,
            "decision": "approve",
            "choice": choice,
            "scope": scope,
            "max_uses": offer.max_uses if scope == "session" else None,
            "max_age_s": offer.max_age_s if scope == "session" else None,
            "reason": reason,
            "policy_digest": served.card.why.policy,
            "log_id": served.card.log_id,
            "vault_term": served.card.vault_term,
            "nonce": served.nonce,
            "decided_at_ms": time.time_ns() // 1_000_000,
        }
        body: dict[str, JsonValue] = {
            "decision": "approve",
            "scope": scope,
            "choice": choice,
            "statement": statement,
            "signature": _b64(key.sign_decision(statement)),
        }
        if confirm is not None:
            body["confirm"] = confirm
        if reason is not None:
            body["reason"] = reason
        return self._ask("POST", f"/v1/approvals/{_segment(served.id)}/decision", body)

    def readopt(self, statement: JsonObject, vault_kek: Secret | bytes, key: Signer) -> dict[str, JsonValue]:
        """Take a quarantined vault over; `statement` is what `quarantine` showed."""
        body = {**self._statement("vault.readopt", statement, key), "kek_b64": _kek(vault_kek)}
        return self._ask("POST", "/v1/vault/readopt", body, answer_s=2 * VERIFYING_S)

    def add_method(self, method: str, vault_kek: Secret | None, key: Signer) -> dict[str, JsonValue]:
        """One more unlock method; with the passphrase's key where the method takes one."""
        secret: JsonObject | None = None if vault_kek is None else {"kek_b64": _kek(vault_kek)}
        return self._signed("POST", "/v1/vault/methods", "vault.method.add", {"method": method}, key, secret)

    def remove_method(self, method: str, key: Signer) -> dict[str, JsonValue]:
        return self._signed("POST", "/v1/vault/methods/remove", "vault.method.remove", {"method": method}, key)

    def change_passphrase(self, old: Secret, new: Secret, kdf: JsonObject, key: Signer) -> dict[str, JsonValue]:
        """Another passphrase for the vault; the approver key's file is this process's own to rewrap."""
        secret: JsonObject = {"old_kek_b64": _kek(old), "kek_b64": _kek(new)}
        return self._signed("POST", "/v1/vault/passphrase", "vault.passphrase", {"kdf": kdf}, key, secret)

    def thaw(self, key: Signer) -> dict[str, JsonValue]:
        return self._signed("POST", "/v1/thaw", "thaw", {}, key)

    def unmute(self, session_id: str, key: Signer) -> dict[str, JsonValue]:
        path = f"/v1/sessions/{_segment(session_id)}/unmute"
        return self._signed("POST", path, "session.unmute", {"id": session_id}, key)

    def add_credential(self, params: JsonObject, secret: JsonObject, key: Signer) -> dict[str, JsonValue]:
        """`params` as the contract has them: name, kind, origins, and header and template where the kind takes them."""
        return self._signed("POST", "/v1/credentials", "credential.add", params, key, secret)

    def rotate_credential(self, name: str, secret: JsonObject, key: Signer) -> dict[str, JsonValue]:
        target = f"/v1/credentials/{_segment(name)}"
        return self._signed("PUT", target, "credential.rotate", {"name": name}, key, secret)

    def rebind_credential(self, name: str, origins: list[str], secret: JsonObject, key: Signer) -> dict[str, JsonValue]:
        target = f"/v1/credentials/{_segment(name)}"
        return self._signed("PUT", target, "credential.rebind", {"name": name, "origins": origins}, key, secret)

    def check_credential(self, name: str) -> dict[str, JsonValue]:
        """Whether its service takes it: `verdict` is valid, invalid or unknown."""
        return self._ask("POST", f"/v1/credentials/{_segment(name)}/check", {}, answer_s=600.0)

    def remove_credential(self, name: str, key: Signer) -> dict[str, JsonValue]:
        return self._signed("DELETE", f"/v1/credentials/{_segment(name)}", "credential.remove", {"name": name}, key)

    def settle(self, correlation_id: str, outcome: str, reason: str, key: Signer) -> dict[str, JsonValue]:
        """`outcome` is applied or not_applied: a human's word, no byte is sent."""
        params: dict[str, JsonValue] = {"correlation_id": correlation_id, "as": outcome, "reason": reason}
        target = f"/v1/operations/{_segment(correlation_id)}/settle"
        return self._signed("POST", target, "operation.settle", params, key)

    def trust_policy(self, policy_digest: str, counter: int, key: Signer) -> dict[str, JsonValue]:
        values: dict[str, JsonValue] = {"policy_digest": policy_digest, "counter": counter, "log_id": key.log_id}
        signature = _b64(key.sign_policy(values))
        body: dict[str, JsonValue] = {"policy_digest": policy_digest, "counter": counter, "signature": signature}
        return self._ask("POST", "/v1/policy/trust", body, answer_s=LOCAL_WORK_S)

    # For verbs that stand in modules of their own.

    def ask(self, method: str, target: str, body: JsonObject | None = None) -> dict[str, JsonValue]:
        return self._ask(method, target, body)

    def ask_signed(self, method: str, target: str, verb: str, params: JsonObject, key: Signer) -> dict[str, JsonValue]:
        return self._signed(method, target, verb, params, key)

    def _signed(
        self, method: str, target: str, verb: str, params: JsonObject, key: Signer, secret: JsonObject | None = None
    ) -> dict[str, JsonValue]:
        body = self._statement(verb, params, key)
        if secret is not None:
            body["secret"] = secret
        return self._ask(method, target, body, answer_s=LOCAL_WORK_S)

    def _statement(self, verb: str, params: JsonObject, key: Signer) -> dict[str, JsonValue]:
        status = self.status()
        self._same_log(key, status)
        statement: dict[str, JsonValue] = {
            "verb": verb,
            "params": params,
            "nonce": self._nonce(),
            "log_id": key.log_id,
            "vault_term": integer(part(status, "vault"), "term"),
        }
        return {"statement": statement, "signature": _b64(key.sign_statement(statement))}

    def _nonce(self) -> str:
        return text(self._ask("GET", "/v1/nonce"), "nonce")

    def _same_log(self, key: Signer, status: JsonObject) -> None:
        if text(status, "log_id") != key.log_id:
            raise Broken(
                "this daemon keeps another log than the one that your approver key belongs to: nothing was signed. "
                "Check DOORWARD_HOME"
            )

    def _ask(
        self,
        method: str,
        target: str,
        body: JsonObject | None = None,
        *,
        answer_s: float = ANSWER_S,
        max_bytes: int = 16 << 20,
    ) -> dict[str, JsonValue]:
        if self._connection is None or not self._connection.alive():
            self._connection = Connection(self._path)
        try:
            octets = None if body is None else dump(body)
        except WireError as cause:
            raise Broken(f"the request can't be sent: {cause}") from cause
        answer = self._connection.request(method, target, octets, answer_s=answer_s, max_bytes=max_bytes)
        value = parsed(answer)
        if answer.status >= 300:
            raise refusal(answer.status, value)
        return value


def _served(answer: JsonObject) -> Served:
    raw = answer.get("card")
    if not isinstance(raw, dict):
        raise Broken("the daemon sent no card")
    try:
        drawn = digest("doorward/card/v1", raw)
    except WireError as cause:
        raise Broken(f"the daemon's card can't be signed: {cause}") from cause
    card = parse_card(raw)
    served_id = text(answer, "id")
    if card.approval_id != served_id or drawn != text(answer, "card_digest"):
        raise Broken("the daemon's card is not the one that it names: not showing it")
    return Served(
        id=served_id,
        state=text(answer, "state"),
        card=card,
        raw=raw,
        digest=drawn,
        nonce=text(answer, "nonce"),
        arming_ms=integer(answer, "arming_ms"),
        served_at_ms=integer(answer, "served_at_ms"),
        expires_at_ms=integer(answer, "expires_at_ms"),
        joined=integer(answer, "joined"),
    )


def _segment(word: str) -> str:
    return quote(word, safe="", errors="surrogateescape")


def _query(**values: str | int | None) -> str:
    named = {name: value for name, value in values.items() if value is not None}
    return "?" + urlencode(named, errors="surrogateescape") if named else ""


def _kek(vault_kek: Secret | bytes) -> str:
    return key_text(vault_kek) if isinstance(vault_kek, Secret) else _b64(vault_kek)


def _b64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
