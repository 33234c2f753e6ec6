from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import ApprovalState, Category, RemoteEffect, Retry
from broker.contract.result import GateReport
from broker.core.approval import Happening, after, crowded, denied_recently, muted, refusal
from broker.core.reply import Frame, refused

FRAME = Frame(correlation_id="op_" + "0" * 44)
NO = [happening for happening in Happening if happening is not Happening.APPROVED]


@pytest.mark.parametrize(
    ("happening", "state"),
    [
        (Happening.APPROVED, ApprovalState.APPROVED),
        (Happening.DENIED, ApprovalState.DENIED),
        (Happening.EXPIRED, ApprovalState.EXPIRED),
        (Happening.SUPERSEDED, ApprovalState.SUPERSEDED),
        (Happening.WITHDRAWN, ApprovalState.VOID),
        (Happening.LOCKED, ApprovalState.VOID),
        (Happening.FROZEN, ApprovalState.VOID),
        (Happening.SESSION_ENDED, ApprovalState.VOID),
        (Happening.POLICY_CHANGED, ApprovalState.VOID),
        (Happening.CREDENTIAL_CHANGED, ApprovalState.VOID),
        (Happening.STOPPING, ApprovalState.VOID),
    ],
)
def test_a_waiting_card_becomes_what_the_table_says(happening: Happening, state: ApprovalState) -> None:
    assert state is after(ApprovalState.PENDING, happening)


@pytest.mark.parametrize(
    ("state", "happening"),
    [pair for pair in product(ApprovalState, Happening) if pair[0] is not ApprovalState.PENDING],
)
def test_nothing_changes_a_settled_card(state: ApprovalState, happening: Happening) -> None:
    assert after(state, happening) is None


def test_only_a_yes_approves() -> None:
    assert [Happening.APPROVED] == [
        happening for happening in Happening if after(ApprovalState.PENDING, happening) is ApprovalState.APPROVED
    ]


@pytest.mark.parametrize(
    ("happening", "category", "code", "retry"),
    [
        (Happening.DENIED, Category.CALL_DENIED, "declined", Retry.NEVER),
        (Happening.EXPIRED, Category.APPROVAL_TIMEOUT, "approval_expired", Retry.AFTER_HUMAN),
        (Happening.WITHDRAWN, Category.APPROVAL_TIMEOUT, "withdrawn", Retry.NEVER),
        (Happening.SUPERSEDED, Category.APPROVAL_TIMEOUT, "superseded", Retry.AFTER_HUMAN),
        (Happening.LOCKED, Category.VAULT_LOCKED, "locked", Retry.AFTER_HUMAN),
        (Happening.FROZEN, Category.BROKER_UNAVAILABLE, "frozen", Retry.AFTER_HUMAN),
        (Happening.SESSION_ENDED, Category.SESSION_DENIED, "session_ended", Retry.NEVER),
        (Happening.POLICY_CHANGED, Category.APPROVAL_TIMEOUT, "approval_void", Retry.AFTER_HUMAN),
        (Happening.CREDENTIAL_CHANGED, Category.APPROVAL_TIMEOUT, "approval_void", Retry.AFTER_HUMAN),
        (Happening.STOPPING, Category.BROKER_UNAVAILABLE, "shutting_down", Retry.AFTER_HUMAN),
    ],
)
def test_each_ending_tells_the_agent_why(happening: Happening, category: Category, code: str, retry: Retry) -> None:
    told = refusal(happening)

    assert (category, code, retry, RemoteEffect.NONE) == (told.category, told.code, told.retry, told.remote_effect)


@pytest.mark.parametrize("happening", NO)
@pytest.mark.parametrize("per_call", [True, False])
@pytest.mark.parametrize("approver", [True, False])
def test_each_no_is_a_lawful_envelope(happening: Happening, *, per_call: bool, approver: bool) -> None:
    envelope = refused(FRAME, refusal(happening, per_call=per_call, approver=approver), GateReport())

    assert envelope.to_json()["remote_effect"] == "none"


def test_a_yes_is_no_refusal() -> None:
    with pytest.raises(ValueError, match="a yes is no refusal"):
        refusal(Happening.APPROVED)


def test_a_denial_under_a_session_rule_is_the_sessions() -> None:
    assert Category.SESSION_DENIED is refusal(Happening.DENIED, per_call=False).category


def test_the_humans_reason_reaches_the_agent() -> None:
    assert 'They say: "use the staging one"' in refusal(Happening.DENIED, reason="use the staging one").message
    assert "They say" not in refusal(Happening.DENIED).message


@given(st.text(max_size=5000))
def test_no_reason_is_too_long_for_an_envelope(reason: str) -> None:
    assert len(refusal(Happening.DENIED, reason=reason).message) <= 300


def test_where_no_approver_was_there_the_agent_is_told_so() -> None:
    told = refusal(Happening.EXPIRED, approver=False)

    assert told.code == "no_approver"
    assert "doorward ui" in told.message


def test_a_flood_and_a_remembered_denial_have_codes_of_their_own() -> None:
    assert (Category.SESSION_DENIED, "muted") == (muted("9 cards").category, muted("9 cards").code)
    assert "9 cards" in muted("9 cards").message
    assert (Category.BROKER_UNAVAILABLE, "local_limit", 60) == (
        crowded("9 cards").category, crowded("9 cards").code, crowded("9 cards").retry_after_s,
    )  # fmt: skip
    assert "9 cards" in crowded("9 cards").message
    remembered = denied_recently(ago_s=95, again_s=505)
    assert (Category.CALL_DENIED, "denied_recently") == (remembered.category, remembered.code)
    assert "95 s ago" in remembered.message
    assert "another 8 min" in remembered.message
