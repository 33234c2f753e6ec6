"""What humans ask about people: whose yes counts, and which credentials agents wait for."""

from urllib.parse import quote

from broker.client.control import ControlClient, Signer
from broker.client.control_answers import items
from broker.contract.wire import JsonValue


class People:
    """Verbs over one client. Approvers are enrolled and removed by a signature; a no to a wish needs none."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    def approvers(self) -> list[dict[str, JsonValue]]:
        return items(self._client.ask("GET", "/v1/approvers"), "approvers")

    def enrol(self, public_key: str, key: Signer) -> dict[str, JsonValue]:
        """`public_key` is 32 bytes in hexadecimal digits."""
        return self._client.ask_signed("POST", "/v1/approvers", "approver.enrol", {"public_key": public_key}, key)

    def remove(self, key_id: str, key: Signer) -> dict[str, JsonValue]:
        target = f"/v1/approvers/{quote(key_id, safe='')}"
        return self._client.ask_signed("DELETE", target, "approver.remove", {"key_id": key_id}, key)

    def wants(self) -> list[dict[str, JsonValue]]:
        """Credentials that agents wait for, without a word of theirs."""
        return items(self._client.ask("GET", "/v1/credential-requests"), "credential_requests")

    def want(self, want_id: str) -> dict[str, JsonValue]:
        return self._client.ask("GET", f"/v1/credential-requests/{quote(want_id, safe='')}")

    def decline(self, want_id: str, reason: str | None) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {} if reason is None else {"reason": reason}
        return self._client.ask("POST", f"/v1/credential-requests/{quote(want_id, safe='')}/decline", body)
