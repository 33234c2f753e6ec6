"""What the daemon tells of host keys and of the checkpoints in its log, parsed once. As lenient as ui/served.py."""

from dataclasses import dataclass

from broker.contract.wire import JsonValue
from ui.served import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeyRow:
    """A key that a human accepted at the first contact with a host."""

    host: str
    address: str
    port: int
    algorithm: str
    fingerprint: str
    accepted_at_ms: int

    @property
    def id(self) -> str:
        return f"host {self.address} {self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCheckpoint:
    """A signed note that stands in the log. `at_ms` is None where the time is not held in memory any more."""

    seq: int
    at_ms: int | None
    note: str
    size: int | None
    epoch: int | None
    countersigned: bool

    def line(self, number: int) -> str:
        """A line of the note: 0 its origin, 1 its size, 2 its root."""
        lines = self.note.split("\n")
        return lines[number] if number < len(lines) else ""


def host_keys(value: JsonValue) -> tuple[HostKeyRow, ...]:
    return tuple(
        HostKeyRow(
            host=item.text("host"),
            address=item.text("address"),
            port=item.number("port"),
            algorithm=item.text("algorithm"),
            fingerprint=item.text("fingerprint"),
            accepted_at_ms=item.number("accepted_at_ms"),
        )
        for item in Fields(value).parts("host_keys")
    )


def checkpoints(value: JsonValue) -> tuple[LogCheckpoint, ...]:
    return tuple(
        LogCheckpoint(
            seq=item.number("seq"),
            at_ms=item.number_or_none("at_ms"),
            note=item.text("note"),
            size=item.number_or_none("size"),
            epoch=item.number_or_none("epoch"),
            countersigned=item.flag("countersigned"),
        )
        for item in Fields(value).parts("checkpoints")
    )
