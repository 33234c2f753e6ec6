"""The one error type of this package. Its message names what failed and what to do; it never holds a secret."""

from broker.audit.verdict import VerdictName


class AuditError(Exception):
    """The log can't be written or read. `verdict` is set where the bytes of the log are the reason."""

    def __init__(self, message: str, *, verdict: VerdictName | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict
