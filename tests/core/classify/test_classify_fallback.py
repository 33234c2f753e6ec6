from itertools import product

import pytest

from broker.contract.reasons import CODES, Category, RemoteEffect, Retry
from tests.fakes.answers import HTML, JSON, READ, WRITE, answer, classified, judged
from tests.fakes.https_calls import frozen

FOR_BOTH = [
    (400, Category.CONFIRMED_FAILURE, "client_error", Retry.NEVER),
    (401, Category.AUTHENTICATION_FAILED, "rejected", Retry.NEVER),
    (403, Category.AUTHORIZATION_DENIED, "forbidden", Retry.NEVER),
    (404, Category.CONFIRMED_FAILURE, "not_found", Retry.NEVER),
    (405, Category.CONFIRMED_FAILURE, "client_error", Retry.NEVER),
    (407, Category.LOCAL_FAILURE, "proxy_auth", Retry.AFTER_HUMAN),
    (408, Category.CONFIRMED_FAILURE, "client_error", Retry.BOUNDED),
    (409, Category.CONFIRMED_FAILURE, "conflict", Retry.NEVER),
    (410, Category.CONFIRMED_FAILURE, "not_found", Retry.NEVER),
    (412, Category.CONFIRMED_FAILURE, "precondition", Retry.NEVER),
    (413, Category.CONFIRMED_FAILURE, "client_error", Retry.NEVER),
    (422, Category.CONFIRMED_FAILURE, "client_error", Retry.NEVER),
    (425, Category.CONFIRMED_FAILURE, "client_error", Retry.BOUNDED),
    (428, Category.CONFIRMED_FAILURE, "precondition", Retry.NEVER),
    (429, Category.RATE_LIMITED, "too_many", Retry.AFTER_DELAY),
    (498, Category.CONFIRMED_FAILURE, "client_error", Retry.NEVER),
    (511, Category.LOCAL_FAILURE, "captive_portal", Retry.AFTER_HUMAN),
    (301, Category.CONFIRMED_FAILURE, "redirect_not_followed", Retry.NEVER),
    (302, Category.CONFIRMED_FAILURE, "redirect_not_followed", Retry.NEVER),
    (307, Category.CONFIRMED_FAILURE, "redirect_not_followed", Retry.NEVER),
    (308, Category.CONFIRMED_FAILURE, "redirect_not_followed", Retry.NEVER),
]


@pytest.mark.parametrize(("status", "category", "code", "retry"), FOR_BOTH)
def test_a_status_means_the_same_for_reads_and_writes(status: int, category: Category, code: str, retry: Retry) -> None:
    expected = (category, code, retry, RemoteEffect.NONE)

    assert expected == judged(READ, answer(status))
    assert expected == judged(WRITE, answer(status))


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 520, 599, 700, 999, 99, 0, 460, 499])
def test_a_server_error_settles_a_read_and_never_a_write(status: int) -> None:
    read = judged(READ, answer(status, b"<h1>Oops</h1>", HTML))
    write = judged(WRITE, answer(status, b"<h1>Oops</h1>", HTML, ("retry-after", "3")))

    assert (Category.CONFIRMED_FAILURE, "remote_error", Retry.BOUNDED, RemoteEffect.NONE) == read
    assert (Category.OUTCOME_UNKNOWN, "server_error", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == write


def test_a_read_waits_as_a_failing_server_asks() -> None:
    verdict = classified(READ, answer(503, b"", HTML, ("retry-after", "300"))).verdict

    assert (Category.CONFIRMED_FAILURE, Retry.AFTER_DELAY, 300) == (
        verdict.category, verdict.retry, verdict.retry_after_s
    )  # fmt: skip


def test_no_read_waits_longer_than_the_ceiling() -> None:
    verdict = classified(READ, answer(503, b"", HTML, ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"))).verdict

    assert (Retry.AFTER_HUMAN, None) == (verdict.retry, verdict.retry_after_s)


@pytest.mark.parametrize("status", [409, 412])
def test_a_conflict_after_a_doubtful_attempt_may_be_that_attempt(status: int) -> None:
    doubted = judged(WRITE, answer(status), prior_doubt=True)

    assert (Category.OUTCOME_UNKNOWN, "in_progress_conflict", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == doubted
    assert Category.CONFIRMED_FAILURE is judged(READ, answer(status), prior_doubt=True)[0]


def test_a_see_other_may_follow_a_change() -> None:
    assert RemoteEffect.UNKNOWN is judged(WRITE, answer(303))[3]
    assert RemoteEffect.NONE is judged(READ, answer(303))[3]
    assert "change that was made" in classified(WRITE, answer(303)).verdict.message


def test_not_modified_is_a_good_answer_to_a_read_and_none_to_a_write() -> None:
    assert (Category.SUCCESS, "ok", Retry.NEVER, RemoteEffect.NONE) == judged(READ, answer(304, b""))
    assert "redirect_not_followed" == judged(WRITE, answer(304, b""))[1]


def test_the_location_of_a_redirect_is_shown_and_not_followed() -> None:
    seen = classified(READ, answer(302, b"", JSON, ("location", "https://other.example.com/"))).answer

    assert seen is not None
    assert "https://other.example.com/" == seen.headers["location"]


def test_no_status_leaves_the_contract() -> None:
    for status, request in product(range(200, 600), (READ, WRITE, frozen(method="HEAD"))):
        verdict = classified(request, answer(status)).verdict
        assert verdict.code in CODES[verdict.category]
        assert request.is_write or verdict.remote_effect is RemoteEffect.NONE
