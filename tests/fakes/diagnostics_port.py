"""A store of diagnostics in memory, and one that is out of order."""

from broker.contract.wire import JsonObject, canonical


class MemoryDiagnostics:
    """Implements ports.Diagnostics."""

    def __init__(self) -> None:
        self.items: dict[str, JsonObject] = {}
        self.is_broken = False

    async def keep(self, correlation_id: str, details: JsonObject) -> str | None:
        if self.is_broken:
            return None
        canonical(details)  # what can't be spelled can't be sealed
        reference = f"diag_{len(self.items) + 1:040x}"
        self.items[reference] = {"correlation_id": correlation_id, **details}
        return reference
