from broker.core.events import AuditEvent, EventName
from broker.server.deeds import IN_FLIGHT_TOLD, Deeds


def event(name: EventName, correlation_id: str | None, session_id: str | None = "se_1", **fields: str) -> AuditEvent:
    return AuditEvent(name=name, at_ms=7, correlation_id=correlation_id, session_id=session_id, fields=fields)


def sent(correlation_id: str | None, effect: str = "read", session_id: str | None = "se_1") -> AuditEvent:
    return event(EventName.DISPATCH_STARTED, correlation_id, session_id, operation="shop.list", effect=effect)


def test_what_was_sent_is_under_way_until_its_result_is_recorded() -> None:
    deeds = Deeds()
    deeds.begin("se_1")
    for page in (sent("op_1"), sent("op_1"), sent("op_2", "write"), sent(None), sent("op_3", session_id=None)):
        deeds.notice(page)
    told = {"correlation_id": "op_1", "operation": "shop.list", "effect": "read", "since_ms": 7}

    assert [told, {**told, "correlation_id": "op_2", "effect": "write"}] == deeds.of("se_1")["in_flight"]
    deeds.notice(event(EventName.ACTION_RESULT, "op_1"))
    deeds.notice(event(EventName.ACTION_RESULT, "op_1"))
    deeds.notice(event(EventName.ACTION_RESULT, "op_never_sent"))
    deeds.notice(event(EventName.REMOTE_ANSWERED, "op_2"))
    assert {"read": 1, "write": 0, "exec": 0} == deeds.of("se_1")["done"]
    assert [{**told, "correlation_id": "op_2", "effect": "write"}] == deeds.of("se_1")["in_flight"]


def test_of_many_the_oldest_are_told_and_the_others_counted() -> None:
    deeds = Deeds()
    deeds.begin("se_1")
    for number in range(IN_FLIGHT_TOLD + 3):
        deeds.notice(sent(f"op_{number:02}"))
    told = deeds.of("se_1")
    flying = told["in_flight"]

    assert isinstance(flying, list)
    assert (IN_FLIGHT_TOLD, 3) == (len(flying), told["in_flight_more"])
    assert isinstance(flying[0], dict)
    assert "op_00" == flying[0]["correlation_id"]


def test_nothing_is_kept_of_a_session_that_ended() -> None:
    deeds = Deeds()
    deeds.begin("se_1")
    deeds.notice(sent("op_1"))
    deeds.forget("se_1")
    deeds.notice(event(EventName.ACTION_RESULT, "op_1"))
    deeds.notice(sent("op_2"))

    assert {"in_flight": [], "in_flight_more": 0, "done": {"read": 0, "write": 0, "exec": 0}} == deeds.of("se_1")
    assert not deeds._under_way
    assert not deeds._done
