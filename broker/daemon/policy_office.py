"""The Office's policy: what is in force, what the files would make of it, trusting them, noticing that they changed.

The directories are looked at every second, by what the file system says of each file, and read where that differs: it
needs no library, sees what editors, package managers and network file systems do, and costs less than a request.
"""

import asyncio
import hashlib
import logging
from contextlib import suppress

from broker.contract.reasons import VaultState
from broker.contract.statements import policy_bytes
from broker.contract.wire import JsonObject, JsonValue
from broker.core.approval import Happening
from broker.core.asks import resolved
from broker.core.events import EventName
from broker.core.identity import UNIDENTIFIED
from broker.core.policy.explain import explain
from broker.core.policy.listing import rule_rows
from broker.core.resolve import Invalid
from broker.daemon.credentials import Credentials
from broker.daemon.premises import Premises
from broker.daemon.refused_edits import RefusedEdits
from broker.daemon.rulebook import Look, PolicyState, edited
from broker.policyfiles.files import PolicyError, PolicyFile, policy_digest
from broker.server.by_name import caller_called
from broker.server.faults import ControlError
from broker.server.ssh_shapes import asked
from broker.vault import TrustedPolicy, Vault, verify

LOG = logging.getLogger("doorward.daemon")
LOOK_S = 1.0
FIRST_MAX_CHARACTERS = 400  # of a fault, on record


