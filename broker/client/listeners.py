"""The human's word for a listener: what reaches it is of one container, and goes by the name that is signed here."""

from broker.client.control import ControlClient, Signer
from broker.contract.wire import JsonValue


class ListenerControl(ControlClient):
    def open_listener(self, name: str, key: Signer) -> dict[str, JsonValue]:
        """From now on all that this very process asks on agent.sock is that container's."""
        return self._signed("POST", "/v1/listeners", "listener.open", {"name": name}, key)
