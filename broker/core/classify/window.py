"""Before step 5: errors that a list answers with where it has no more to serve, or no longer knows the token.

They end a walk. What was read before stays good, and is not everything.
"""

from broker.contract.reasons import Category, IncompleteCode, RemoteEffect, Retry
from broker.core.classify.case import Case
from broker.core.outcome import Verdict
from broker.core.predicate import holds


def judge_window(case: Case) -> Verdict | None:
    paging = None if case.declared is None else case.declared.pagination
    if paging is None or case.is_write:
        return None
    if paging.end_error_when is not None and holds(paging.end_error_when, case.view) is True:
        message = "The upstream serves no more of this list than its first part."
        return _ended(message, IncompleteCode.RESULT_LIMIT_REACHED, Retry.NEVER)
    if paging.expired_when is not None and holds(paging.expired_when, case.view) is True:
        message = "The upstream no longer knows the token for this page; the list has to be read from its beginning."
        return _ended(message, IncompleteCode.CURSOR_EXPIRED, Retry.BOUNDED)
    return None


def _ended(message: str, code: IncompleteCode, retry: Retry) -> Verdict:
    return Verdict(
        category=Category.PARTIAL,
        code="incomplete",
        retry=retry,
        remote_effect=RemoteEffect.NONE,
        message=message,
        missing=(code,),
    )
