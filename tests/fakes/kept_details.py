"""A small store of diagnostics in a directory, with the key that opens it."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.audit.diagnostics import DiagnosticsLimits, DiagnosticsStore
from broker.contract.wire import JsonObject
from broker.core.secret import Secret
from tests.fakes.clock import SetClock
from tests.fakes.logs import FaultyDisk

LOG_ID = bytes(8)
OP = "op_" + "0" * 44
DETAILS: JsonObject = {"code": "server_error", "body": "canary-of-an-answer"}
SMALL = DiagnosticsLimits(item_bytes=4096, total_bytes=1 << 20, items=5, age_ms=10_000, patience_s=0.5)


class Kept:
    """The store, its clock and its disk."""

    def __init__(self, directory: Path, limits: DiagnosticsLimits = SMALL) -> None:
        self.directory = directory
        self.limits = limits
        self.clock = SetClock()
        self.disk = FaultyDisk()
        self.private = X25519PrivateKey.generate()
        self.key = Secret(self.private.private_bytes_raw())
        self.store = self.opened()

    def opened(self, log_id: bytes = LOG_ID) -> DiagnosticsStore:
        return DiagnosticsStore(
            self.directory,
            audit_key=self.private.public_key().public_bytes_raw(),
            log_id=log_id,
            clock=self.clock.now_ms,
            limits=self.limits,
            disk=self.disk,
        )

    def keep(self, details: JsonObject = DETAILS) -> str:
        reference = self.store.keep_blocking(OP, details)
        assert reference is not None, self.store.fault
        return reference

    def show(self, reference: str) -> JsonObject | None:
        return self.store.show(reference, self.key)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())
