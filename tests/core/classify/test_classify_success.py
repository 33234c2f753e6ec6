from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry, WarningCode
from broker.core.policy.model import Identity
from broker.core.predicate import compile_predicate
from tests.fakes.answers import BODY, DATE, HTML, JSON, READ, WRITE, answer, classified, judged
from tests.fakes.https_calls import frozen, operation

CREATE = replace(
    operation("things.create", method="POST", effect=Effect.WRITE),
    success_statuses=(201,),
    media=("json",),
    identity=Identity(path="json.number", type="integer"),
)


CREATED = frozen(method="POST", body=BODY, declared=CREATE)


def test_an_undeclared_success_is_one_by_its_status() -> None:
    assert (Category.SUCCESS, "ok", Retry.NEVER, RemoteEffect.NONE) == judged(READ, answer())
    assert (Category.SUCCESS, "ok", Retry.NEVER, RemoteEffect.APPLIED) == judged(WRITE, answer(201))


def test_a_declared_success_carries_its_identity() -> None:
    seen = classified(CREATED, answer(201, b'{"number": 7}'))

    assert (Category.SUCCESS, RemoteEffect.APPLIED, 7) == (
        seen.verdict.category, seen.verdict.remote_effect, seen.identity
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "code", "effect"),
    [
        (200, b'{"number": 7}', "schema", RemoteEffect.UNKNOWN),
        (204, b"", "schema", RemoteEffect.APPLIED),
        (201, b"", "empty", RemoteEffect.APPLIED),
        (201, b"{}", "identity", RemoteEffect.APPLIED),
        (201, b'{"number": "7"}', "identity", RemoteEffect.APPLIED),
        (201, b'{"number": true}', "identity", RemoteEffect.APPLIED),
        (201, b'{"number": null}', "identity", RemoteEffect.APPLIED),
        (201, b'{"number": {"v": 7}}', "identity", RemoteEffect.APPLIED),
        (201, b'{"number": 7, "number": 8}', "decoding", RemoteEffect.APPLIED),
        (201, b'{"numb', "decoding", RemoteEffect.APPLIED),
    ],
)
def test_a_broken_promise_is_malformed_and_the_status_tells_the_effect(
    status: int, body: bytes, code: str, effect: RemoteEffect
) -> None:
    verdict = judged(CREATED, answer(status, body))

    assert (Category.MALFORMED_RESPONSE, code, Retry.AFTER_HUMAN, effect) == verdict


def test_a_plain_200_that_was_declared_proves_the_effect_when_it_came_whole() -> None:
    declared = replace(CREATE, success_statuses=(200,))
    request = frozen(method="POST", body=BODY, declared=declared)

    assert RemoteEffect.APPLIED is judged(request, answer(200, b"{}"))[3]
    assert RemoteEffect.UNKNOWN is judged(request, answer(200, b""))[3]
    assert RemoteEffect.UNKNOWN is judged(request, answer(200, b"{", JSON))[3]


@pytest.mark.parametrize(("value", "identity"), [(b'"it_7"', "it_7"), (b'""', None), (b"7", None), (b"[]", None)])
def test_an_identity_of_text_is_text(value: bytes, identity: str | None) -> None:
    declared = replace(CREATE, identity=Identity(path="json.id"))
    request = frozen(method="POST", body=BODY, declared=declared)

    assert identity == classified(request, answer(201, b'{"id": ' + value + b"}")).identity


@pytest.mark.parametrize(
    ("declared", "media", "fits"),
    [
        ("json", "application/json; charset=utf-8", True),
        ("json", "application/problem+json", True),
        ("json", "text/html", False),
        ("+json", "application/vnd.api+json", True),
        ("+xml", "application/json", False),
        ("text", "text/csv", True),
        ("text/*", "text/csv", True),
        ("text/csv", "text/csv", True),
        ("Text/CSV", "text/csv", True),
        ("text/csv", "text/plain", False),
        ("application/json", "nonsense", False),
    ],
)
def test_the_media_type_is_the_declared_one(declared: str, media: str, fits: bool) -> None:  # noqa: FBT001
    request = frozen(declared=replace(operation(), media=("image/png", declared)))
    verdict = judged(request, answer(200, b"{}", ("content-type", media)))

    assert (Category.SUCCESS if fits else Category.MALFORMED_RESPONSE) is verdict[0]
    assert ("ok" if fits else "media_type") == verdict[1]


