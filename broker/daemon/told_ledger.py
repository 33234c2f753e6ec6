"""The ledger as the daemon keeps it: whoever looks on is told when a change comes into doubt, and when out of it."""

from collections.abc import Callable

from typing_extensions import override

from broker.contract.wire import JsonObject
from broker.operations.ledger import LedgerStore


class ToldLedger(LedgerStore):
    """`changed` is called with the id and the state of an operation once that is written, or is owed to the disk."""

    changed: Callable[[str, str], None] = staticmethod(lambda _id, _state: None)

    @override
    async def finish(self, correlation_id: str, *, in_doubt: bool, envelope: JsonObject) -> None:
        try:
            await super().finish(correlation_id, in_doubt=in_doubt, envelope=envelope)
        finally:
            if in_doubt:
                self.changed(correlation_id, "in_doubt")

    @override
    async def settle(self, correlation_id: str, settlement: JsonObject) -> bool:
        settled = await super().settle(correlation_id, settlement)
        if settled:
            self.changed(correlation_id, "settled")
        return settled
