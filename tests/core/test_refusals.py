import pytest

from broker.contract.reasons import Category, RemoteEffect, Retry, VaultState
from broker.contract.result import GateReport
from broker.core import refusals
from broker.core.frozen import FrozenRequest
from broker.core.policy.model import Deny
from broker.core.refusals import Refusal
from broker.core.reply import Frame, refused
from broker.core.resolve import Invalid, resolve
from tests.fakes import market


def frozen() -> FrozenRequest:
    request = resolve(market.POLICY, market.CREATE)
    assert isinstance(request, FrozenRequest)
    return request


NO_RULE = refusals.denied(Deny(code="no_rule", rules=()), frozen())
DENIED = refusals.denied(Deny(code="rule_denied", rules=("never", "nor-this")), frozen())


@pytest.mark.parametrize(
    ("refusal", "category", "code", "retry", "effect"),
    [
        (refusals.unreadable("not JSON"), "invalid_request", "unreadable", "never", "none"),
        (refusals.misshapen("path: missing"), "invalid_request", "schema", "never", "none"),
        (refusals.too_large(1024), "invalid_request", "body_too_large", "never", "none"),
        (refusals.unknown_result(), "invalid_request", "unknown_correlation_id", "never", "none"),
        (refusals.nothing_to_reconcile(), "invalid_request", "unknown_correlation_id", "never", "none"),
        (refusals.overloaded(), "broker_unavailable", "overloaded", "after_delay", "none"),
        (refusals.local_limit(), "broker_unavailable", "local_limit", "after_delay", "none"),
        (refusals.shutting_down(), "broker_unavailable", "shutting_down", "after_delay", "none"),
        (refusals.no_peer("it has exited"), "session_denied", "session_ended", "never", "none"),
        (refusals.echoing(), "session_denied", "muted", "after_human", "none"),
        (refusals.void("policy"), "approval_timeout", "approval_void", "after_human", "none"),
        (refusals.still_running("Wait."), "outcome_unknown", "still_running", "after_delay", "unknown"),
        (refusals.fault(), "broker_unavailable", "internal", "after_human", "none"),
        (refusals.broken(sent=True, is_write=True), "broker_unavailable", "internal", "reconcile_first", "unknown"),
        (refusals.broken(sent=True, is_write=False), "broker_unavailable", "internal", "after_human", "none"),
        (refusals.change_under_way(), "reconcile_required", "in_doubt", "reconcile_first", "unknown"),
        (refusals.broken(sent=False, is_write=True), "broker_unavailable", "internal", "after_human", "none"),
        (refusals.not_reconciled(), "broker_unavailable", "internal", "reconcile_first", "unknown"),
        (refusals.disk_low(), "broker_unavailable", "disk_low", "after_human", "none"),
        (refusals.invalid(Invalid(code="bad_url", message="No.")), "invalid_request", "bad_url", "never", "none"),
        (NO_RULE, "policy_denied", "no_rule", "never", "none"),
        (DENIED, "policy_denied", "rule_denied", "never", "none"),
        (refusals.no_credential("market"), "policy_denied", "rule_denied", "never", "none"),
        (refusals.not_bound("market", market.BASE_URL), "policy_denied", "rule_denied", "never", "none"),
        (refusals.id_conflict(), "invalid_request", "request_id_conflict", "never", "none"),
        (refusals.change_in_doubt(), "reconcile_required", "in_doubt", "reconcile_first", "unknown"),
        (refusals.leader_lost(is_write=True), "broker_unavailable", "internal", "reconcile_first", "unknown"),
        (refusals.leader_lost(is_write=False), "broker_unavailable", "internal", "after_human", "none"),
    ],
)
def test_each_refusal_says_what_the_contract_says(
    refusal: Refusal, category: str, code: str, retry: str, effect: str
) -> None:
    told = refused(Frame(correlation_id="op_" + "0" * 44), refusal, GateReport())

    assert (Category(category), code, Retry(retry), RemoteEffect(effect)) == (
        told.category, told.code, told.retry, told.remote_effect,
    )  # fmt: skip


def test_a_denial_names_the_rules_or_that_there_is_none() -> None:
    assert "no rule of the policy names market.orders.create" in NO_RULE.message
    assert "rule never, nor-this of the policy denies" in DENIED.message


def test_a_denial_by_many_rules_still_fits() -> None:
    many = Deny(code="rule_denied", rules=tuple(f"rule-{number}" for number in range(100)))

    assert 300 == len(refusals.denied(many, frozen()).message)


def test_a_credential_that_is_not_there_or_not_bound_names_the_humans_next_step() -> None:
    assert refusals.no_credential("market").next_command == "doorward credential add market"
    assert refusals.not_bound("market", market.BASE_URL).next_command == "doorward credential list"


@pytest.mark.parametrize("state", list(VaultState))
def test_each_state_of_the_vault_has_its_words(state: VaultState) -> None:
    refusal = refusals.vault(state)
    code = {VaultState.QUARANTINED: "quarantined", VaultState.UNLOCKING: "unlocking"}.get(state, "locked")

    assert (Category.VAULT_LOCKED, code, Retry.AFTER_HUMAN) == (refusal.category, refusal.code, refusal.retry)
    assert ("meanwhile" in refusal.message) == (state is VaultState.READY)


def test_the_human_is_named_where_only_a_human_can_help() -> None:
    assert "doorward thaw" in refusals.frozen().message
    assert "doorward unlock" in refusals.vault(VaultState.LOCKED).message
    assert Retry.NEVER is refusals.session_ended().retry
