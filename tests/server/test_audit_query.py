import pytest

from broker.core.audit_query import AuditQuery
from broker.server.audit_query import LIMIT_DEFAULT, TEXT_MOST, audit_query
from broker.server.faults import ControlError


def test_every_filter_is_read() -> None:
    pairs = {
        "before_seq": "9",
        "limit": "5",
        "since": "1",
        "until": "2",
        "agent": "codex",
        "session": "se_1",
        "operation": "github",
        "category": "partial",
        "correlation_id": "op_1",
        "event": "action.result",
    }

    assert AuditQuery(
        before_seq=9,
        limit=5,
        since_ms=1,
        until_ms=2,
        agent="codex",
        session="se_1",
        operation="github",
        category="partial",
        correlation_id="op_1",
        event="action.result",
    ) == audit_query(pairs.items())


def test_nothing_asked_is_the_first_hundred() -> None:
    assert AuditQuery(limit=LIMIT_DEFAULT) == audit_query([])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "0"),
        ("limit", "1.5"),
        ("after_seq", "-1"),
        ("since", "\u0663"),
        ("until", "9" * 19),
        ("agent", ""),
        ("agent", "x" * (TEXT_MOST + 1)),
        ("category", "odd"),
        ("seq", "1"),
    ],
)
def test_what_is_odd_is_refused_and_not_repeated(name: str, value: str) -> None:
    with pytest.raises(ControlError, match="The query can't be used") as told:
        audit_query([(name, value)])

    assert "schema" == told.value.code
    assert not value or value not in str(told.value)
