"""The Office's unlock methods: added and removed at an approver's signed word, and the passphrase changed.

The passphrase itself never comes here, only keys made of it. Each change is recorded with the key that signed it and
with the vault's generation, so that an older vault that was put back is noticed.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from broker.contract.kdf import KdfError, KdfFloor, KdfParams
from broker.contract.reasons import VaultState
from broker.contract.unlock_methods import UnlockMethod, keyring_alone_refused
from broker.contract.wire import JsonObject, JsonValue
from broker.core.events import EventName
from broker.core.secret import Secret
from broker.daemon.archive import Archive
from broker.daemon.credentials import told
from broker.daemon.openings import refuse_called_off
from broker.server.faults import ControlError
from broker.server.office import Refused, Signed
from broker.server.shapes import decoded
from broker.vault import Fault, VaultError
from broker.vault.unlocking import Given, new_share, wants_share

METHODS_ROUTE = "/v1/vault/methods"
PASSPHRASE_ROUTE = "/v1/vault/passphrase"  # noqa: S105 - a route
_ON_RECORD = frozenset({Fault.TOO_SOON, Fault.SHARE_MISSING})


class UnlockWays(Archive):
    """The part of the Office that knows how the vault is opened."""

    async def add_method(self, signed: Signed) -> JsonObject:
        """One more way to open the vault, which has to be open."""
        method = _method(signed)
        kek = _key(signed, "kek_b64") if method.takes_passphrase else None
        why = keyring_alone_refused([method], os.geteuid())
        if why is not None:
            raise ControlError("schema", why)
        self._refuse_closed()
        given = Given(
            kek=kek, share=await self._share_for(method)
        )  # first: a lock waits for its turn, and not for that
        async with self._turn:
            self._refuse_closed()
            await self._changing(lambda: self._at.vault.add_method(method, given), METHODS_ROUTE)
            await self._recorded(EventName.VAULT_METHOD_ADDED, signed, method=method.value)
        return self._listed()

    async def remove_method(self, signed: Signed) -> JsonObject:
        """One way less; the last one stays."""
        method = _method(signed)
        async with self._turn:
            self._refuse_closed()
            await self._changing(lambda: self._at.vault.remove_method(method), METHODS_ROUTE)
            await self._recorded(EventName.VAULT_METHOD_REMOVED, signed, method=method.value)
        if not self._at.vault.shares:
            await asyncio.to_thread(self._at.shares.drop)
        return self._listed()

    async def change_passphrase(self, signed: Signed) -> JsonObject:
        """Wrap the vault's key anew. Guessing the new passphrase may not get cheaper than guessing the old one was."""
        vault = self._at.vault
        old, new = _key(signed, "old_kek_b64"), _key(signed, "kek_b64")
        try:
            kdf = KdfParams.from_json(signed.params.get("kdf"))
        except KdfError as error:
            raise ControlError("schema", str(error)) from None
        self._refuse_closed()
        share = await self._at.shares.asked() if vault.shares else None
        async with self._turn:
            self._refuse_closed()
            if not kdf.meets(KdfFloor(memory_kib=vault.kdf.memory_kib, iterations=vault.kdf.iterations)):
                raise ControlError("schema", "The new key derivation is cheaper than the one that the vault has.")
            await self._changing(lambda: vault.rewrap(old, new, kdf, share=share), PASSPHRASE_ROUTE)
            await self._recorded(EventName.VAULT_PASSPHRASE_CHANGED, signed)
        return self._listed()

    async def _given(self, kek: bytes | None, called_off: threading.Event) -> Given:
        """With the keyring's share where the vault can't be opened without. Asked before anything waits for a turn."""
        given = Given(kek=None if kek is None else Secret(kek))
        if not wants_share(self._at.vault.methods, with_passphrase=kek is not None):
            return given
        try:
            return replace(given, share=await self._at.shares.asked())
        except ControlError:
            refuse_called_off(called_off)
            raise

    async def _not_opened(self, error: VaultError, route: str, *, known: bool) -> None:
        """On record: that the vault was not opened, and why. A quarantine that is `known` is told as a refusal."""
        at = self._at
        if error.fault is Fault.WRONG_PASSPHRASE:
            with suppress(ControlError):
                await at.record(EventName.VAULT_UNLOCK_FAILED, why=error.fault.value)
        elif error.fault in _ON_RECORD or (known and error.fault is Fault.QUARANTINED):  # as often as anybody likes
            at.refusals.record(Refused(code=error.fault.value, route=route))
        elif error.fault is Fault.QUARANTINED:
            self._post(EventName.VAULT_QUARANTINED, why=str(at.vault.quarantine_reason))
            at.changed()

    async def _changing(self, change: Callable[[], None], route: str) -> None:
        try:
            await asyncio.to_thread(change)
        except VaultError as error:
            await self._not_opened(error, route, known=False)
            raise told(error) from None

    async def _share_for(self, method: UnlockMethod) -> Secret | None:
        """The share that the vault uses already; a fresh one, kept by the keyring, where it uses none."""
        at = self._at
        if at.vault.shares:
            return await at.shares.asked()
        if not method.takes_share:
            return None
        share = new_share()
        await asyncio.to_thread(at.shares.keep, share)
        return share

    async def _recorded(self, name: EventName, signed: Signed, **fields: JsonValue) -> None:
        at = self._at
        await at.record(name, key=signed.key_id, generation=at.vault.generation, **fields)
        at.changed()

    def _open_words(self) -> dict[str, JsonValue]:
        """Since when it is open, and how long it stays so where nobody uses it; nulls where it is not open."""
        is_open = self._at.custody.state is VaultState.READY
        return {
            "ready_since_ms": self._open_since_ms if is_open else None,
            "idle_lock_in_ms": int(self._at.idle.left_s * 1000) if is_open else None,
        }

    def _refuse_closed(self) -> None:
        if self._at.custody.state is not VaultState.READY:
            raise ControlError("vault_locked", "The vault is locked. A human has to run: doorward unlock")

    def _listed(self) -> JsonObject:
        return {"methods": [method.value for method in self._at.vault.methods]}


def _method(signed: Signed) -> UnlockMethod:
    return UnlockMethod(str(signed.params["method"]))


def _key(signed: Signed, name: str) -> Secret:
    if name not in signed.secret:
        raise ControlError("schema", f"The secret needs {name}, made of the passphrase.")
    return Secret(decoded(signed.secret, name))
