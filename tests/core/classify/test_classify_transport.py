from dataclasses import replace
from itertools import product

import pytest

from broker.contract.reasons import CODES, Category, Effect, RemoteEffect, Retry
from broker.contract.result import MESSAGE_LIMIT
from broker.core.outcome import Fault, Phase
from broker.core.policy.model import ReadBack
from tests.fakes.answers import BODY, HTML, JSON, READ, WRITE, answer, classified, cut, judged, lost
from tests.fakes.https_calls import frozen, operation

RECONCILABLE = replace(
    operation("things.create", method="POST", effect=Effect.WRITE),
    reconcile=ReadBack(operation="things.list", args={}, match="json[?title==$title]"),
)
RECONCILED = frozen(method="POST", body=BODY, declared=RECONCILABLE)

NOT_SENT = [
    (Fault.DNS_FAILED, "dns_failed", Retry.BOUNDED),
    (Fault.CONNECT_REFUSED, "connect_refused", Retry.BOUNDED),
    (Fault.CONNECT_TIMEOUT, "connect_timeout", Retry.BOUNDED),
    (Fault.TOTAL_TIMEOUT, "connect_timeout", Retry.BOUNDED),
    (Fault.CONNECT_FAILED, "connect_failed", Retry.BOUNDED),
    (Fault.CONNECTION_LOST, "connect_failed", Retry.BOUNDED),
    (Fault.TLS_FAILED, "tls_failed", Retry.BOUNDED),
    (Fault.TLS_UNTRUSTED, "tls_untrusted", Retry.AFTER_HUMAN),
    (Fault.TLS_NAME, "tls_name", Retry.AFTER_HUMAN),
    (Fault.TLS_EXPIRED, "tls_expired", Retry.AFTER_HUMAN),
    (Fault.ADDRESS_REFUSED, "address_refused", Retry.AFTER_HUMAN),
]


@pytest.mark.parametrize(("fault", "code", "retry"), NOT_SENT)
@pytest.mark.parametrize("request_", [READ, WRITE, RECONCILED], ids=["read", "write", "reconcilable"])
def test_before_the_first_byte_nothing_happened(request_: object, fault: Fault, code: str, retry: Retry) -> None:
    for phase in (Phase.APPROVED, Phase.CONNECTING, Phase.CONNECTED):
        verdict = judged(request_, lost(fault, phase))  # type: ignore[arg-type]  # the three above
        assert (Category.LOCAL_FAILURE, code, retry, RemoteEffect.NONE) == verdict


def test_our_own_fault_before_dispatch_is_no_failure_of_the_upstream() -> None:
    expected = (Category.BROKER_UNAVAILABLE, "internal", Retry.AFTER_HUMAN, RemoteEffect.NONE)

    assert expected == judged(WRITE, lost(Fault.INTERNAL, Phase.APPROVED))
    assert expected == judged(READ, lost(None, Phase.BUILT))


UNSETTLED = [
    (Fault.WRITE_TIMEOUT, Phase.HEADERS_SENT, "write_timeout"),
    (Fault.FIRST_BYTE_TIMEOUT, Phase.BODY_SENT, "first_byte_timeout"),
    (Fault.TOTAL_TIMEOUT, Phase.HEADERS_SENT, "total_timeout"),
    (Fault.CONNECTION_LOST, Phase.HEADERS_SENT, "connection_lost"),
    (Fault.CONNECTION_LOST, Phase.BODY_SENT, "connection_lost"),
    (Fault.CONNECT_FAILED, Phase.BODY_SENT, "connection_lost"),
]


