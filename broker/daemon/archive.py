"""The Office's stores: credentials, policy, operations in doubt, audit events.

Values only ever go in. What widens was signed before it came here; it is recorded with the key that signed.
"""

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.reader import read_events
from broker.contract.reasons import VaultState
from broker.contract.statements import policy_bytes
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.credential import (
    Binding,
    Credential,
    CredentialError,
    CredentialKind,
    CredentialMeta,
    make_secret,
    parse_binding,
)
from broker.core.events import EventName
from broker.core.identity import Anchor, Caller, PeerFacts, ProcessFacts, Span, identify, nobody_behind
from broker.core.ledger import Attempt
from broker.core.policy.explain import explain
from broker.core.resolve import Invalid, resolve
from broker.core.secret import Secret
from broker.daemon.premises import Premises
from broker.operations.ledger import LedgerError
from broker.operations.reconcile import settled_by_human
from broker.server.agent_routes import new_correlation_id
from broker.server.faults import ControlError
from broker.server.office import Signed
from broker.server.shapes import decoded, http_ask
from broker.vault import Fault, TrustedPolicy, VaultError, verify

SCAN_MAX = 2_000_000
T = TypeVar("T")


class Archive:
    """The part of the Office that keeps things."""

    def __init__(self, premises: Premises) -> None:
        self._at = premises
        self._open = False
        self._warned: list[str] = []

    async def credentials(self) -> JsonObject:
        return {"credentials": [_meta_json(meta) for meta in self._of_vault(self._at.vault.credentials)]}

    async def add_credential(self, signed: Signed) -> JsonObject:
        params = signed.params
        kind = CredentialKind(str(params["kind"]))
        value, username = _value(kind, signed)
        try:
            secret = make_secret(
                kind,
                value,
                username=username,
                header=_optional(params, "header"),
                template=_optional(params, "template"),
            )
            credential = Credential(name=str(params["name"]), bindings=_bindings(params), secret=secret)
        except CredentialError as error:
            raise ControlError("schema", str(error)) from None
        meta = await self._vault_work(lambda: self._at.vault.add_credential(credential, now_ms=self._now()))
        await self._credential_changed(EventName.CREDENTIAL_ADDED, meta, signed)
        return _meta_json(meta)

    async def rotate_credential(self, signed: Signed) -> JsonObject:
        name = str(signed.params["name"])
        value, username = _value(self._kind(name), signed)
        meta = await self._vault_work(
            lambda: self._at.vault.rotate_credential(name, value, now_ms=self._now(), username=username)
        )
        await self._credential_changed(EventName.CREDENTIAL_ROTATED, meta, signed)
        return _meta_json(meta)

    async def rebind_credential(self, signed: Signed) -> JsonObject:
        name = str(signed.params["name"])
        value, username = _value(self._kind(name), signed)
        try:
            bindings = _bindings(signed.params)
        except CredentialError as error:
            raise ControlError("schema", str(error)) from None
        meta = await self._vault_work(
            lambda: self._at.vault.rebind_credential(name, bindings, value, now_ms=self._now(), username=username)
        )
        await self._credential_changed(EventName.CREDENTIAL_ROTATED, meta, signed)
        return _meta_json(meta)

    async def remove_credential(self, signed: Signed) -> JsonObject:
        name = str(signed.params["name"])
        await self._vault_work(lambda: self._at.vault.remove_credential(name))
        await self._at.record(EventName.CREDENTIAL_REMOVED, credential=name, key=signed.key_id)
        await self._drop(name)
        return {"name": name, "removed": True}

    async def policy(self) -> JsonObject:
        at = self._at
        policy = at.rulebook.current()
        trusted = at.vault.trusted_policy() if at.vault.state is VaultState.READY else None
        bound = self._bound()
        return {
            "digest": at.rulebook.digest,
            "counter": at.rulebook.counter,
            "files": [] if trusted is None else at.rulebook.listed(trusted),
            "rules": len(policy.rules),
            "services": [
                {
                    "name": service.name,
                    "base_url": service.base_url,
                    "credential": service.credential,
                    "bound": service.credential is None or at.vault.covers(service.credential, service.base_url + "/"),
                }
                for service in policy.services.values()
                if bound is not None
            ],
        }

    async def policy_pending(self) -> JsonObject:
        at = self._at
        pending = await asyncio.to_thread(at.rulebook.pending, self._bound())
        return {
            "digest": pending.digest or None,
            "counter": at.rulebook.counter + 1,
            "files": [{"name": file.name, "sha256": at.rulebook.sha256(file)} for file in pending.files],
            "faults": list(pending.faults),
            "warnings": list(pending.warnings),
            "changes": list(pending.changes),
            "same": pending.digest == (at.rulebook.digest or ""),
        }

    async def trust(self, *, digest: str, counter: int, signature: bytes) -> JsonObject:
        """Put the files as they lie there in force, if they are the ones that were signed."""
        at = self._at
        if at.vault.state is not VaultState.READY:
            raise ControlError("vault_locked", "The vault is locked. A human has to run: doorward unlock")
        pending = await asyncio.to_thread(at.rulebook.pending, self._bound())
        if pending.faults or pending.policy is None:
            raise ControlError(
                "policy_faults", "The policy has faults and stays out of force.", faults=list(pending.faults)
            )
        if pending.digest != digest or counter != at.rulebook.counter + 1:
            raise ControlError("changed", "The files or the counter are not those that were signed; look again.")
        key_id = self.key_of(
            policy_bytes({"policy_digest": digest, "counter": counter, "log_id": at.vault.log_id}), signature
        )
        if key_id is None:
            raise ControlError("bad_signature", "No enrolled approver key made this signature.")
        trusted = TrustedPolicy(
            files=tuple((file.name, file.raw) for file in pending.files),
            digest=digest,
            counter=counter,
            signature=signature,
            approver=key_id,
        )
        await self._vault_work(lambda: at.vault.trust_policy(trusted))
        at.rulebook.use(trusted)
        at.desk.void(Happening.POLICY_CHANGED)
        at.sessions.drop_grants()
        await at.record(EventName.POLICY_TRUSTED, digest=digest, counter=counter, key=key_id)
        at.changed()
        return {"digest": digest, "counter": counter}

    def key_of(self, message: bytes, signature: bytes) -> str | None:
        """The id of the approver key that signed. Raises ControlError while the vault is locked."""
        return verify(self._of_vault(self._at.vault.approver_keys), message, signature)

    async def explain(self, document: JsonObject) -> JsonObject:
        """Why the policy decides as it does, for a human: with every rule, and what it fails on."""
        at = self._at
        asked, agent = document.get("request"), document.get("agent")
        policy = at.rulebook.current()
        frozen = resolve(policy, http_ask(asked if isinstance(asked, dict) else {}))
        if isinstance(frozen, Invalid):
            return {"decision": "invalid", "code": frozen.code, "message": frozen.message, "trace": []}
        return explain(policy, _someone(str(agent) if agent else "unidentified"), frozen)

    async def operations(self, state: str | None) -> JsonObject:
        if state not in {None, "in_doubt"}:
            raise ControlError("schema", "state: in_doubt was expected.")
        try:
            attempts = await self._at.ledger.in_doubt()
        except LedgerError as error:
            raise ControlError("vault_locked", str(error)) from None
        return {"operations": [self._operation(attempt) for attempt in attempts]}

    async def settle(self, signed: Signed) -> JsonObject:
        """A human's signed word on what became of an operation."""
        at = self._at
        target, applied = str(signed.params["correlation_id"]), signed.params["as"] == "applied"
        try:
            attempt = await at.ledger.by_id(target)
            if attempt is None:
                raise ControlError("unknown", "There is no such operation. See: doorward operations list")
            settlement = settled_by_human(attempt, correlation_id=new_correlation_id(self._now()), applied=applied)
            await at.record(
                EventName.OPERATION_SETTLED,
                of=target,
                applied=applied,
                reason=_optional(signed.params, "reason"),
                key=signed.key_id,
            )
            if not await at.ledger.settle(target, settlement):
                raise ControlError("settled", "This operation is not in doubt (any more).")
        except LedgerError as error:
            raise ControlError("vault_locked", str(error)) from None
        at.changed("operation", id=target, state="settled")
        return {"correlation_id": target, "as": "applied" if applied else "not_applied"}

    async def reconcile(self, correlation_id: str, peer: PeerFacts) -> JsonObject:
        at = self._at
        caller = identify(peer, agents=at.rulebook.current().agents, holders=at.sessions.holders)
        return await at.engine.reconcile_for_human(correlation_id, caller)

    async def audit_events(
        self, *, after_seq: int, limit: int, correlation_id: str | None, event: str | None
    ) -> JsonObject:
        at = self._at
        if at.vault.state is not VaultState.READY:
            raise ControlError("vault_locked", "The audit log is sealed while the vault is locked.")
        key = at.vault.audit_sk()

        def read() -> list[JsonValue]:
            found: list[JsonValue] = []
            for seq, told in islice(read_events(at.audit_paths.directory, key, start_seq=after_seq + 1), SCAN_MAX):
                record: dict[str, JsonValue] = {"seq": seq, **told}
                if correlation_id in {None, record.get("correlation_id")} and event in {None, record.get("event")}:
                    found.append(record)
                if len(found) >= limit:
                    break
            return found

        return {"events": await asyncio.to_thread(read), "head": at.writer.head[0]}

    def _operation(self, attempt: Attempt) -> JsonObject:
        service = self._at.rulebook.current().services.get(attempt.service)
        operation = None
        if service is not None:
            operation = service.operations.get(attempt.operation.removeprefix(f"{attempt.service}."))
        read_back = None if operation is None or operation.reconcile is None else operation.reconcile.operation
        return {
            "correlation_id": attempt.correlation_id,
            "state": attempt.state.value,
            "phase": "unrecorded" if attempt.envelope is None else str(attempt.envelope.get("code")),
            "operation": attempt.operation,
            "summary": attempt.summary,
            "agent": attempt.agent,
            "session_id": attempt.session_id,
            "sent_at_ms": attempt.started_at_ms,
            "read_back": read_back,
            "change_key": attempt.change_key,
        }

    async def _credential_changed(self, name: EventName, meta: CredentialMeta, signed: Signed) -> None:
        await self._at.record(
            name,
            credential=meta.name,
            kind=meta.kind.value,
            origins=[binding.url for binding in meta.bindings],
            version=meta.version,
            key=signed.key_id,
        )
        await self._drop(meta.name)

    async def _drop(self, name: str) -> None:
        """What was approved or connected under the former value ends."""
        at = self._at
        at.desk.void(Happening.CREDENTIAL_CHANGED, credential=name)
        at.sessions.drop_grants(credential=name)
        await at.executor.close_credential(name)
        at.changed()

    def _bound(self) -> dict[str, tuple[str, ...]] | None:
        if self._at.vault.state is not VaultState.READY:
            return None
        return {
            meta.name: tuple(binding.url for binding in meta.bindings)
            for meta in self._of_vault(self._at.vault.credentials)
        }

    def _kind(self, name: str) -> CredentialKind:
        for meta in self._of_vault(self._at.vault.credentials):
            if meta.name == name:
                return meta.kind
        raise ControlError("unknown", f"There is no credential {name!r}. See: doorward credential list")

    def _now(self) -> int:
        return self._at.clock.now_ms()

    def _warn(self, what: str) -> None:
        if what not in self._warned:
            self._warned.append(what)

    @staticmethod
    def _audit_public_key(audit_sk: Secret) -> str:
        return X25519PrivateKey.from_private_bytes(audit_sk.reveal()).public_key().public_bytes_raw().hex()

    @staticmethod
    def _decoded(document: JsonObject, name: str) -> bytes:
        return decoded(document, name)

    def _of_vault(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except VaultError as error:
            raise told(error) from None

    async def _vault_work(self, write: Callable[[], T]) -> T:
        """A durable change of the vault, off the event loop."""
        try:
            return await asyncio.to_thread(write)
        except CredentialError as error:
            raise ControlError("schema", str(error)) from None
        except VaultError as error:
            raise told(error) from None


def told(error: VaultError) -> ControlError:
    """A fault of the vault's as control.sock tells it."""
    code = {
        Fault.WRONG_PASSPHRASE: "wrong_passphrase",
        Fault.TOO_SOON: "wrong_passphrase",
        Fault.LOCKED: "vault_locked",
        Fault.QUARANTINED: "vault_locked",
        Fault.NAME_TAKEN: "exists",
        Fault.UNKNOWN_CREDENTIAL: "unknown",
        Fault.STALE_COUNTER: "changed",
        Fault.BAD_SIGNATURE: "bad_signature",
        Fault.INVALID: "schema",
    }.get(error.fault, "internal")
    after = getattr(error, "retry_after_s", None)
    return ControlError(code, str(error), **({} if after is None else {"retry_after_s": after}))


def _meta_json(meta: CredentialMeta) -> dict[str, JsonValue]:
    return {
        "name": meta.name,
        "kind": meta.kind.value,
        "origins": [binding.url for binding in meta.bindings],
        "version": meta.version,
        "created_at_ms": meta.created_at_ms,
        "rotated_at_ms": meta.rotated_at_ms,
    }


def _bindings(params: Mapping[str, JsonValue]) -> tuple[Binding, ...]:
    origins = params["origins"]
    return tuple(parse_binding(str(origin)) for origin in origins) if isinstance(origins, list) else ()


def _value(kind: CredentialKind, signed: Signed) -> tuple[Secret, str | None]:
    """The secret parts that travelled beside the statement. Raises ControlError naming what is missing."""
    wanted = {
        CredentialKind.BEARER: ("token",),
        CredentialKind.BASIC: ("password", "username"),
        CredentialKind.HEADER: ("value",),
    }[kind]
    if set(signed.secret) != set(wanted):
        raise ControlError("schema", f"A secret of kind {kind.value} has: {', '.join(wanted)}.")
    parts = [str(signed.secret[name]) for name in wanted]
    return Secret(parts[0]), parts[1] if len(parts) > 1 else None


def _optional(params: Mapping[str, JsonValue], name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) else None


def _someone(agent: str) -> Caller:
    """A caller by name alone, for explaining a policy; no process stands behind it."""
    nobody = ProcessFacts(pid=0, start_ticks=0, inode=0, uid=0, exe=None, exe_id=None)
    return Caller(
        anchor=Anchor(boot_id="", pid=0, start_ticks=0, inode=0),
        anchor_process=nobody,
        span=Span.CONNECTION,
        program=nobody,
        agent=agent,
        peer=nobody_behind(nobody),
        interpreter=False,
    )
