"""A session that was recorded late, for many of its program came and went, shows when it was opened."""

import pytest

from broker.contract.wire import JsonObject
from tests.fakes.plain_views import plain_attendances


@pytest.mark.parametrize(("more", "opened_at_ms"), [({}, 500), ({"opened_at_ms": 400}, 400)])
def test_a_session_was_opened_when_it_was_opened_and_not_when_it_was_recorded(
    more: JsonObject, opened_at_ms: int
) -> None:
    fields: JsonObject = {"agent": "codex", "pid": 7, "exe": "/opt/agent", "span": "process", **more}
    event: JsonObject = {
        "event": "session.opened", "at_ms": 500, "session_id": "se_1", "correlation_id": None, "fields": fields,
    }  # fmt: skip

    (session,) = plain_attendances([(1, event)])
    assert opened_at_ms == session.opened_at_ms
