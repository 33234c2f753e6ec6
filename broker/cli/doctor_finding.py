"""What a check found, how bad it is, and how to mend it."""

from dataclasses import dataclass
from enum import StrEnum

from broker.contract.wire import JsonValue


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    check: str
    message: str
    mend: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        return {"level": self.level.value, "check": self.check, "message": self.message, "mend": self.mend or None}


def fine(check: str, message: str) -> Finding:
    return Finding(level=Level.OK, check=check, message=message)


def warning(check: str, message: str, mend: str) -> Finding:
    return Finding(level=Level.WARNING, check=check, message=message, mend=mend)


def fault(check: str, message: str, mend: str) -> Finding:
    return Finding(level=Level.FAULT, check=check, message=message, mend=mend)
