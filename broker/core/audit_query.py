"""What may be asked of the audit log's events and views: a value without behaviour, parsed where it came in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Filters, each None where it is not asked for, and the place in the log to go on from.

    With `before_seq` the answer goes back from there, else it goes forward from after `after_seq`.
    """

    limit: int
    after_seq: int | None = None
    before_seq: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    agent: str | None = None
    session: str | None = None
    operation: str | None = None
    category: str | None = None
    correlation_id: str | None = None
    event: str | None = None
