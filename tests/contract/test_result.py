from dataclasses import replace

import pytest

from broker.contract.reasons import (
    CODES,
    Category,
    Effect,
    GateState,
    IncompleteCode,
    NextAction,
    RemoteEffect,
    Retry,
    Status,
    VaultState,
    WarningCode,
)
from broker.contract.result import (
    MESSAGE_LIMIT,
    NOTHING_SENT,
    Completeness,
    Envelope,
    GateReport,
    HttpAnswer,
    IncompleteReason,
    ScrubReport,
    Warn,
    next_action,
)
from broker.contract.wire import JsonValue

CUT = IncompleteReason(code=IncompleteCode.TIME_BUDGET_EXCEEDED, message="cut", by="broker", limit=10, unit="s")


def envelope(
    category: Category = Category.SUCCESS,
    code: str = "ok",
    *,
    retry: Retry = Retry.NEVER,
    remote_effect: RemoteEffect = RemoteEffect.NONE,
    message: str = "Done.",
    effect: Effect | None = None,
    retry_after_s: int | None = None,
    completeness: Completeness | None = None,
    next_command: str | None = None,
) -> Envelope:
    return Envelope(
        category=category,
        code=code,
        retry=retry,
        remote_effect=remote_effect,
        correlation_id="op_" + "0" * 44,
        message=message,
        effect=effect,
        retry_after_s=retry_after_s,
        completeness=completeness,
        next_command=next_command,
    )


@pytest.mark.parametrize("category", list(Category))
def test_ok_is_true_for_success_alone(category: Category) -> None:
    answer = envelope(category, min(CODES[category]))
    status = {Category.SUCCESS: Status.SUCCESS, Category.PARTIAL: Status.PARTIAL}.get(category, Status.FAILURE)

    assert status is answer.status
    assert (status is Status.SUCCESS) is answer.to_json()["ok"]


def test_a_code_of_another_category_is_refused() -> None:
    with pytest.raises(ValueError, match="no_rule is no code of success"):
        envelope(Category.SUCCESS, "no_rule")


def test_success_is_never_incomplete() -> None:
    with pytest.raises(ValueError, match="success may not be incomplete"):
        envelope(completeness=Completeness(complete=False, reasons=(CUT,)))
    assert envelope(completeness=Completeness(complete=True)).to_json()["ok"] is True


@pytest.mark.parametrize("message", ["", "x" * (MESSAGE_LIMIT + 1)])
def test_a_message_is_there_and_short(message: str) -> None:
    with pytest.raises(ValueError, match="1 to 300 characters"):
        envelope(message=message)
    assert envelope(message="x" * MESSAGE_LIMIT).message


def test_whoever_is_told_to_wait_is_told_how_long() -> None:
    with pytest.raises(ValueError, match="without a delay"):
        envelope(Category.RATE_LIMITED, "quota", retry=Retry.AFTER_DELAY)


def test_a_read_has_no_remote_effect() -> None:
    with pytest.raises(ValueError, match="no remote effect"):
        envelope(effect=Effect.READ, remote_effect=RemoteEffect.APPLIED)
    assert envelope(effect=Effect.WRITE, remote_effect=RemoteEffect.APPLIED).remote_effect is RemoteEffect.APPLIED


@pytest.mark.parametrize("category", sorted(NOTHING_SENT))
def test_what_was_refused_before_it_was_sent_has_no_remote_effect(category: Category) -> None:
    with pytest.raises(ValueError, match="no remote effect"):
        envelope(category, min(CODES[category]), remote_effect=RemoteEffect.UNKNOWN)


