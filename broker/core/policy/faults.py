"""A fault in a policy file, and what a reader needs to mend it: file, line, key, what is wrong, what was expected."""

from dataclasses import dataclass

from typing_extensions import override

from broker.contract.wire import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fault:
    file: str
    line: int
    key: str
    problem: str
    expected: str = ""

    @override
    def __str__(self) -> str:
        """`file:line: key: what is wrong, what was expected`."""
        text = f"{self.file}:{self.line}: {self.key}: {self.problem}"
        return f"{text}, expected {self.expected}" if self.expected else text

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "file": self.file,
            "line": self.line,
            "key": self.key,
            "problem": self.problem,
            "expected": self.expected,
        }
