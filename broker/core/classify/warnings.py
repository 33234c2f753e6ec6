"""What is said beside a verdict. A warning never decides anything."""

from collections.abc import Iterator

from broker.contract.reasons import Category, WarningCode
from broker.contract.result import Warn
from broker.core.classify.case import Case
from broker.core.classify.delays import skew_s, wait_told
from broker.core.outcome import Verdict
from broker.core.policy.declarations import Consistency
from broker.core.policy.model import AnswerRule
from broker.core.policy.places import at
from broker.core.predicate import holds

SUSPICIOUS_SKEW_S = 300
_AGE_DIGITS = 10
_DECLARED = {
    WarningCode.NOT_FOUND_MAY_BE_HIDDEN: "The upstream says the same of what this credential may not see.",
    WarningCode.STALE_INDEX: "The upstream answers from a copy that may be behind.",
    WarningCode.QUOTA_EXHAUSTED: "The upstream's quota is used up; the next call may be refused.",
    WarningCode.COUNT_ESTIMATED: "The count is an estimate of the upstream's.",
    WarningCode.PARTIAL_FIELD_SET: "Some fields of the answer are missing, and are not known to be empty.",
    WarningCode.PARAMETER_IGNORED: "The upstream ignores a parameter of the request.",
    WarningCode.DEFAULT_SCOPE_APPLIED: "The upstream leaves out a part unless it is asked for.",
    WarningCode.IDEMPOTENT_REPLAY: "This is the answer to the first request under the same key, and no second change.",
    WarningCode.IDEMPOTENCY_WINDOW_EXPIRED: (
        "An earlier attempt went out under a key that is forgotten by now: the change may have been made twice."
    ),
    WarningCode.PROVIDER_NOTICE: "The upstream sends a notice with its answer.",
}
_DECLARED_ELSE = "The operation declares this of such answers."


def warnings_of(case: Case, verdict: Verdict, rule: AnswerRule | None, *, is_list: bool) -> tuple[Warn, ...]:
    """`rule` is the error rule that decided. Each code is said once."""
    found = [declared_warning(code) for code in _declared(case, verdict, rule, is_list=is_list)]
    found += _own(case, verdict)
    return tuple({warning.code: warning for warning in reversed(found)}[code] for code in _codes(found))


def declared_warning(code: WarningCode) -> Warn:
    return Warn(code=code, message=_DECLARED.get(code, _DECLARED_ELSE))


def _codes(found: list[Warn]) -> tuple[WarningCode, ...]:
    return tuple(dict.fromkeys(warning.code for warning in found))


def _declared(case: Case, verdict: Verdict, rule: AnswerRule | None, *, is_list: bool) -> Iterator[WarningCode]:
    yield from () if rule is None else rule.warn
    declared = case.declared
    if declared is None or case.raw.status is None:
        return
    for warning in declared.warnings:
        if holds(warning.when, case.view) is True:
            yield warning.code
    if declared.idempotency.replay_marker is not None and holds(declared.idempotency.replay_marker, case.view) is True:
        yield WarningCode.IDEMPOTENT_REPLAY
    if case.key_expired:
        yield WarningCode.IDEMPOTENCY_WINDOW_EXPIRED
    if case.status == 404 and case.status in declared.auth.masked_statuses:
        yield WarningCode.NOT_FOUND_MAY_BE_HIDDEN
    if verdict.category not in {Category.SUCCESS, Category.PARTIAL}:
        return
    scope, completeness = declared.scope, declared.completeness
    if scope is not None and (scope.defaults or scope.default_region is not None):
        yield WarningCode.DEFAULT_SCOPE_APPLIED
    if completeness is None:
        return
    if is_list and completeness.consistency is Consistency.EVENTUAL:
        yield WarningCode.STALE_INDEX
    if completeness.max_age_s is not None and _age_s(case) > completeness.max_age_s:
        yield WarningCode.STALE_INDEX
    if completeness.estimated and completeness.total is not None and at(case.view, completeness.total) is not None:
        yield WarningCode.COUNT_ESTIMATED


def _age_s(case: Case) -> int:
    told = at(case.view, "headers.age")
    is_number = isinstance(told, str) and told.isascii() and told.isdigit() and len(told) <= _AGE_DIGITS
    return int(told) if is_number and isinstance(told, str) else 0


def _own(case: Case, verdict: Verdict) -> Iterator[Warn]:
    if case.reading.had_bom and case.reading.is_whole:
        message = "The body began with a byte-order mark, which was left out."
        yield Warn(code=WarningCode.NORMALIZED_BODY, message=message)
    if verdict.category is Category.RATE_LIMITED and wait_told(case.view, case.rate_limit, now_ms=case.now_ms).doubtful:
        message = "The upstream's wait can't be read; the operation's default is used."
        yield Warn(code=WarningCode.UNTRUSTED_RETRY_AFTER, message=message)
    skew = skew_s(case.view, now_ms=case.now_ms) if case.status in {401, 403} else None
    if skew is not None and abs(skew) > SUSPICIOUS_SKEW_S:
        message = f"The upstream's clock and ours differ by {abs(skew)} s, which can make credentials fail."
        yield Warn(code=WarningCode.CLOCK_SKEW_SUSPECTED, message=message)
