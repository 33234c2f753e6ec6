"""Steps 3 and 7: what a status means where the operation says nothing, by the effect of the request.

407 and 511 come from the way there, redirects are reported (core/redirects.py says which go on), and no 5xx settles
a write. A status that HTTP does not know (RFC 9110, section 15) counts as a 5xx. So do 460 and 499, by which a front
says that its caller went away: we did not, and what stands behind it may have gone on.
"""

from dataclasses import replace

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.classify.case import Case, after, conflicting, outcome_unknown, refused
from broker.core.classify.declared import rate_limited
from broker.core.classify.delays import retry_after
from broker.core.classify.repeats import GONE
from broker.core.outcome import Verdict

_CLIENT_ERRORS = {
    404: ("not_found", "The upstream knows no such thing, or does not show it to this credential."),
    409: ("conflict", "The upstream refused the request because it conflicts with the present state."),
    410: ("not_found", "The upstream says that this is gone."),
    412: ("precondition", "The upstream refused the request because its precondition does not hold."),
    428: ("precondition", "The upstream refused the request because it demands a precondition."),
}
_TRANSIENT = {
    408: "The upstream did not get the whole request in time and did nothing.",
    425: "The upstream refused to handle the request so early and did nothing.",
}
_CONFLICTS = frozenset({409, 412})
_CALLER_LEFT = frozenset({460, 499})
_NOT_MODIFIED = 304


def judge_way_and_redirect(case: Case) -> Verdict | None:
    """Step 3. A redirect that the operation declares as its success is one."""
    if case.status == 407:
        message = "A proxy on the way asks for credentials; the request was not forwarded. A human has to look at it."
        return refused(Category.LOCAL_FAILURE, "proxy_auth", message, retry=Retry.AFTER_HUMAN)
    if case.status == 511:
        message = "The network asks for a sign-in first; the request was not forwarded. A human has to look at it."
        return refused(Category.LOCAL_FAILURE, "captive_portal", message, retry=Retry.AFTER_HUMAN)
    if not 300 <= case.status < 400 or case.expects_status or (case.status == _NOT_MODIFIED and not case.is_write):
        return None
    after_the_work = case.is_write and case.status == 303
    return Verdict(
        category=Category.CONFIRMED_FAILURE,
        code="redirect_not_followed",
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.UNKNOWN if after_the_work else RemoteEffect.NONE,
        message="The upstream redirects elsewhere, and that was not followed. Ask for the new address if it is right."
        + (" This kind of redirect can follow a change that was made." if after_the_work else ""),
    )


def judge_status(case: Case) -> Verdict | None:
    """Step 7. None for a status that may be a success."""
    status = case.status
    if 100 <= status < 400 or case.expects_status:
        return None
    if case.declared is not None and status in case.declared.gateway.reject_proof:
        message = f"Who stands before the upstream answered with status {status}, and did not hand the request on."
        return refused(Category.CONFIRMED_FAILURE, "remote_error", message, retry=Retry.BOUNDED)
    if status >= 500 or status < 100 or status in _CALLER_LEFT:
        return _server_error(case)
    if status == 401:
        message = "The upstream rejected the credential; no other was tried. A human has to renew or replace it."
        return refused(Category.AUTHENTICATION_FAILED, "rejected", message)
    if status == 403:
        message = "The upstream knows the credential and does not allow this with it."
        return refused(Category.AUTHORIZATION_DENIED, "forbidden", message)
    if status == 429:
        return rate_limited(case)
    if status in _TRANSIENT:
        return refused(Category.CONFIRMED_FAILURE, "client_error", _TRANSIENT[status], retry=Retry.BOUNDED)
    if status in _CONFLICTS and case.is_write and case.prior_doubt:
        message = "The upstream sees a conflict, which may be our own earlier attempt: the change may be made already."
        return conflicting(case, message)
    if status in GONE and case.frozen.method == "DELETE" and case.prior_doubt:
        message = "The upstream knows no such thing (any more), which may be the work of our own earlier attempt."
        return conflicting(case, message)
    code, message = _CLIENT_ERRORS.get(
        status, ("client_error", f"The upstream refused the request with status {status} and did not do it.")
    )
    return refused(Category.CONFIRMED_FAILURE, code, message)


def _server_error(case: Case) -> Verdict:
    if case.is_write:
        message = (
            f"The upstream failed with status {case.status}, which does not tell whether the change was made. "
            "It may have been."
        )
        unknown = outcome_unknown(case, "server_error", message)
        return replace(unknown, retry=case.settle) if case.is_kept_error else unknown
    told = retry_after(case.view, now_ms=case.now_ms)
    retry, wait_s = (Retry.BOUNDED, None) if told is None else after(case, told)
    return Verdict(
        category=Category.CONFIRMED_FAILURE,
        code="remote_error",
        retry=retry,
        retry_after_s=wait_s,
        remote_effect=RemoteEffect.NONE,
        message=f"The upstream failed with status {case.status} and gave no answer.",
    )
