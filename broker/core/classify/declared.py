"""Steps 5 and 6: what the operation itself says an answer means. The first matching rule wins.

A rule may say how to go on, but never lets a write of unknown effect be repeated. A predicate that can't be
evaluated did not match.
"""

from broker.contract.reasons import CODES, Category, RemoteEffect, Retry
from broker.core.classify.case import Case, after
from broker.core.classify.delays import wait_told
from broker.core.outcome import Verdict
from broker.core.policy.model import AnswerRule
from broker.core.predicate import holds

_CODES = {
    Category.SUCCESS: "ok",
    Category.PARTIAL: "incomplete",
    Category.AUTHENTICATION_FAILED: "rejected",
    Category.AUTHORIZATION_DENIED: "forbidden",
    Category.CONFIRMED_FAILURE: "declared",
    Category.RATE_LIMITED: "too_many",
    Category.MALFORMED_RESPONSE: "schema",
    Category.OUTCOME_UNKNOWN: "server_error",
}
_MESSAGES = {
    Category.SUCCESS: "The answer is one that the operation declares as done.",
    Category.PARTIAL: "The answer is one that the operation declares as incomplete.",
    Category.AUTHENTICATION_FAILED: (
        "The upstream rejected the credential, as the operation declares. A human has to renew it."
    ),
    Category.AUTHORIZATION_DENIED: "The upstream does not allow this, as the operation declares.",
    Category.CONFIRMED_FAILURE: "The upstream did not do it, as the operation declares.",
    Category.RATE_LIMITED: "The upstream refused the request because of its limits.",
    Category.MALFORMED_RESPONSE: "The answer breaks what the operation declares.",
    Category.OUTCOME_UNKNOWN: "The answer settles nothing, as the operation declares; what happened is unknown.",
}
_UNKNOWN_UNLESS_READ = frozenset({Category.PARTIAL, Category.MALFORMED_RESPONSE, Category.OUTCOME_UNKNOWN})
_REPEATING = frozenset({Retry.BOUNDED, Retry.AFTER_DELAY})


def judge_errors(case: Case) -> Verdict | None:
    """Step 5."""
    rule = deciding_rule(case)
    if rule is None:
        return None
    return rate_limited(case, floor_s=rule.floor_s) if rule.use_rate_limit else _by_rule(case, rule)


def deciding_rule(case: Case) -> AnswerRule | None:
    """The first of the operation's error rules that fits the answer."""
    rules = () if case.declared is None else case.declared.errors
    return next((rule for rule in rules if holds(rule.when, case.view) is True), None)


def judge_rate_limit(case: Case) -> Verdict | None:
    """Step 6: only where the answer is no success, for the last call that was allowed is one."""
    limit = None if case.declared is None else case.declared.rate_limit
    if limit is None or limit.when is None or is_declared_success(case):
        return None
    return rate_limited(case) if holds(limit.when, case.view) is True else None


def is_declared_success(case: Case) -> bool:
    """Whether status and success predicate hold. Media, schema and identity are looked at later."""
    if case.declared is None or not case.declared.success_statuses:
        status_fits = 200 <= case.status < 300
    else:
        status_fits = case.expects_status
    when = None if case.declared is None else case.declared.success_when
    return status_fits and (when is None or holds(when, case.view) is True)


def rate_limited(case: Case, *, floor_s: int | None = None) -> Verdict:
    wait = wait_told(case.view, case.rate_limit, now_ms=case.now_ms, floor_s=floor_s)
    retry, wait_s = after(case, wait.seconds)
    return Verdict(
        category=Category.RATE_LIMITED,
        code="too_many",
        retry=retry,
        remote_effect=RemoteEffect.NONE,
        retry_after_s=wait_s,
        message=_MESSAGES[Category.RATE_LIMITED]
        + (f" It asks for {wait.seconds} s, more than is waited for." if wait_s is None else ""),
    )


def _by_rule(case: Case, rule: AnswerRule) -> Verdict:
    category = rule.category if rule.category in _CODES else Category.CONFIRMED_FAILURE
    if category is Category.RATE_LIMITED and rule.retry is None:
        return rate_limited(case, floor_s=rule.floor_s)
    effect = _effect(case, rule, category)
    retry = rule.retry or _default_retry(case, category)
    if case.is_write and effect is RemoteEffect.UNKNOWN and retry in _REPEATING and not case.repeats_safely:
        retry = case.settle
    wait = wait_told(case.view, case.rate_limit, now_ms=case.now_ms, floor_s=rule.floor_s)
    return Verdict(
        category=category,
        code=rule.code if rule.code in CODES[category] else _CODES[category],
        retry=retry,
        remote_effect=effect,
        retry_after_s=wait.seconds if retry is Retry.AFTER_DELAY else None,
        message=_MESSAGES[category],
        missing=rule.reasons,
    )


def _effect(case: Case, rule: AnswerRule, category: Category) -> RemoteEffect:
    if not case.is_write:
        return RemoteEffect.NONE
    if rule.remote_effect is not None:
        return rule.remote_effect
    if category is Category.SUCCESS:
        return RemoteEffect.APPLIED
    return RemoteEffect.UNKNOWN if category in _UNKNOWN_UNLESS_READ else RemoteEffect.NONE


def _default_retry(case: Case, category: Category) -> Retry:
    if category is Category.OUTCOME_UNKNOWN:
        return case.settle if case.is_write else Retry.BOUNDED
    if category is Category.MALFORMED_RESPONSE and case.is_write:
        return case.settle
    return Retry.NEVER
