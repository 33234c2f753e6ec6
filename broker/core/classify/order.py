"""The fixed order in which an attempt is judged. The first step that has something to say decides.

2 transport and framing; 3 the way there and redirects; 4 strict decoding; 5 declared errors; 6 declared rate limits;
7 the status; 8 the declared success; 9 completeness and warnings. (Step 1 is the gate.) Messages are our own
sentences; nothing of the provider's text gets into them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from broker.contract.reasons import Category, Retry, WarningCode
from broker.contract.result import Warn
from broker.core.classify.answer import build_answer
from broker.core.classify.case import Case
from broker.core.classify.declared import deciding_rule, judge_errors, judge_rate_limit
from broker.core.classify.delays import skew_s, wait_told
from broker.core.classify.fallback import judge_status, judge_way_and_redirect
from broker.core.classify.grounds import grounds
from broker.core.classify.reading import read_body
from broker.core.classify.success import identity_of, judge_decoding, judge_success
from broker.core.classify.transport import judge_transport
from broker.core.completeness import assess, next_page
from broker.core.events import EventName
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Classified, Fault, RawOutcome, Verdict
from broker.core.predicate import answer_view

SUSPICIOUS_SKEW_S = 300
Step: TypeAlias = Callable[[Case], Verdict | None]
_STEPS: tuple[Step, ...] = (
    judge_transport,
    judge_way_and_redirect,
    judge_decoding,
    judge_errors,
    judge_rate_limit,
    judge_status,
)
_DECLARED = {
    WarningCode.NOT_FOUND_MAY_BE_HIDDEN: "The upstream says the same of what this credential may not see.",
}
_DECLARED_ELSE = "The operation declares this of such answers."
_DEADLINES = frozenset({Fault.CONNECT_TIMEOUT, Fault.WRITE_TIMEOUT, Fault.FIRST_BYTE_TIMEOUT, Fault.TOTAL_TIMEOUT})


def classify(frozen: FrozenRequest, raw: RawOutcome, *, now_ms: int, prior_doubt: bool = False) -> Classified:
    """Judge one attempt. `prior_doubt` tells that an earlier attempt at the same change is in doubt."""
    reading = read_body(raw, method=frozen.method)
    case = Case(
        frozen=frozen,
        raw=raw,
        reading=reading,
        view=answer_view(status=raw.status or 0, headers=raw.headers, json=reading.json, text=reading.text),
        now_ms=now_ms,
        prior_doubt=prior_doubt,
    )
    verdict, step = _judge(case)
    completeness = assess(case, verdict)
    if verdict.category is Category.SUCCESS and completeness is not None and not completeness.complete:
        verdict = _partial(case, verdict)
    return Classified(
        verdict=verdict,
        raw=raw,
        answer=build_answer(case, verdict),
        completeness=completeness,
        warnings=(*_declared_warnings(case, step), *_warnings(case, verdict)),
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


def _partial(case: Case, verdict: Verdict) -> Verdict:
    has_next, url = next_page(case)
    return replace(
        verdict,
        category=Category.PARTIAL,
        code="incomplete",
        retry=Retry.BOUNDED if url is not None else Retry.NEVER,
        message="The upstream answered, and there is more than this answer holds."
        if has_next
        else "The upstream answered, and nothing proves that this is everything.",
    )


def _declared_warnings(case: Case, step: Step) -> tuple[Warn, ...]:
    """What the rule that decided wants said beside its verdict."""
    rule = deciding_rule(case) if step is judge_errors else None
    codes = () if rule is None else rule.warn
    return tuple(Warn(code=code, message=_DECLARED.get(code, _DECLARED_ELSE)) for code in codes)


def _warnings(case: Case, verdict: Verdict) -> tuple[Warn, ...]:
    warnings = []
    if case.reading.had_bom and case.reading.is_whole:
        message = "The body began with a byte-order mark, which was left out."
        warnings.append(Warn(code=WarningCode.NORMALIZED_BODY, message=message))
    if verdict.category is Category.RATE_LIMITED and _wait_is_doubtful(case):
        message = "The upstream's wait can't be read; the operation's default is used."
        warnings.append(Warn(code=WarningCode.UNTRUSTED_RETRY_AFTER, message=message))
    skew = skew_s(case.view, now_ms=case.now_ms)
    if case.status in {401, 403} and skew is not None and abs(skew) > SUSPICIOUS_SKEW_S:
        message = f"The upstream's clock and ours differ by {abs(skew)} s, which can make credentials fail."
        warnings.append(Warn(code=WarningCode.CLOCK_SKEW_SUSPECTED, message=message))
    return tuple(warnings)


def _wait_is_doubtful(case: Case) -> bool:
    return wait_told(case.view, case.rate_limit, now_ms=case.now_ms).doubtful