def test_a_sign_in_page_under_200_is_no_answer() -> None:
    request = frozen(declared=replace(operation(), media=("json",)))

    assert (Category.MALFORMED_RESPONSE, "media_type", Retry.NEVER, RemoteEffect.NONE) == judged(
        request, answer(200, b"<!doctype html><title>Sign in</title>", HTML)
    )


def test_an_empty_body_is_fine_where_none_is_promised() -> None:
    text = frozen(declared=replace(operation(), media=("text",)))

    assert Category.SUCCESS is judged(text, answer(200, b"", ("content-type", "text/plain")))[0]
    assert Category.SUCCESS is judged(WRITE, answer(204, b""))[0]
    assert Category.SUCCESS is judged(READ, answer(205, b""))[0]


def test_a_success_predicate_has_to_hold_and_one_that_raises_does_not() -> None:
    fails = frozen(declared=replace(operation(), success_when=compile_predicate("json.ok == `true`")))
    raises = frozen(declared=replace(operation(), success_when=compile_predicate("contains(json.list || '', 'x')")))

    assert Category.SUCCESS is judged(fails, answer(200, b'{"ok": true}'))[0]
    assert (Category.MALFORMED_RESPONSE, "schema") == judged(fails, answer(200, b'{"ok": false}'))[:2]
    assert (Category.MALFORMED_RESPONSE, "schema") == judged(raises, answer(200, b'{"list": 5}'))[:2]


@pytest.mark.parametrize("status", [302, 404])
def test_a_status_that_is_declared_as_success_is_one(status: int) -> None:
    request = frozen(
        method="DELETE",
        declared=replace(operation(method="DELETE", effect=Effect.WRITE), success_statuses=(200, status)),
    )

    assert (Category.SUCCESS, "ok", Retry.NEVER, RemoteEffect.APPLIED) == judged(request, answer(status))


def test_accepted_is_not_finished() -> None:
    write = classified(WRITE, answer(202, b"{}", JSON, ("retry-after", "5")))

    assert (Category.PARTIAL, "accepted", Retry.AFTER_DELAY, RemoteEffect.UNKNOWN, 5) == (
        write.verdict.category,
        write.verdict.code,
        write.verdict.retry,
        write.verdict.remote_effect,
        write.verdict.retry_after_s,
    )
    assert 10 == classified(READ, answer(202)).verdict.retry_after_s
    assert RemoteEffect.NONE is judged(READ, answer(202))[3]


def test_accepted_work_is_not_asked_for_again() -> None:
    assert "do not send it again" in classified(WRITE, answer(202)).verdict.message
    assert "again" not in classified(READ, answer(202)).verdict.message


def test_a_poll_further_off_than_the_ceiling_is_for_a_human() -> None:
    verdict = classified(WRITE, answer(202, b"", JSON, ("retry-after", "90000"))).verdict

    assert (Retry.AFTER_HUMAN, None) == (verdict.retry, verdict.retry_after_s)


def test_accepted_is_a_success_where_it_is_declared_as_one() -> None:
    declared = replace(operation(method="POST", effect=Effect.WRITE), success_statuses=(202,))

    assert Category.SUCCESS is judged(frozen(method="POST", body=BODY, declared=declared), answer(202))[0]


def test_head_is_held_to_no_body() -> None:
    declared = replace(operation(method="HEAD"), media=("json",), identity=Identity(path="json.id"))

    assert Category.SUCCESS is judged(frozen(method="HEAD", declared=declared), answer(200, b""))[0]


def test_a_byte_order_mark_is_warned_of() -> None:
    seen = classified(WRITE, answer(200, b'\xef\xbb\xbf{"id": "1"}'))

    assert (Category.SUCCESS, [WarningCode.NORMALIZED_BODY]) == (
        seen.verdict.category, [warning.code for warning in seen.warnings]
    )  # fmt: skip


def test_a_clock_that_is_far_off_is_named_where_credentials_fail() -> None:
    off = ("date", "Sun, 29 Nov 2026 11:00:00 GMT")

    assert [WarningCode.CLOCK_SKEW_SUSPECTED] == [
        warning.code for warning in classified(READ, answer(401, b"{}", JSON, off)).warnings
    ]
    assert () == classified(READ, answer(401, b"{}", JSON, ("date", DATE))).warnings
    assert () == classified(READ, answer(200, b"{}", JSON, off)).warnings
