"""What an operation declares of repeats, in the verdicts on its answers."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import Auth, Idempotency, IdempotencyKind
from broker.core.predicate import compile_predicate
from tests.fakes.answers import JSON, answer, classified
from tests.fakes.https_calls import frozen, operation

SIGN = compile_predicate("json.code == 'sign'")
SHOWN = b'{"code": "sign"}'
IN_PROGRESS = (Category.OUTCOME_UNKNOWN, "in_progress_conflict")


def judged(raw: RawOutcome, *, method: str = "POST", prior: bool = False, auth: Auth | None = None, **more: Any) -> Any:
    declared = replace(
        operation(method=method, effect=Effect.WRITE), idempotency=Idempotency(**more), auth=auth or Auth()
    )
    return classified(frozen(method=method, declared=declared), raw, prior_doubt=prior).verdict


def key(**more: Any) -> dict[str, Any]:
    return {"kind": IdempotencyKind.KEY, "header": "idempotency-key", "window_s": 3600, **more}


@pytest.mark.parametrize(
    ("rules", "retry", "wait_s"),
    [
        ({"in_progress_when": SIGN}, Retry.AFTER_HUMAN, None),
        ({"in_progress_when": SIGN, "kind": IdempotencyKind.NATURAL}, Retry.AFTER_HUMAN, None),
        (key(in_progress_when=SIGN), Retry.AFTER_DELAY, 60),
        (key(in_progress_when=SIGN, replay_forbidden=True), Retry.AFTER_HUMAN, None),
        (key(mismatch_when=SIGN), Retry.AFTER_HUMAN, None),
        ({"mismatch_when": SIGN}, Retry.AFTER_HUMAN, None),
    ],
)
def test_a_sign_of_another_request_like_it_settles_nothing(
    rules: dict[str, Any], retry: Retry, wait_s: int | None
) -> None:
    verdict = judged(answer(409, SHOWN, JSON), **rules)

    assert (*IN_PROGRESS, retry, wait_s) == (verdict.category, verdict.code, verdict.retry, verdict.retry_after_s)
    assert RemoteEffect.UNKNOWN is verdict.remote_effect


@pytest.mark.parametrize(
    ("rules", "body", "retry"),
    [
        (key(), b"{}", Retry.BOUNDED),
        (key(replays_errors=True), b"{}", Retry.AFTER_HUMAN),
        (key(replay_ok_when=SIGN), b"{}", Retry.AFTER_HUMAN),
        (key(replay_ok_when=SIGN, replays_errors=True), SHOWN, Retry.BOUNDED),
        ({"kind": IdempotencyKind.NATURAL}, b"{}", Retry.BOUNDED),
        ({}, b"{}", Retry.AFTER_HUMAN),
    ],
)
def test_an_error_that_settles_nothing_may_be_sent_again_where_the_operation_says_so(
    rules: dict[str, Any], body: bytes, retry: Retry
) -> None:
    verdict = judged(answer(500, body, JSON), **rules)

    assert (Category.OUTCOME_UNKNOWN, retry, RemoteEffect.UNKNOWN) == (
        verdict.category, verdict.retry, verdict.remote_effect
    )  # fmt: skip


@pytest.mark.parametrize(("prior", "effect"), [(False, RemoteEffect.NONE), (True, RemoteEffect.APPLIED)])
@pytest.mark.parametrize("status", [404, 410])
def test_what_is_not_there_is_deleted_where_that_is_declared(status: int, effect: RemoteEffect, *, prior: bool) -> None:
    verdict = judged(answer(status), method="DELETE", prior=prior, absent_is_success=True)

    assert (Category.SUCCESS, effect) == (verdict.category, verdict.remote_effect)


def test_what_may_be_hidden_is_not_called_deleted() -> None:
    verdict = judged(answer(404), method="DELETE", absent_is_success=True, auth=Auth(masked_statuses=(404,)))

    assert (Category.CONFIRMED_FAILURE, "not_found") == (verdict.category, verdict.code)


def test_only_a_deletion_is_done_by_absence() -> None:
    assert Category.CONFIRMED_FAILURE is judged(answer(404), method="PUT", absent_is_success=True).category


def test_what_is_gone_after_a_deletion_of_ours_in_doubt_may_be_gone_by_it() -> None:
    verdict = judged(answer(404), method="DELETE", prior=True)

    assert (*IN_PROGRESS, RemoteEffect.UNKNOWN) == (verdict.category, verdict.code, verdict.remote_effect)
    assert Category.CONFIRMED_FAILURE is judged(answer(404), method="PUT", prior=True).category
