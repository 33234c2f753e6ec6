"""Outcomes of the wire as the classification gets them, and the classification of one."""

from dataclasses import replace

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.classify.order import classify
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Classified, Fault, Phase, RawOutcome
from tests.fakes.https_calls import frozen

NOW_MS = 1_795_953_600_000  # Sun, 29 Nov 2026 12:00:00 GMT
DATE = "Sun, 29 Nov 2026 12:00:00 GMT"
JSON = ("content-type", "application/json")
HTML = ("content-type", "text/html")
BODY = b'{"title": "x"}'

READ = frozen()
WRITE = frozen(method="POST", body=BODY)

Judged = tuple[Category, str, Retry, RemoteEffect]


def answer(
    status: int = 200, body: bytes = b'{"id": "1"}', *headers: tuple[str, str], sent_bytes: int = len(BODY)
) -> RawOutcome:
    """A whole answer; JSON unless headers are given."""
    return RawOutcome(
        phase=Phase.RESPONSE_COMPLETE,
        status=status,
        headers=headers or (JSON,),
        body=body,
        body_complete=True,
        sent_bytes=sent_bytes,
        elapsed_ms=1500,
    )


def cut(status: int, fault: Fault, *headers: tuple[str, str], body: bytes = b'{"id"') -> RawOutcome:
    """An answer whose head came and whose body failed."""
    whole = answer(status, body, *headers)
    return replace(whole, phase=Phase.RESPONSE_STARTED, fault=fault, body_complete=False)


def lost(fault: Fault | None, phase: Phase = Phase.BODY_SENT) -> RawOutcome:
    """No answer at all."""
    return RawOutcome(phase=phase, fault=fault, sent_bytes=len(BODY) if phase is Phase.BODY_SENT else 0)


def classified(request: FrozenRequest, raw: RawOutcome, *, prior_doubt: bool = False) -> Classified:
    return classify(request, raw, now_ms=NOW_MS, prior_doubt=prior_doubt)


def judged(request: FrozenRequest, raw: RawOutcome, *, prior_doubt: bool = False) -> Judged:
    verdict = classified(request, raw, prior_doubt=prior_doubt).verdict
    return verdict.category, verdict.code, verdict.retry, verdict.remote_effect
