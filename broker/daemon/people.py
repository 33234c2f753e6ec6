"""The Office on people: who may decide, and which credentials agents ask humans for.

Who enrols or removes an approver signs for it. Saying no to a wish takes away only, and needs no signature.
"""

from broker.approvals.answers import AnswerRefused
from broker.approvals.wants import row, whole
from broker.contract.key_id import key_id
from broker.contract.wire import JsonObject
from broker.core.events import EventName
from broker.daemon.archive import Archive
from broker.server.faults import ControlError
from broker.server.office import Signed
from broker.server.shapes import text_or_none


class PeopleOffice(Archive):
    """Implements a part of server.office.Office."""

    async def approvers(self) -> JsonObject:
        enrolled = self._of_vault(self._at.vault.approvers)
        return {
            "approvers": [
                {
                    "key_id": key_id(approver.public_key),
                    "public_key": approver.public_key.hex(),
                    "enrolled_at_ms": approver.enrolled_at_ms,
                }
                for approver in enrolled
            ]
        }

    async def enrol_approver(self, signed: Signed) -> JsonObject:
        """From now on this key's yes counts as well."""
        public_key = bytes.fromhex(str(signed.params["public_key"]))
        await self._vault_work(lambda: self._at.vault.enrol_approver(public_key, now_ms=self._now()))
        await self._approvers_changed(EventName.APPROVER_ENROLLED, key_id(public_key), signed)
        return {"key_id": key_id(public_key), "enrolled": True}

    async def remove_approver(self, signed: Signed) -> JsonObject:
        """The key decides nothing any more; what it opened is closed, and so is all that any yes granted."""
        removed = str(signed.params["key_id"])
        await self._vault_work(lambda: self._at.vault.remove_approver(removed))
        self._at.challenges.close_of(removed)
        self._at.sessions.drop_grants()
        await self._approvers_changed(EventName.APPROVER_REMOVED, removed, signed)
        return {"key_id": removed, "removed": True}

    async def _approvers_changed(self, name: EventName, approver: str, signed: Signed) -> None:
        at = self._at
        await at.record(name, approver=approver, key=signed.key_id, generation=at.vault.generation)
        at.changed()

    async def credential_requests(self) -> JsonObject:
        return {"credential_requests": list(self._at.desk.wants.listing())}

    async def credential_request(self, want_id: str) -> JsonObject:
        try:
            return whole(self._at.desk.wants.known(want_id))
        except AnswerRefused as refused:
            raise ControlError(refused.code, str(refused)) from None

    async def decline_credential(self, want_id: str, document: JsonObject) -> JsonObject:
        try:
            return row(self._at.desk.wants.decline(want_id, text_or_none(document, "reason")))
        except AnswerRefused as refused:
            raise ControlError(refused.code, str(refused)) from None
