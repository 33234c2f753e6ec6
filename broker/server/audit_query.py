"""What a query of the audit log says, read strictly: unknown or repeated names and odd values are refused."""

from collections.abc import Iterable

from broker.contract.reasons import Category
from broker.core.audit_query import AuditQuery
from broker.server.faults import ControlError

LIMIT_DEFAULT = 100
LIMIT_MOST = 1000
TEXT_MOST = 200
_DIGITS_MOST = 18
_NUMBERS = frozenset({"after_seq", "before_seq", "limit", "since", "until"})
_TEXTS = frozenset({"agent", "session", "operation", "category", "correlation_id", "event"})


def audit_query(pairs: Iterable[tuple[str, str]]) -> AuditQuery:
    """Raises ControlError with code `schema`."""
    numbers: dict[str, int] = {}
    texts: dict[str, str] = {}
    for name, value in pairs:
        if name in numbers or name in texts:
            raise _fault(f"{name} is given twice")
        if name in _NUMBERS:
            numbers[name] = _number(name, value)
        elif name in _TEXTS:
            texts[name] = _text(name, value)
        else:
            raise _fault("there is a name that no filter has")
    if "after_seq" in numbers and "before_seq" in numbers:
        raise _fault("after_seq and before_seq are two directions; only one can be gone")
    return AuditQuery(
        limit=min(LIMIT_MOST, numbers.get("limit", LIMIT_DEFAULT)),
        after_seq=numbers.get("after_seq"),
        before_seq=numbers.get("before_seq"),
        since_ms=numbers.get("since"),
        until_ms=numbers.get("until"),
        agent=texts.get("agent"),
        session=texts.get("session"),
        operation=texts.get("operation"),
        category=texts.get("category"),
        correlation_id=texts.get("correlation_id"),
        event=texts.get("event"),
    )


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= _DIGITS_MOST) or (
        name == "limit" and not int(value)
    ):
        raise _fault(f"{name} is a whole number{' from 1 on' if name == 'limit' else ''}")
    return int(value)


def _text(name: str, value: str) -> str:
    if not value or len(value) > TEXT_MOST:
        raise _fault(f"{name} has 1 to {TEXT_MOST} characters")
    if name == "category" and value not in {category.value for category in Category}:
        raise _fault("category is none of the contract's")
    return value


def _fault(problem: str) -> ControlError:
    return ControlError("schema", f"The query can't be used: {problem}.")
