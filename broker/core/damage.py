"""Damage of the audit log that a human took over, as a value: what was said of it, and the very bytes it is in."""

from dataclasses import dataclass
from typing import Never, Self

from broker.contract.wire import JsonObject, JsonValue

_NAMES = {"verdict", "segment", "offset", "seq", "files", "sha256", "resumed", "at_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDamage:
    """`segment`, `offset` and `seq` are the place that the verdict names.

    `files` are the numbers and sizes of the segments from the first bad one to the log's end at that time, `sha256` is
    over those bytes; `resumed` is the segment from which on the log has to be whole again.
    """

    verdict: str
    segment: str | None
    offset: int | None
    seq: int | None
    files: tuple[tuple[int, int], ...]
    sha256: str
    resumed: int
    at_ms: int

    def to_json(self) -> JsonObject:
        return {
            "verdict": self.verdict,
            "segment": self.segment,
            "offset": self.offset,
            "seq": self.seq,
            "files": [list(file) for file in self.files],
            "sha256": self.sha256,
            "resumed": self.resumed,
            "at_ms": self.at_ms,
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Self:
        """Raises ValueError."""
        if set(value) != _NAMES:
            raise ValueError(f"damage has exactly {', '.join(sorted(_NAMES))}")
        files = value["files"]
        return cls(
            verdict=_text(value, "verdict"),
            segment=None if value["segment"] is None else _text(value, "segment"),
            offset=None if value["offset"] is None else _number(value["offset"]),
            seq=None if value["seq"] is None else _number(value["seq"]),
            files=tuple(_pair(item) for item in files) if isinstance(files, list) else _no("files"),
            sha256=_text(value, "sha256"),
            resumed=_number(value["resumed"]),
            at_ms=_number(value["at_ms"]),
        )


def _text(value: JsonObject, name: str) -> str:
    found = value[name]
    return found if isinstance(found, str) else _no(name)


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else _no("a number")


def _pair(item: JsonValue) -> tuple[int, int]:
    """Number and size of a segment."""
    if not isinstance(item, list) or len(item) != 2:
        return _no("files")
    return _number(item[0]), _number(item[1])


def _no(what: str) -> Never:
    raise ValueError(f"{what} is not of the form that was written")
