"""Where in the policy something stands, so that whoever is told of it can find it."""

from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """File name within the policy directory, and line."""

    file: str
    line: int

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
