from broker.core.asks import resolved
from broker.core.evidence_report import envelope_part, recorded_fields
from broker.core.frozen import FrozenRequest
from broker.core.policy.declarations import Precheck
from broker.core.precheck import as_expected, changed, frozen_look
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.collections_made import RECORD
from tests.fakes.proofs import DROP, LOOK, policy, rule
from tests.fakes.ssh_calls import bare, host
from tests.fakes.ssh_calls import frozen as frozen_ssh

IDLE = market.answered(200, b'{"state":"idle","name":"ci-2"}')


def frozen(ask: HttpAsk = DROP) -> FrozenRequest:
    found = resolved(policy(), ask)
    assert isinstance(found, FrozenRequest)
    return found


def test_a_look_is_the_declared_read_with_the_arguments_of_the_change() -> None:
    look = frozen_look(policy(), frozen(), LOOK)

    assert look is not None
    assert ("GET", "https://api.market.example/acme/accounts/ci-2") == (look.method, look.url)
    assert as_expected(LOOK, frozen(), look, IDLE, now_ms=1)


def test_nothing_is_looked_at_for_a_command() -> None:
    assert frozen_look(policy(), frozen_ssh(host(22, "u"), bare("true")), LOOK) is None


def test_an_expectation_that_can_not_be_told_is_not_met() -> None:
    look = frozen_look(policy(), frozen(), LOOK)
    assert look is not None

    for expect in ("length(json.nothing) > `0`", "json.state==$nobody", "json.state"):
        told = Precheck(operation=LOOK.operation, args=LOOK.args, expect=expect)
        assert not as_expected(told, frozen(), look, IDLE, now_ms=1)


def test_the_refusal_names_rule_and_read_and_no_target() -> None:
    told = changed(rule("drop-idle", "accounts.drop"), LOOK)

    assert ("evidence_required", "target_changed") == (told.category.value, told.code)
    assert ("drop-idle" in told.message, "ci-2" in told.message) == (True, False)


def test_the_log_of_a_collection_holds_no_argument_and_no_id_of_a_row() -> None:
    fields = recorded_fields(RECORD)

    assert RECORD.ids_digest == fields["ids"]
    assert not any(word in str(fields) for word in ("ci-legacy", "acme-prod"))


def test_an_envelope_names_a_collection_and_when_it_was_made() -> None:
    assert {
        "id": "ev_1",
        "operation": "cloud.accounts.list",
        "args": {"project": "acme-prod"},
        "count": 3,
        "complete": True,
        "collected_at": "2027-01-15T07:56:00.000Z",
        "expires_at": "2027-01-15T09:00:00.000Z",
    } == envelope_part(RECORD)
