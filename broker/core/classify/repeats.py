"""Between steps 4 and 5: what an operation declares of repeats. Whether one may be sent again is the gate's to say.

An upstream that says that it works on the same request, or knows its key for another one, settles nothing. A deletion
of what is not there is done where the operation declares so, and where the upstream hides nothing behind that status.
"""

from dataclasses import replace

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.classify.case import Case, after, conflicting
from broker.core.classify.delays import wait_told
from broker.core.outcome import Verdict
from broker.core.policy.declarations import Idempotency
from broker.core.predicate import Predicate, holds

GONE = frozenset({404, 410})


def judge_repeat(case: Case) -> Verdict | None:
    """None where nothing declared of repeats fits."""
    if case.declared is None or not case.is_write:
        return None
    rules = case.declared.idempotency
    if _fits(case, rules.in_progress_when):
        message = "The upstream says that the same request is done or under way. The change may have been made."
        return _in_progress(case, message)
    if _fits(case, rules.mismatch_when):
        message = "The upstream knows the key of this request for another one. That one may have been made."
        return conflicting(case, message)
    return _absent(case) if _is_absent(case, rules) else None


def _in_progress(case: Case, message: str) -> Verdict:
    """With a key the same request may be sent again once the first has ended, and gets what that one got."""
    told = conflicting(case, message)
    if not case.repeats_safely or case.declared is None or not case.declared.idempotency.has_key:
        return told
    retry, wait_s = after(case, wait_told(case.view, case.rate_limit, now_ms=case.now_ms).seconds)
    return replace(told, retry=retry, retry_after_s=wait_s)


def _absent(case: Case) -> Verdict:
    """What is gone after a deletion of ours in doubt may be gone by it; else nothing was there to delete."""
    return Verdict(
        category=Category.SUCCESS,
        code="ok",
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.APPLIED if case.prior_doubt else RemoteEffect.NONE,
        message="The upstream knows no such thing (any more), which the operation declares as deleted.",
    )


def _is_absent(case: Case, rules: Idempotency) -> bool:
    declared = case.declared
    hidden = () if declared is None else declared.auth.masked_statuses
    is_deletion = rules.absent_is_success and case.frozen.method == "DELETE"
    return is_deletion and case.status in GONE and case.status not in hidden


def _fits(case: Case, when: Predicate | None) -> bool:
    return when is not None and holds(when, case.view) is True
