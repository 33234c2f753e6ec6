"""What a refusal of the credential says where an operation declares how to read it: challenges, logins, clocks.

No credential is tried again and no other is tried. Looks at the answer alone; what a human has to do is for the human.
"""

import re
from fnmatch import fnmatchcase
from urllib.parse import urljoin, urlsplit

from broker.contract.reasons import Category, Retry
from broker.core.classify.case import Case, refused
from broker.core.outcome import Verdict
from broker.core.policy.declarations import Auth
from broker.core.policy.places import at

_ERROR = re.compile(r'(?:^|[\s,])error\s*=\s*"?([A-Za-z0-9_.-]{1,64})', re.IGNORECASE)
_DESCRIPTION = re.compile(r'error_description\s*=\s*"([^"]{0,200})"', re.IGNORECASE)
_REFUSALS = frozenset({400, 401, 403})


def judge_login_redirect(case: Case) -> Verdict | None:
    """Step 3. A redirect to a login page says that the credential was not taken."""
    patterns = _auth(case).login_redirect
    target = at(case.view, "headers.location")
    if not patterns or not 300 <= case.status < 400 or not isinstance(target, str):
        return None
    try:
        path = urlsplit(urljoin(case.frozen.url, target)).path
    except ValueError:
        return None
    if not any(fnmatchcase(path, pattern) for pattern in patterns):
        return None
    message = "The upstream sends to its login page: it did not take the credential. A human has to renew it."
    return refused(Category.AUTHENTICATION_FAILED, "rejected", message)


def judge_refusal(case: Case) -> Verdict | None:
    """Between steps 6 and 7: what the operation declares of refusals, beyond its rules."""
    auth = _auth(case)
    if case.status not in _REFUSALS:
        return None
    if auth.clock_code is not None and at(case.view, auth.clock_code) in auth.clock_codes:
        message = "The upstream refused the request because its clock and ours differ; nothing was done."
        return refused(Category.LOCAL_FAILURE, "clock_skew", message, retry=Retry.BOUNDED)
    told = None if auth.challenge is None else at(case.view, auth.challenge)
    challenge = ", ".join(map(str, told)) if isinstance(told, list) else told
    found = _ERROR.search(challenge) if isinstance(challenge, str) else None
    if found is None or not isinstance(challenge, str):
        return _by_remedy(case)
    return _by_challenge(case, found[1].lower(), challenge)


def remedies(case: Case) -> tuple[str, ...]:
    """What the answer tells a human to do, where the operation declares where that stands."""
    found = (at(case.view, place) for place in _auth(case).human_remedy)
    return tuple(told for told in found if isinstance(told, str) and told)


def _by_challenge(case: Case, error: str, challenge: str) -> Verdict:
    retry = Retry.AFTER_HUMAN if remedies(case) or error in {"insufficient_claims", "interaction_required"} else None
    if error == "insufficient_scope":
        message = "The upstream says that the credential lacks the scope for this."
        return refused(Category.AUTHORIZATION_DENIED, "scope", message, retry=retry or Retry.NEVER)
    described = _DESCRIPTION.search(challenge)
    expired = described is not None and "expired" in described[1].lower()
    message = "The upstream rejected the credential, as its challenge says. A human has to renew it."
    code = "expired" if expired else "rejected"
    return refused(Category.AUTHENTICATION_FAILED, code, message, retry=retry or Retry.NEVER)


def _by_remedy(case: Case) -> Verdict | None:
    if case.status == 400 or not remedies(case):
        return None
    message = "The upstream refuses this until a human has done what it asks for; see the diagnosis."
    if case.status == 401:
        return refused(Category.AUTHENTICATION_FAILED, "rejected", message, retry=Retry.AFTER_HUMAN)
    return refused(Category.AUTHORIZATION_DENIED, "forbidden", message, retry=Retry.AFTER_HUMAN)


def _auth(case: Case) -> Auth:
    return _NONE if case.declared is None else case.declared.auth


_NONE = Auth()
