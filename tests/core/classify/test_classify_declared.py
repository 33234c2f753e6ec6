from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry, WarningCode
from broker.core.policy.declarations import Delay
from broker.core.policy.model import AnswerRule, Operation, RateLimit, ReadBack
from broker.core.predicate import compile_predicate
from tests.fakes.answers import BODY, JSON, Judged, answer, classified, judged
from tests.fakes.https_calls import frozen, operation

RESET = ("x-ratelimit-remaining", "0")


def declaring(*errors: AnswerRule, rate_limit: RateLimit | None = None, write: bool = False) -> Operation:
    base = operation("things.create", method="POST", effect=Effect.WRITE) if write else operation()
    return replace(base, errors=errors, rate_limit=rate_limit)


def rule(when: str, category: Category | None = None, **changes: object) -> AnswerRule:
    return AnswerRule(when=compile_predicate(when), category=category, **changes)  # type: ignore[arg-type]  # its fields


def outcome(declared: Operation, status: int, body: bytes = b"{}", *headers: tuple[str, str]) -> Judged:
    method, sent = (declared.method, BODY) if declared.effect is Effect.WRITE else ("GET", b"")
    return judged(frozen(method=method, body=sent, declared=declared), answer(status, body, JSON, *headers))


def test_the_first_matching_rule_wins() -> None:
    declared = declaring(
        rule("status==`404`", Category.CONFIRMED_FAILURE, code="not_found"),
        rule("json.error == 'missing_scope'", Category.AUTHORIZATION_DENIED, code="scope"),
        rule("status==`200`", Category.AUTHENTICATION_FAILED),
    )

    scope = outcome(declared, 200, b'{"error": "missing_scope"}')
    assert (Category.AUTHORIZATION_DENIED, "scope", Retry.NEVER, RemoteEffect.NONE) == scope
    assert (Category.AUTHENTICATION_FAILED, "rejected", Retry.NEVER, RemoteEffect.NONE) == outcome(declared, 200)


def test_a_predicate_that_raises_does_not_match() -> None:
    declared = declaring(rule("contains(json.list || '', 'x') || status==`400`", Category.AUTHENTICATION_FAILED))

    assert Category.AUTHENTICATION_FAILED is outcome(declared, 400)[0]
    assert Category.CONFIRMED_FAILURE is outcome(declared, 400, b'{"list": 5}')[0]


@pytest.mark.parametrize(
    ("category", "read", "write"),
    [
        (Category.SUCCESS, ("ok", Retry.NEVER, RemoteEffect.NONE), ("ok", Retry.NEVER, RemoteEffect.APPLIED)),
        (
            Category.PARTIAL,
            ("incomplete", Retry.NEVER, RemoteEffect.NONE),
            ("incomplete", Retry.NEVER, RemoteEffect.UNKNOWN),
        ),
        (
            Category.MALFORMED_RESPONSE,
            ("schema", Retry.NEVER, RemoteEffect.NONE),
            ("schema", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN),
        ),
        (
            Category.OUTCOME_UNKNOWN,
            ("server_error", Retry.BOUNDED, RemoteEffect.NONE),
            ("server_error", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN),
        ),
        (
            Category.VAULT_LOCKED,
            ("declared", Retry.NEVER, RemoteEffect.NONE),
            ("declared", Retry.NEVER, RemoteEffect.NONE),
        ),
    ],
)
def test_what_a_rule_leaves_open_follows_from_its_category(
    category: Category, read: tuple[str, Retry, RemoteEffect], write: tuple[str, Retry, RemoteEffect]
) -> None:
    assert read == outcome(declaring(rule("status==`400`", category)), 400)[1:]
    assert write == outcome(declaring(rule("status==`400`", category), write=True), 400)[1:]


def test_a_rule_may_set_retry_effect_and_code() -> None:
    declined = rule(
        "status==`402`",
        Category.CONFIRMED_FAILURE,
        code="conflict",
        retry=Retry.AFTER_HUMAN,
        remote_effect=RemoteEffect.APPLIED,
    )

    expected = (Category.CONFIRMED_FAILURE, "conflict", Retry.AFTER_HUMAN, RemoteEffect.APPLIED)
    assert expected == outcome(declaring(declined, write=True), 402)
    assert RemoteEffect.NONE is outcome(declaring(declined), 402)[3]


def test_a_code_of_another_category_is_not_used() -> None:
    assert "declared" == outcome(declaring(rule("status==`400`", Category.CONFIRMED_FAILURE, code="ok")), 400)[1]


