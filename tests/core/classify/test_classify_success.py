from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry, WarningCode
from broker.core.outcome import RawOutcome
from broker.core.policy.declarations import Async, Delay, ResponseSchema
from broker.core.policy.model import Identity, Operation
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


def keeping(**declared: object) -> Operation:
    return replace(operation("things.get"), **declared)  # type: ignore[arg-type]  # fields of an operation


SCHEMA = ResponseSchema(text='{"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}')
TEXT = ("content-type", "text/plain")
XML = ("content-type", "application/xml")
IS_A = compile_predicate("xml.a=='b'")


@pytest.mark.parametrize(
    ("declared", "raw", "code"),
    [
        (keeping(response_schema=SCHEMA), answer(200, b'{"status": "x"}'), "ok"),
        (keeping(response_schema=SCHEMA), answer(200, b'{"status": 7}'), "schema"),
        (keeping(response_schema=SCHEMA), answer(200, b"x", TEXT), "schema"),
        (keeping(response_schema=SCHEMA), answer(200, b""), "empty"),
        (keeping(response_schema=SCHEMA), answer(200, b'{"status": "x", "l": [' + b"0," * 100_000 + b"0]}"), "schema"),
        (keeping(body_required=True), answer(200, b""), "empty"),
        (keeping(end_marker="END"), answer(200, b"some END\n", TEXT), "ok"),
        (keeping(end_marker="END"), answer(200, b"some EN", TEXT), "truncated"),
        (keeping(media=("json",)), answer(200, b"{}", TEXT), "media_type"),
        (keeping(media=("json",), lenient_media=True), answer(200, b"{}", TEXT), "ok"),
        (keeping(media=("json",), lenient_media=True), answer(200, b"<h1>", HTML), "media_type"),
        (keeping(media=("xml",), success_when=IS_A), answer(200, b"<a>b</a>", XML), "ok"),
        (keeping(media=("xml",), success_when=IS_A), answer(200, b"<a>c</a>", XML), "schema"),
        (keeping(media=("xml",)), answer(200, b"<a>", XML), "decoding"),
        (keeping(media=("xml",)), answer(200, b"{}"), "media_type"),
        (keeping(), answer(200, b"<a>", XML), "ok"),
    ],
)
def test_an_answer_is_held_to_each_promise(declared: Operation, raw: RawOutcome, code: str) -> None:
    assert code == classified(frozen(declared=declared), raw).verdict.code


@pytest.mark.parametrize(("id_", "code"), [("7", "ok"), (7, "ok"), (8, "identity"), (None, "ok")])
def test_an_answer_is_about_what_was_asked_for(id_: object, code: str) -> None:
    declared = keeping(identity=Identity(path="json.id", type="integer", must_equal="id"))
    args = {} if id_ is None else {"id": id_}

    assert code == classified(frozen(declared=declared, args=args), answer(200, b'{"id": 7}')).verdict.code  # type: ignore[arg-type]  # arguments of a request


DONE = compile_predicate("json.state=='done'")
DIED = compile_predicate("json.state=='failed'")
SLOW = Async(
    poll=("headers.operation", "headers.location"),
    done_when=DONE,
    failed_when=DIED,
    delay=(Delay(path="headers.retry-after", kind="http_retry_after"),),
    default_s=4,
)


@pytest.mark.parametrize(
    ("slow", "raw", "told"),
    [
        (SLOW, answer(200, b'{"state": "done"}'), "success ok None"),
        (SLOW, answer(202, b'{"state": "running"}'), "partial accepted 4"),
        (SLOW, answer(200, b"{}", JSON, ("retry-after", "9")), "partial accepted 9"),
        (SLOW, answer(200, b'{"state": "failed"}'), "confirmed_failure declared None"),
        (Async(), answer(200, b"{}"), "success ok None"),
        (Async(), answer(202, b"{}"), "partial accepted 10"),
    ],
)
def test_work_that_goes_on_is_not_called_done(slow: Async, raw: RawOutcome, told: str) -> None:
    verdict = classified(frozen(declared=keeping(asynchronous=slow)), raw).verdict

    assert told == f"{verdict.category.value} {verdict.code} {verdict.retry_after_s}"


def test_work_that_failed_later_may_have_been_done_in_part() -> None:
    declared = replace(CREATE, asynchronous=SLOW, success_statuses=())
    verdict = classified(
        frozen(method="POST", body=BODY, declared=declared), answer(200, b'{"state": "failed"}')
    ).verdict

    assert (Category.CONFIRMED_FAILURE, Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == (
        verdict.category, verdict.retry, verdict.remote_effect,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "cursor"),
    [
        ([("operation", "https://api.example.com/ops/1")], "https://api.example.com/ops/1"),
        ([("location", "/ops/2")], "https://api.example.com/ops/2"),
        ([("operation", "https://other.example.com/ops/1")], None),
        ([], None),
    ],
)
def test_where_to_look_again_is_told_only_on_the_same_origin(
    headers: list[tuple[str, str]], cursor: str | None
) -> None:
    seen = classified(frozen(declared=keeping(asynchronous=SLOW)), answer(202, b"{}", JSON, *headers))

    assert seen.completeness is not None
    assert (cursor, {"kind": "retry_after", "after_s": 4}) == (
        seen.completeness.next_cursor, seen.completeness.continuation,
    )  # fmt: skip


def test_an_answer_to_another_request_proves_nothing_of_ours() -> None:
    declared = replace(CREATE, identity=Identity(path="json.id", must_equal="id"), success_statuses=(200,))
    request = frozen(method="POST", body=BODY, declared=declared, args={"id": "42"})
    effects = [
        classified(request, answer(200, body)).verdict.remote_effect for body in (b'{"id": "41"}', b'{"id": null}')
    ]

    assert [RemoteEffect.UNKNOWN, RemoteEffect.UNKNOWN] == effects
