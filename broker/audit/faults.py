"""The one error type of this package. Its message names what failed and what to do; it never holds a secret."""

from dataclasses import dataclass

from broker.audit.verdict import VerdictName


class AuditError(Exception):
    """The log can't be written or read. `verdict` is set where the bytes of the log are the reason."""

    def __init__(self, message: str, *, verdict: VerdictName | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """Why a log is not written to until a human takes it over: what is wrong with it, and in words."""

    verdict: VerdictName
    note: str