class PolicyOffice(Credentials):
    """The part of the Office that keeps the policy."""

    def __init__(self, premises: Premises) -> None:
        super().__init__(premises)
        self._policy_state = PolicyState.UNKNOWN
        self._refused_edits = RefusedEdits(premises.clock.monotonic_s)

    async def policy(self) -> JsonObject:
        at = self._at
        policy, bindings = at.rulebook.current(), self._bound()
        look = await asyncio.to_thread(at.rulebook.look)
        checked = await asyncio.to_thread(at.rulebook.checked)
        return {
            "digest": at.rulebook.digest,
            "signed_digest": at.rulebook.signed_digest,
            "counter": at.rulebook.counter,
            "state": self._state_of(look).value,
            "files": _listed(at.rulebook.signed),
            "system": _listed(at.rulebook.system),
            "rules": len(policy.everything),
            "rule_list": rule_rows(policy),
            "warnings": [warning.to_json() for warning in checked.warnings],
            "services": [
                {
                    "name": service.name,
                    "base_url": place,
                    "credential": service.credential,
                    "bound": service.credential is None or _covered(at.vault, service.credential, place),
                }
                for service in policy.services.values()
                for place in service.places
                if bindings is not None
            ],
        }

    async def policy_pending(self, *, by_approver: bool) -> JsonObject:
        at = self._at
        pending = await asyncio.to_thread(at.rulebook.pending, self._bound() if by_approver else None)
        return {
            "digest": pending.digest or None,
            "counter": at.rulebook.counter + 1,
            "state": self._state_of(pending.look).value,
            "files": _listed(pending.look.files),
            "edited": edited(pending.look.files, at.rulebook.signed) if pending.look.is_readable else [],
            "faults": list(pending.faults),
            "warnings": list(pending.warnings),
            "changes": list(pending.changes),
            "unchanged": pending.unchanged,
            "voids": {"cards": at.desk.pending, "grants": len(at.sessions.grant_listing())},
            "same": pending.digest == (at.rulebook.signed_digest or ""),
        }

    async def trust(self, *, digest: str, counter: int, signature: bytes) -> JsonObject:
        """Put the files as they lie there in force, if they are the ones that were signed."""
        async with self._turn:  # no lock comes between the vault's word and ours
            answer = await self._trust(digest, counter, signature)
        await self.notice_policy()
        return answer

    async def _trust(self, digest: str, counter: int, signature: bytes) -> JsonObject:
        at = self._at
        if at.custody.state is not VaultState.READY:
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
            files=tuple((file.name, file.raw) for file in pending.look.files),
            digest=digest,
            counter=counter,
            signature=signature,
            approver=key_id,
        )
        await self._vault_work(lambda: at.vault.trust_policy(trusted))
        self._put_policy(trusted)
        generation = at.vault.generation
        await at.record(EventName.POLICY_TRUSTED, digest=digest, counter=counter, key=key_id, generation=generation)
        at.changed()
        return {"digest": digest, "counter": counter}

    def _put_policy(self, trusted: TrustedPolicy) -> None:
        try:
            self._at.rulebook.use(trusted)
        except PolicyError as error:  # the machine's own files changed meanwhile; nothing is allowed until they load
            self._warn(f"the policy was trusted, and does not load with the machine's own files: {error}")
        self._end_what_was_under_it()

    def _end_what_was_under_it(self) -> None:
        """Cards, grants and logins were for the policy before."""
        at = self._at
        at.desk.void(Happening.POLICY_CHANGED)
        at.executor.drop_logins()
        at.sessions.drop_grants()

    async def watch_policies(self, *, every_s: float = LOOK_S) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.notice_policy()
            except Exception:  # looking at files must not end the daemon; it looks again
                LOG.exception("the policy files were not looked at")

    async def notice_policy(self) -> None:
        """Look at the files; what changed is told, and the machine's own take force."""
        at = self._at
        look = await asyncio.to_thread(at.rulebook.look)
        if at.custody.state is VaultState.READY and look.system not in {None, at.rulebook.system}:
            async with self._turn:
                await self._reload(look)
        await self._record_refused(look)
        state = self._state_of(look)
        if state is not self._policy_state:
            self._policy_state = state
            at.changed("policy", state=state.value)
            at.changed()

    async def _reload(self, look: Look) -> None:
        """The machine's own files changed: they need no signature, and what was under the former ones ends."""
        at = self._at
        if at.custody.state is not VaultState.READY or not await asyncio.to_thread(at.rulebook.reload, look):
            return
        self._end_what_was_under_it()
        with suppress(ControlError):  # they are in force all the same: each request is recorded with their digest
            await at.record(EventName.POLICY_RELOADED, digest=at.rulebook.digest, files=_listed(at.rulebook.system))
        at.changed()

    async def _record_refused(self, look: Look) -> None:
        error = look.error
        passed_over = self._refused_edits.due(None if error is None else str(error))
        if error is None or passed_over is None:
            return
        first = str(error.faults[0]) if error.faults else str(error)
        try:
            await self._at.record(
                EventName.POLICY_EDIT_REFUSED,
                faults=max(len(error.faults), 1),
                first=first[:FIRST_MAX_CHARACTERS],
                digest=policy_digest(look.files) if look.is_readable else None,
                passed_over=passed_over,
            )
        except ControlError:
            self._refused_edits.not_recorded()
            return
        self._refused_edits.recorded()

    def _state_of(self, look: Look) -> PolicyState:
        if self._at.custody.state is not VaultState.READY:
            return PolicyState.UNKNOWN
        return self._at.rulebook.state(look)

    async def _policy_status(self) -> JsonObject:
        rulebook = self._at.rulebook
        state = self._state_of(await asyncio.to_thread(rulebook.look))
        return {
            "digest": rulebook.digest,
            "counter": rulebook.counter,
            "state": state.value,
            "pending": state in {PolicyState.CHANGED, PolicyState.REFUSED},
        }

    def key_of(self, message: bytes, signature: bytes) -> str | None:
        """The id of the approver key that signed. Raises ControlError while the vault is locked."""
        return verify(self._of_vault(self._at.vault.approver_keys), message, signature)

    async def explain(self, document: JsonObject) -> JsonObject:
        """Why the policy decides as it does, for a human: with every rule, and what it fails on."""
        at = self._at
        about, agent = document.get("request"), document.get("agent")
        policy = at.rulebook.current()
        ask = asked(str(document.get("action", "http")), about if isinstance(about, dict) else {})
        frozen = resolved(policy, ask)
        if isinstance(frozen, Invalid):
            return {"decision": "invalid", "code": frozen.code, "message": frozen.message, "trace": []}
        return explain(policy, caller_called(str(agent) if agent else UNIDENTIFIED), frozen)


def _listed(files: tuple[PolicyFile, ...]) -> list[JsonValue]:
    return [{"name": file.name, "sha256": hashlib.sha256(file.raw).hexdigest()} for file in files]


def _covered(vault: Vault, credential: str, place: str) -> bool:
    return vault.covers(credential, place if place.startswith("ssh:") else f"{place}/")