@pytest.mark.parametrize("retry", [Retry.BOUNDED, Retry.AFTER_DELAY])
def test_no_rule_lets_a_write_of_unknown_effect_be_repeated(retry: Retry) -> None:
    unknown = rule("status==`500`", Category.OUTCOME_UNKNOWN, retry=retry)
    declared = declaring(unknown, write=True)
    read_back = replace(declared, reconcile=ReadBack(operation="things.list", args={}, match="json"))

    assert Retry.AFTER_HUMAN is outcome(declared, 500)[2]
    assert Retry.RECONCILE_FIRST is outcome(read_back, 500)[2]
    assert retry is outcome(declaring(unknown), 500)[2]


def test_a_declared_delay_is_told() -> None:
    declared = declaring(rule("status==`409`", Category.CONFIRMED_FAILURE, retry=Retry.AFTER_DELAY, floor_s=5))
    verdict = classified(frozen(declared=declared), answer(409, b"{}", JSON, ("retry-after", "3"))).verdict

    assert (Retry.AFTER_DELAY, 5) == (verdict.retry, verdict.retry_after_s)


def limited(declared: Operation, status: int, body: bytes, *headers: tuple[str, str]) -> tuple[Category, int | None]:
    verdict = classified(frozen(declared=declared), answer(status, body, JSON, *headers)).verdict
    return verdict.category, verdict.retry_after_s


def test_a_rule_may_hand_over_to_the_rate_limit() -> None:
    secondary = rule("contains(json.message || '', 'secondary')", use_rate_limit=True, floor_s=60)
    direct = rule("status==`418`", Category.RATE_LIMITED, floor_s=20)

    assert (Category.RATE_LIMITED, 60) == limited(declaring(secondary), 403, b'{"message": "secondary limit"}')
    assert (Category.RATE_LIMITED, 60) == limited(declaring(direct), 418, b"{}")


LIMIT = RateLimit(
    when=compile_predicate("status==`429` || headers.\"x-ratelimit-remaining\"=='0'"),
    delays=(Delay(path="headers.retry-after", kind="http_retry_after"),),
    default_s=30,
    max_wait_s=900,
)


def test_the_last_allowed_call_is_a_success() -> None:
    declared = declaring(rate_limit=LIMIT)

    assert (Category.SUCCESS, None) == limited(declared, 200, b'{"id": 1}', RESET)
    assert (Category.RATE_LIMITED, 30) == limited(declared, 403, b"{}", RESET)
    assert (Category.AUTHORIZATION_DENIED, None) == limited(declared, 403, b"{}")


def test_a_limit_inside_a_good_status_needs_the_success_predicate() -> None:
    declared = replace(
        declaring(rate_limit=replace(LIMIT, when=compile_predicate("json.errors[0].type=='RATE_LIMITED'"))),
        success_when=compile_predicate("json.errors == `null`"),
    )

    assert (Category.RATE_LIMITED, 30) == limited(declared, 200, b'{"errors": [{"type": "RATE_LIMITED"}]}')


def test_a_wait_above_the_ceiling_is_for_a_human() -> None:
    declared = declaring(rate_limit=LIMIT)
    verdict = classified(frozen(declared=declared), answer(429, b"{}", JSON, ("retry-after", "86400"))).verdict

    assert (Retry.AFTER_HUMAN, None) == (verdict.retry, verdict.retry_after_s)
    assert "86400 s" in verdict.message


def test_a_wait_that_can_not_be_read_is_warned_of() -> None:
    seen = classified(frozen(), answer(429, b"{}", JSON, ("retry-after", "-3")))

    assert (60, [WarningCode.UNTRUSTED_RETRY_AFTER]) == (
        seen.verdict.retry_after_s, [warning.code for warning in seen.warnings]
    )  # fmt: skip
    assert () == classified(frozen(), answer(429, b"{}")).warnings


def test_the_rule_that_decides_says_what_it_warns_of() -> None:
    hidden = rule("status==`404`", Category.CONFIRMED_FAILURE, warn=(WarningCode.NOT_FOUND_MAY_BE_HIDDEN,))
    told = classified(frozen(declared=declaring(hidden)), answer(404, b"{}", JSON))

    assert [WarningCode.NOT_FOUND_MAY_BE_HIDDEN] == [warning.code for warning in told.warnings]
    assert "credential" in told.warnings[0].message


def test_a_rule_that_does_not_decide_warns_of_nothing() -> None:
    notice = rule("status==`404`", Category.CONFIRMED_FAILURE, warn=(WarningCode.PROVIDER_NOTICE,))
    fine = classified(frozen(declared=declaring(notice)), answer(200, b"{}", JSON))
    noticed = classified(frozen(declared=declaring(notice)), answer(404, b"{}", JSON))

    assert () == fine.warnings
    assert ["The upstream sends a notice with its answer."] == [warning.message for warning in noticed.warnings]