@pytest.mark.parametrize(("fault", "phase", "code"), UNSETTLED)
def test_after_it_only_an_answer_settles_a_write(fault: Fault, phase: Phase, code: str) -> None:
    unknown = Category.OUTCOME_UNKNOWN

    assert (unknown, code, Retry.BOUNDED, RemoteEffect.NONE) == judged(READ, lost(fault, phase))
    assert (unknown, code, Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == judged(WRITE, lost(fault, phase))
    assert (unknown, code, Retry.RECONCILE_FIRST, RemoteEffect.UNKNOWN) == judged(RECONCILED, lost(fault, phase))


def test_the_message_to_an_unsettled_write_says_what_may_have_happened() -> None:
    for fault, phase, _ in UNSETTLED:
        assert "may have been made" in classified(WRITE, lost(fault, phase)).verdict.message
        assert "may have been made" not in classified(READ, lost(fault, phase)).verdict.message


def test_our_own_fault_after_dispatch_leaves_a_write_unknown() -> None:
    unavailable = Category.BROKER_UNAVAILABLE

    assert (unavailable, "internal", Retry.AFTER_HUMAN, RemoteEffect.NONE) == judged(READ, lost(Fault.INTERNAL))
    assert (unavailable, "internal", Retry.RECONCILE_FIRST, RemoteEffect.UNKNOWN) == judged(
        RECONCILED, lost(Fault.INTERNAL)
    )
    assert (unavailable, "internal", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == judged(WRITE, lost(None))


CHUNKED = ("transfer-encoding", "chunked")


@pytest.mark.parametrize(
    ("status", "headers", "effect"),
    [
        (201, (JSON,), RemoteEffect.APPLIED),
        (200, (JSON,), RemoteEffect.UNKNOWN),
        (201, (JSON, CHUNKED), RemoteEffect.UNKNOWN),
        (200, (JSON, CHUNKED), RemoteEffect.UNKNOWN),
        (404, (JSON,), RemoteEffect.UNKNOWN),
    ],
)
def test_a_cut_answer_proves_the_effect_only_by_a_status_that_means_done(
    status: int, headers: tuple[tuple[str, str], ...], effect: RemoteEffect
) -> None:
    malformed = Category.MALFORMED_RESPONSE

    for fault in (Fault.TRUNCATED, Fault.CONNECTION_LOST):
        raw = cut(status, fault, *headers)
        assert (malformed, "truncated", Retry.BOUNDED, RemoteEffect.NONE) == judged(READ, raw)
        assert (malformed, "truncated", Retry.RECONCILE_FIRST, effect) == judged(RECONCILED, raw)


@pytest.mark.parametrize(
    ("fault", "code", "retry"),
    [
        (Fault.FRAMING, "framing", Retry.BOUNDED),
        (Fault.DECODING, "decoding", Retry.NEVER),
        (Fault.TOO_LARGE, "too_large", Retry.NEVER),
        (Fault.DNS_FAILED, "framing", Retry.BOUNDED),
    ],
)
def test_a_broken_answer_is_malformed(fault: Fault, code: str, retry: Retry) -> None:
    verdict = judged(READ, cut(200, fault))

    assert (Category.MALFORMED_RESPONSE, code, retry, RemoteEffect.NONE) == verdict


def test_framing_that_gave_no_status_is_malformed_too() -> None:
    malformed = Category.MALFORMED_RESPONSE

    assert (malformed, "framing", Retry.BOUNDED, RemoteEffect.NONE) == judged(READ, lost(Fault.FRAMING))
    assert (malformed, "framing", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == judged(WRITE, lost(Fault.FRAMING))


def test_a_deadline_within_the_body_leaves_the_outcome_unknown() -> None:
    verdict = judged(RECONCILED, cut(201, Fault.TOTAL_TIMEOUT))

    assert (Category.OUTCOME_UNKNOWN, "total_timeout", Retry.RECONCILE_FIRST, RemoteEffect.UNKNOWN) == verdict


@pytest.mark.parametrize("fault", [Fault.TOO_LARGE, Fault.DECODING])
def test_an_error_status_stands_when_only_its_body_is_unusable(fault: Fault) -> None:
    raw = cut(403, fault, HTML)

    assert Category.AUTHORIZATION_DENIED is judged(WRITE, raw)[0]
    seen = classified(WRITE, raw).answer
    assert seen is not None
    assert (None, False) == (seen.body, seen.has_json)


def test_an_early_rejection_stands_and_an_early_success_does_not() -> None:
    early = len(BODY) - 1
    refused = judged(WRITE, answer(413, b"", sent_bytes=early))
    accepted = judged(RECONCILED, answer(201, sent_bytes=early))

    assert (Category.CONFIRMED_FAILURE, "client_error", Retry.NEVER, RemoteEffect.NONE) == refused
    assert (Category.MALFORMED_RESPONSE, "framing", Retry.RECONCILE_FIRST, RemoteEffect.UNKNOWN) == accepted


def test_a_time_out_for_an_idle_connection_answers_no_write() -> None:
    crossed = answer(408, b"", sent_bytes=0)

    assert (Category.OUTCOME_UNKNOWN, "connection_lost", Retry.AFTER_HUMAN, RemoteEffect.UNKNOWN) == judged(
        WRITE, crossed
    )
    read_with_body = frozen(method="POST", body=BODY, effect=Effect.READ)
    assert (Category.CONFIRMED_FAILURE, "client_error", Retry.BOUNDED, RemoteEffect.NONE) == judged(
        read_with_body, crossed
    )


@pytest.mark.parametrize("fault", [None, *Fault])
def test_every_ending_keeps_the_contract(fault: Fault | None) -> None:
    for phase, status, request in product(Phase, (None, 101, 200, 201, 302, 404, 500), (READ, WRITE, RECONCILED)):
        for raw in (lost(fault, phase), cut(status or 200, fault or Fault.INTERNAL)):
            verdict = classified(request, replace(raw, phase=phase, fault=fault, status=status)).verdict
            assert verdict.code in CODES[verdict.category]
            assert len(verdict.message) <= MESSAGE_LIMIT
            if request is READ:
                assert RemoteEffect.NONE is verdict.remote_effect
            elif verdict.remote_effect is RemoteEffect.UNKNOWN:
                assert Retry.BOUNDED is not verdict.retry
