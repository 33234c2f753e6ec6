import re

import pytest

from broker.contract.wire import WireError, parse_object
from broker.core.events import AuditEvent, EventName


def test_an_event_is_canonical_json_of_all_its_parts() -> None:
    event = AuditEvent(
        name=EventName.ACTION_REQUESTED, at_ms=5, correlation_id="op_1", session_id="s_1", fields={"b": 1, "a": [True]}
    )

    assert (
        b'{"at_ms":5,"correlation_id":"op_1","event":"action.requested","fields":{"a":[true],"b":1},"session_id":"s_1"}'
        == event.encode()
    )


def test_an_event_of_the_daemon_itself_names_no_request() -> None:
    told = parse_object(AuditEvent(name=EventName.DAEMON_STARTED, at_ms=1).encode())

    assert (None, None, {}) == (told["correlation_id"], told["session_id"], told["fields"])


def test_an_event_holds_no_fractions() -> None:
    with pytest.raises(WireError, match="integers only"):
        AuditEvent(name=EventName.ACTION_RESULT, at_ms=1, fields={"seconds": 0.5}).encode()


@pytest.mark.parametrize("name", list(EventName))
def test_events_are_named_noun_dot_happening_as_in_the_code(name: EventName) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", name.value)
    assert name.name == name.value.replace(".", "_").upper()
