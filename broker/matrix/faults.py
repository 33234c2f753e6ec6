"""The one error type of the matrix: a file that says what no case can say, or a world that does not come up.

A fault in what a case observed is no error but a value; see checks.py.
"""

from dataclasses import dataclass

from typing_extensions import override


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFault:
    """Something wrong in a case file, with its place and what would have been right."""

    source: str
    line: int
    problem: str
    expected: str = ""

    @override
    def __str__(self) -> str:
        hint = f" (expected: {self.expected})" if self.expected else ""
        return f"{self.source}:{self.line}: {self.problem}{hint}"


class MatrixError(Exception):
    """A component of the matrix did not come up, or broke."""


class CaseError(MatrixError):
    """Case files that can't be run; every fault of all files at once."""

    def __init__(self, faults: tuple[FileFault, ...]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults
