"""The fixed order in which an attempt is judged. The first step that has something to say decides.

2 transport and framing; 3 the way there and redirects; 4 strict decoding; 5 declared errors; 6 declared rate limits;
7 the status; 8 the declared success; 9 completeness and warnings. (Step 1 is the gate.) Messages are our own
sentences; nothing of the provider's text gets into them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from broker.contract.reasons import Category, IncompleteCode
from broker.core.classify.answer import build_answer
from broker.core.classify.batch import judge_batch
from broker.core.classify.case import Case
from broker.core.classify.declared import deciding_rule, judge_errors, judge_rate_limit
from broker.core.classify.delays import told_s
from broker.core.classify.fallback import judge_status, judge_way_and_redirect
from broker.core.classify.grounds import grounds
from broker.core.classify.reading import as_declared, read_body
from broker.core.classify.refusal import judge_login_redirect, judge_refusal
from broker.core.classify.repeats import judge_repeat
from broker.core.classify.success import identity_of, judge_decoding, judge_success
from broker.core.classify.transport import judge_transport
from broker.core.classify.warnings import warnings_of
from broker.core.classify.window import judge_window
from broker.core.completeness import Assessment, assess, is_list
from broker.core.events import EventName
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Classified, Fault, RawOutcome, Verdict
from broker.core.predicate import answer_view

Step: TypeAlias = Callable[[Case], Verdict | None]
_STEPS: tuple[Step, ...] = (
    judge_transport,
    judge_login_redirect,
    judge_way_and_redirect,
    judge_decoding,
    judge_window,
    judge_repeat,
    judge_errors,
    judge_rate_limit,
    judge_refusal,
    judge_status,
)
_DEADLINES = frozenset({Fault.CONNECT_TIMEOUT, Fault.WRITE_TIMEOUT, Fault.FIRST_BYTE_TIMEOUT, Fault.TOTAL_TIMEOUT})


def classify(
    frozen: FrozenRequest, raw: RawOutcome, *, now_ms: int, prior_doubt: bool = False, key_expired: bool = False
) -> Classified:
    """Judge one attempt.

    `prior_doubt` tells that an earlier attempt at the same change is in doubt, `key_expired` that its key is forgotten.
    """
    reading = as_declared(read_body(raw, method=frozen.method), raw, frozen.declared)
    case = Case(
        frozen=frozen,
        raw=raw,
        reading=reading,
        view=answer_view(
            status=raw.status or 0, headers=raw.headers, json=reading.json, text=reading.text, xml=reading.xml
        ),
        now_ms=now_ms,
        prior_doubt=prior_doubt,
        key_expired=key_expired,
    )
    verdict, step = _judge(case)
    verdict = judge_batch(case, verdict)
    found = assess(case, verdict)
    verdict = _finished(case, verdict, found)
    rule = deciding_rule(case) if step is judge_errors else None
    return Classified(
        verdict=verdict,
        raw=raw,
        answer=build_answer(case, verdict),
        completeness=None if found is None else found.completeness,
        warnings=warnings_of(case, verdict, rule, is_list=is_list(case)),
        identity=identity_of(case) if verdict.category is Category.SUCCESS else None,
        grounds=grounds(case, verdict, step.__name__),
    )


def dispatch_event(raw: RawOutcome) -> EventName:
    """The one event that follows dispatch.started: a deadline, an answer, or neither."""
    if raw.fault in _DEADLINES:
        return EventName.DEADLINE_EXPIRED
    return EventName.TRANSPORT_FAILED if raw.status is None else EventName.REMOTE_ANSWERED


def _judge(case: Case) -> tuple[Verdict, Step]:
    """The verdict, and the step that it came from."""
    for step in _STEPS:
        verdict = step(case)
        if verdict is not None:
            return verdict, step
    return judge_success(case), judge_success


def _finished(case: Case, verdict: Verdict, found: Assessment | None) -> Verdict:
    """Step 9: a success that is not everything is partial, and one that asks for a pause says so."""
    if verdict.category is not Category.SUCCESS:
        return verdict
    if found is not None and not found.completeness.complete:
        has_more = any(reason.code is IncompleteCode.MORE_PAGES_AVAILABLE for reason in found.completeness.reasons)
        return replace(
            verdict,
            category=Category.PARTIAL,
            code="incomplete",
            retry=found.retry,
            message="The upstream answered, and there is more than this answer holds."
            if has_more
            else "The upstream answered, and this is not, or not proven to be, everything.",
        )
    pace = case.rate_limit.pace_from
    return verdict if pace is None else replace(verdict, retry_after_s=told_s(case.view, pace, now_ms=case.now_ms))
