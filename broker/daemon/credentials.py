"""The Office's credentials: added, rotated, rebound and removed at an approver's signed word.

Values only ever go in. Each change is recorded with the key that signed it and with the vault's generation, so that an
older vault that was put back is noticed; what was approved or connected under the former value ends.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from broker.contract.reasons import VaultState
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.credential import (
    Beside,
    Binding,
    Credential,
    CredentialError,
    CredentialKind,
    CredentialMeta,
    make_secret,
    parse_binding,
)
from broker.core.events import AuditEvent, EventName
from broker.core.secret import Secret
from broker.daemon.checkpoints import Checkpoints
from broker.daemon.log_watch import told_of
from broker.daemon.openings import Openings
from broker.daemon.premises import Premises
from broker.ports import AuditUnwritable
from broker.server.faults import ControlError
from broker.server.office import Signed
from broker.server.runs import Overloaded, Stopping
from broker.server.sessions import Ended
from broker.server.shapes import text_or_none
from broker.vault import Fault, VaultError
from broker.vault.hosts import AcceptedKey

T = TypeVar("T")


class Credentials:
    """The part of the Office that keeps credentials."""

    def __init__(self, premises: Premises) -> None:
        self._at = premises
        self._turn = asyncio.Lock()  # whatever opens, closes or replaces what is open does so alone
        self._openings = Openings()
        self._locked_for: str | None = None  # in this run, since it was open
        self._open_since_ms = 0
        self._warned: list[str] = []
        self._checkpoints = Checkpoints(premises.writer, premises.vault)
        self._ledger_told = 0  # the last write of the ledger that the audit log tells of, found while unlocking

    async def credentials(self) -> JsonObject:
        return {"credentials": [_meta_json(meta) for meta in self._of_vault(self._at.vault.credentials)]}

    async def add_credential(self, signed: Signed) -> JsonObject:
        params = signed.params
        kind = CredentialKind(str(params["kind"]))
        value, beside = _value(kind, signed)
        try:
            beside = _with_signed_parts(beside, params)
            secret = await asyncio.to_thread(make_secret, kind, value, beside)  # a key's passphrase is slow by design
            credential = Credential(name=str(params["name"]), bindings=_bindings(params), secret=secret)
        except CredentialError as error:
            raise ControlError("schema", str(error)) from None
        meta = await self._vault_work(lambda: self._at.vault.add_credential(credential, now_ms=self._now()))
        await self._credential_changed(EventName.CREDENTIAL_ADDED, meta, signed)
        return _meta_json(meta)

    async def rotate_credential(self, signed: Signed) -> JsonObject:
        name = str(signed.params["name"])
        value, beside = _value(self._kind(name), signed)
        meta = await self._vault_work(lambda: self._at.vault.rotate_credential(name, value, beside, now_ms=self._now()))
        await self._credential_changed(EventName.CREDENTIAL_ROTATED, meta, signed)
        return _meta_json(meta)

    async def rebind_credential(self, signed: Signed) -> JsonObject:
        name = str(signed.params["name"])
        value, beside = _value(self._kind(name), signed)
        try:
            bindings = _bindings(signed.params)
        except CredentialError as error:
            raise ControlError("schema", str(error)) from None
        meta = await self._vault_work(
            lambda: self._at.vault.rebind_credential(name, bindings, value, beside, now_ms=self._now())
        )
        await self._credential_changed(EventName.CREDENTIAL_ROTATED, meta, signed)
        return _meta_json(meta)

    async def check_credential(self, name: str) -> JsonObject:
        """Whether the service that the credential is for takes it, by the probe that the policy declares."""
        at = self._at
        self._kind(name)
        services = at.rulebook.current().services.values()
        probed = next((one for one in services if one.credential == name and one.probe is not None), None)
        if probed is None or probed.probe is None:
            return _checked(name, None, "No service of the policy in force declares a probe for this credential.")
        try:
            envelope = await at.engine.probe_for_human(probed.name, probed.probe)
        except (Overloaded, Stopping):
            raise ControlError("limit", "The broker has as much work as it takes, or is stopping.") from None
        return _checked(name, envelope, f"{probed.name}.{probed.probe}: {envelope.get('message')}")

    async def remove_credential(self, signed: Signed) -> JsonObject:
        name = str(signed.params["name"])
        await self._vault_work(lambda: self._at.vault.remove_credential(name))
        generation = self._at.vault.generation
        await self._at.record(EventName.CREDENTIAL_REMOVED, credential=name, key=signed.key_id, generation=generation)
        await self._drop(name)
        return {"name": name, "removed": True}

    async def host_keys(self) -> JsonObject:
        """Keys of SSH hosts that a human accepted at the first contact."""
        known = self._of_vault(self._at.vault.known_hosts)
        return {"host_keys": [_host_key(key) for key in known.keys]}

    async def forget_host_key(self, signed: Signed) -> JsonObject:
        """The next contact with the host is a first one again."""
        address, port = str(signed.params["address"]), signed.params["port"]
        if not isinstance(port, int):
            raise ControlError("schema", "port: an integer was expected.")
        await self._vault_work(lambda: self._at.vault.forget_host_key(address, port))
        generation = self._at.vault.generation
        await self._at.record(
            EventName.HOSTKEY_FORGOTTEN, address=address, port=port, key=signed.key_id, generation=generation
        )
        self._at.executor.drop_logins()
        return {"address": address, "port": port, "forgotten": True}

    async def _credential_changed(self, name: EventName, meta: CredentialMeta, signed: Signed) -> None:
        await self._at.record(
            name,
            credential=meta.name,
            kind=meta.kind.value,
            origins=[binding.url for binding in meta.bindings],
            version=meta.version,
            key=signed.key_id,
            generation=self._at.vault.generation,
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

    def _close_down(self, happening: Happening, ended: Ended) -> None:
        """At once and without waiting for anything: nothing runs any more, what waited ends."""
        at = self._at
        at.custody.forget()
        at.executor.drop_logins()
        at.reading.close()
        at.challenges.close_all()
        at.desk.void(happening)
        at.sessions.end_all(ended)

    def _now(self) -> int:
        return self._at.clock.now_ms()

    def _warn(self, what: str) -> None:
        if what not in self._warned:
            self._warned.append(what)

    def _post_verified(self) -> None:
        """On record: what the latest verification of the log said."""
        latest = self._at.watch.latest
        if latest is not None:
            self._post(EventName.AUDIT_VERIFIED, **told_of(latest.inspection))

    def _post(self, name: EventName, **fields: JsonValue) -> None:
        with suppress(AuditUnwritable):  # what it tells of happened all the same
            self._at.journal.post(AuditEvent(name=name, at_ms=self._now(), fields=fields))

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
            if error.fault is Fault.QUARANTINED:  # noticed just now: somebody else wrote to the file
                self._close_down(Happening.LOCKED, Ended.LOCKED)
                self._post(EventName.VAULT_QUARANTINED, why=str(self._at.vault.quarantine_reason))
                self._at.changed()
            raise told(error) from None


def told(error: VaultError) -> ControlError:
    """A fault of the vault's as control.sock tells it."""
    code = {
        Fault.WRONG_PASSPHRASE: "wrong_passphrase",
        Fault.TOO_SOON: "wrong_passphrase",
        Fault.SHARE_MISSING: "keyring",
        Fault.LAST_METHOD: "settled",
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


def _bindings(params: JsonObject) -> tuple[Binding, ...]:
    origins = params["origins"]
    return tuple(parse_binding(str(origin)) for origin in origins) if isinstance(origins, list) else ()


def _host_key(key: AcceptedKey) -> dict[str, JsonValue]:
    return {
        "host": key.name,
        "address": key.address,
        "port": key.port,
        "algorithm": key.algorithm,
        "fingerprint": key.fingerprint,
        "accepted_at_ms": key.accepted_at_ms,
    }


def _checked(name: str, envelope: JsonObject | None, message: str) -> JsonObject:
    category = None if envelope is None else envelope.get("category")
    verdict = {"success": "valid", "partial": "valid", "authentication_failed": "invalid"}.get(str(category), "unknown")
    return {
        "name": name,
        "verdict": verdict,
        "message": message,
        "category": category,
        "correlation_id": None if envelope is None else envelope.get("correlation_id"),
    }


_WANTED = {
    CredentialKind.BEARER: ("token",),
    CredentialKind.BASIC: ("password", "username"),
    CredentialKind.HEADER: ("value",),
    CredentialKind.QUERY: ("value",),
    CredentialKind.COOKIE: ("value",),
    CredentialKind.SIGV4: ("secret_access_key", "access_key_id"),
    CredentialKind.SSH_KEY: ("private_key",),
    CredentialKind.SSH_PASSWORD: ("password",),
}
_MAY_HAVE = {
    CredentialKind.SSH_KEY: frozenset({"passphrase", "certificate"}),
    CredentialKind.SIGV4: frozenset({"session_token"}),
}


def _with_signed_parts(beside: Beside, params: JsonObject) -> Beside:
    """With what is part of the statement that the approver signed."""
    return replace(
        beside,
        header=text_or_none(params, "header"),
        template=text_or_none(params, "template"),
        parameter=text_or_none(params, "parameter"),
        cookie=text_or_none(params, "cookie"),
        region=text_or_none(params, "region"),
        aws_service=text_or_none(params, "aws_service"),
    )


def _value(kind: CredentialKind, signed: Signed) -> tuple[Secret, Beside]:
    """The secret parts that travelled beside the statement. Raises ControlError naming what is missing."""
    wanted, secret = _WANTED[kind], signed.secret
    if set(secret) - _MAY_HAVE.get(kind, frozenset()) != set(wanted):
        raise ControlError("schema", f"A secret of kind {kind.value} has: {', '.join(wanted)}.")
    return Secret(str(secret[wanted[0]])), Beside(
        username=text_or_none(secret, "username"),
        passphrase=Secret(str(secret["passphrase"])) if "passphrase" in secret else None,
        certificate=text_or_none(secret, "certificate"),
        access_key_id=text_or_none(secret, "access_key_id"),
        session_token=Secret(str(secret["session_token"])) if "session_token" in secret else None,
    )
