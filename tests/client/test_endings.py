import jsonschema_rs
import pytest

from broker.client import endings
from broker.contract.reasons import CODES, Category, Retry
from broker.contract.result import next_action
from broker.contract.schemas import schema
from broker.contract.wire import JsonValue, dump, parse_object

ALL = [
    endings.not_running("Nobody is there."),
    endings.not_running("Nobody is there.", request_id="r1"),
    endings.lost("No answer"),
    endings.lost("No answer", request_id="r1", again="doorward http GET x / --request-id r1"),
    endings.unanswered("No answer.", command="doorward services"),
    endings.misspelled("No such option."),
]


@pytest.mark.parametrize("envelope", ALL)
def test_an_envelope_of_the_client_keeps_the_contract(envelope: dict[str, JsonValue]) -> None:
    jsonschema_rs.validator_for(schema("result")).validate(parse_object(dump(envelope)))
    category, retry = Category(str(envelope["category"])), Retry(str(envelope["retry"]))
    following = envelope["next"]

    assert envelope["code"] in CODES[category]
    assert isinstance(following, dict)
    assert next_action(category, retry).value == following["action"]
    assert envelope["correlation_id"] is None


def test_a_lost_answer_never_claims_that_nothing_happened() -> None:
    for envelope in (endings.lost("No answer"), endings.lost("No answer", request_id="r1")):
        assert "unknown" == envelope["remote_effect"]
        assert "may have happened" in str(envelope["message"])
        assert envelope["retry"] not in {"bounded", "after_delay", "never"}


def test_a_long_message_is_cut_at_the_contracts_limit() -> None:
    assert 300 == len(str(endings.misspelled("x" * 400)["message"]))
