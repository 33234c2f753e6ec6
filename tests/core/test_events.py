import re
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.wire import JsonObject, JsonValue, WireError, canonical, parse_object
from broker.core.events import AuditEvent, EventName


def test_an_event_is_canonical_json_of_all_its_parts() -> None:
    event = AuditEvent(
        name=EventName.ACTION_REQUESTED, at_ms=5, correlation_id="op_1", session_id="s_1", fields={"b": 1, "a": [True]}
    )

    assert (
        b'{"at_ms":5,"correlation_id":"op_1","event":"action.requested","fields":{"a":[true],"b":1},"session_id":"s_1"}'
        == event.encode()
    )


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]))


@given(
    at_ms=st.integers(),
    ids=st.tuples(st.none() | TEXTS, st.none() | TEXTS),
    fields=st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS)),
)
def test_an_event_is_spelled_as_any_other_document(
    at_ms: int, ids: tuple[str | None, str | None], fields: dict[str, JsonValue]
) -> None:
    event = AuditEvent(
        name=EventName.GRANT_MADE,
        at_ms=at_ms,
        correlation_id=ids[0],
        session_id=ids[1],
        fields=MappingProxyType(fields),
    )
    whole: JsonObject = {
        "event": "grant.made",
        "at_ms": at_ms,
        "correlation_id": ids[0],
        "session_id": ids[1],
        "fields": fields,
    }

    assert canonical(whole) == event.encode()


@pytest.mark.parametrize(("at_ms", "correlation_id"), [(0.5, "c"), (1, "half \ud800"), (1, b"c")])
def test_nothing_of_an_event_escapes_the_strict_spelling(at_ms: int, correlation_id: str) -> None:
    with pytest.raises(WireError):
        AuditEvent(name=EventName.GRANT_MADE, at_ms=at_ms, correlation_id=correlation_id).encode()


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
