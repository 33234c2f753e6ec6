"""Which step decides when several could, and what is recorded besides the verdict."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect
from broker.core.classify.order import dispatch_event
from broker.core.events import EventName
from broker.core.outcome import Fault, Phase
from broker.core.policy.model import AnswerRule, RateLimit
from broker.core.predicate import compile_predicate
from tests.fakes.answers import BODY, JSON, READ, answer, classified, cut, judged, lost
from tests.fakes.https_calls import frozen, operation

GREEDY = AnswerRule(when=compile_predicate("status > `0`"), category=Category.AUTHENTICATION_FAILED)
ALL_RULES = replace(
    operation(method="POST", effect=Effect.WRITE),
    errors=(GREEDY,),
    rate_limit=RateLimit(when=compile_predicate("status > `0`")),
)
REQUEST = frozen(method="POST", body=BODY, declared=ALL_RULES)


@pytest.mark.parametrize(
    ("raw", "category"),
    [
        (cut(200, Fault.TRUNCATED), Category.MALFORMED_RESPONSE),
        (answer(407), Category.LOCAL_FAILURE),
        (answer(302), Category.CONFIRMED_FAILURE),
        (answer(200, b"{"), Category.MALFORMED_RESPONSE),
        (answer(200), Category.AUTHENTICATION_FAILED),
        (answer(500), Category.AUTHENTICATION_FAILED),
    ],
)
def test_the_steps_speak_in_their_order(raw: object, category: Category) -> None:
    assert category is judged(REQUEST, raw)[0]  # type: ignore[arg-type]  # the outcomes above


def test_declared_limits_come_before_the_status() -> None:
    request = frozen(declared=replace(operation(), rate_limit=ALL_RULES.rate_limit))

    assert Category.RATE_LIMITED is judged(request, answer(404))[0]


def test_nothing_of_the_providers_text_gets_into_a_message() -> None:
    canary = b'{"message": "canary text", "canary": NaN}'
    for status in (200, 201, 202, 302, 400, 401, 403, 404, 429, 500):
        assert "canary" not in classified(READ, answer(status, canary, JSON, ("retry-after", "canary"))).verdict.message


def test_what_was_broken_is_kept_for_diagnosis() -> None:
    grounds = classified(READ, answer(200, b"{")).grounds

    assert "decoding" == grounds["step"]
    assert "not JSON" in str(grounds["broken"])


@pytest.mark.parametrize(
    ("fault", "status", "event"),
    [
        (None, 200, EventName.REMOTE_ANSWERED),
        (Fault.TRUNCATED, 200, EventName.REMOTE_ANSWERED),
        (Fault.TOO_LARGE, 200, EventName.REMOTE_ANSWERED),
        (Fault.TOTAL_TIMEOUT, 200, EventName.DEADLINE_EXPIRED),
        (Fault.CONNECT_TIMEOUT, None, EventName.DEADLINE_EXPIRED),
        (Fault.WRITE_TIMEOUT, None, EventName.DEADLINE_EXPIRED),
        (Fault.FIRST_BYTE_TIMEOUT, None, EventName.DEADLINE_EXPIRED),
        (Fault.DNS_FAILED, None, EventName.TRANSPORT_FAILED),
        (Fault.FRAMING, None, EventName.TRANSPORT_FAILED),
        (Fault.CONNECTION_LOST, None, EventName.TRANSPORT_FAILED),
        (Fault.INTERNAL, None, EventName.TRANSPORT_FAILED),
        (None, None, EventName.TRANSPORT_FAILED),
    ],
)
def test_every_dispatch_is_followed_by_one_event(fault: Fault | None, status: int | None, event: EventName) -> None:
    assert event is dispatch_event(replace(lost(fault, Phase.BODY_SENT), status=status))