@pytest.mark.parametrize(
    ("category", "retry", "action"),
    [
        (Category.SUCCESS, Retry.NEVER, NextAction.NONE),
        (Category.POLICY_DENIED, Retry.NEVER, NextAction.NONE),
        (Category.INVALID_REQUEST, Retry.NEVER, NextAction.FIX_REQUEST),
        (Category.EVIDENCE_REQUIRED, Retry.NEVER, NextAction.COLLECT),
        (Category.AUTHENTICATION_FAILED, Retry.NEVER, NextAction.ASK_HUMAN),
        (Category.LOCAL_FAILURE, Retry.BOUNDED, NextAction.RETRY),
        (Category.PARTIAL, Retry.BOUNDED, NextAction.CONTINUE),
        (Category.RATE_LIMITED, Retry.AFTER_DELAY, NextAction.WAIT),
        (Category.VAULT_LOCKED, Retry.AFTER_HUMAN, NextAction.ASK_HUMAN),
        (Category.OUTCOME_UNKNOWN, Retry.RECONCILE_FIRST, NextAction.RECONCILE),
    ],
)
def test_the_next_action_follows_from_category_and_retry(category: Category, retry: Retry, action: NextAction) -> None:
    assert action is next_action(category, retry)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (envelope(), {"action": "none", "command": None}),
        (
            envelope(
                Category.RATE_LIMITED, "too_many", retry=Retry.AFTER_DELAY, retry_after_s=7, next_command="sleep 7"
            ),
            {"action": "wait", "after_s": 7, "command": "sleep 7"},
        ),
        (
            envelope(
                Category.PARTIAL,
                "incomplete",
                retry=Retry.BOUNDED,
                completeness=Completeness(complete=False, reasons=(CUT,), next_cursor="c2"),
            ),
            {"action": "continue", "cursor": "c2", "command": None},
        ),
        (envelope(Category.PARTIAL, "accepted", retry=Retry.BOUNDED), {"action": "continue", "command": None}),
    ],
)
def test_next_says_what_its_action_needs(answer: Envelope, told: JsonValue) -> None:
    assert told == answer.to_json()["next"]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (HttpAnswer(status=200, headers={}, final_url="https://a/", body="text"), {"body": "text"}),
        (HttpAnswer(status=200, headers={}, final_url="https://a/", body_json=[1], has_json=True), {"body_json": [1]}),
        (HttpAnswer(status=200, headers={}, final_url="https://a/", has_json=True), {"body_json": None}),
        (HttpAnswer(status=200, headers={}, final_url="https://a/", body_b64="AA=="), {"body_b64": "AA=="}),
        (HttpAnswer(status=204, headers={}, final_url="https://a/"), {}),
    ],
)  # fmt: skip
def test_an_answer_has_its_body_in_one_form(answer: HttpAnswer, body: dict[str, JsonValue]) -> None:
    told = answer.to_json()

    assert body == {name: told[name] for name in ("body", "body_json", "body_b64") if name in told}


@pytest.mark.parametrize(
    ("complete", "reasons", "words"),
    [(True, (CUT,), "complete and incomplete at once"), (False, (), "incomplete without a reason")],
)
def test_completeness_and_its_reasons_agree(
    *, complete: bool, reasons: tuple[IncompleteReason, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Completeness(complete=complete, reasons=reasons)


def test_completeness_is_told_in_full() -> None:
    told = Completeness(complete=False, truncated=True, returned=3, reasons=(CUT,), seconds=1.5).to_json()

    assert [
        {"code": "TIME_BUDGET_EXCEEDED", "message": "cut", "limit": 10, "unit": "s", "by": "broker"}
    ] == told["incomplete_reasons"]  # fmt: skip
    assert {"pages": 1, "items": None, "bytes": 0, "seconds": 1.5} == told["work"]
    assert {"resource": None, "visibility": None, "snapshot": None, "defaults": []} == told["scope"]
    assert {"kind": "none"} == told["continuation"]


def test_a_warning_lists_fields_only_where_there_are_some() -> None:
    bare = Warn(code=WarningCode.STALE_INDEX, message="old")
    full = Warn(code=WarningCode.PARTIAL_FIELD_SET, message="less", fields=({"name": "email", "why": "no_access"},))

    assert {"code": "STALE_INDEX", "message": "old"} == bare.to_json()
    assert [{"name": "email", "why": "no_access"}] == full.to_json()["fields"]


def test_a_report_of_the_gates_is_told_whole() -> None:
    gate = GateReport(vault=VaultState.READY, call=GateState.GRANTED, rules=("r1",), policy="sha256:" + "0" * 64)
    answer = replace(envelope(), gate=gate)

    assert gate.to_json() == answer.to_json()["gate"]
    assert ScrubReport().to_json() == answer.to_json()["scrub"]


def test_the_optional_parts_are_null_until_they_are_there() -> None:
    told = envelope().to_json()

    for name in ("http", "ssh", "completeness", "evidence", "effect", "operation", "diagnostics_ref", "request_id"):
        assert told[name] is None, name


def test_the_optional_parts_are_told_where_they_are_there() -> None:
    answer = Envelope(
        category=Category.SUCCESS,
        code="ok",
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.NONE,
        correlation_id=None,
        message="Done.",
        effect=Effect.READ,
        http=HttpAnswer(status=200, headers={"etag": "x"}, final_url="https://a/"),
        ssh={"exit_status": 0},
        evidence={"id": "ev_1"},
        warnings=(Warn(code=WarningCode.STALE_INDEX, message="old"),),
        completeness=Completeness(complete=True),
    )
    told = answer.to_json()

    assert told["effect"] == "read"
    assert told["ssh"] == {"exit_status": 0}
    assert told["evidence"] == {"id": "ev_1"}
    assert told["warnings"] == [{"code": "STALE_INDEX", "message": "old"}]
    for name in ("http", "completeness"):
        assert isinstance(told[name], dict), name
