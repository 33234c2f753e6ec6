"""Where a redirect may be followed: a declared read, on the same origin, to what the policy allows no less easily.

The next request is the same read at another address below the same base URL. It is judged by the same operation, so
an identity that is declared is held to the answer at the new address. Everything else is told and not followed.
"""

from dataclasses import replace
from urllib.parse import urljoin

from broker.contract.reasons import Effect, WarningCode
from broker.contract.result import Warn
from broker.core.continuation import BARE, Shield
from broker.core.frozen import FrozenRequest
from broker.core.identity import Caller
from broker.core.outcome import RawOutcome, Scrubbed
from broker.core.policy.declarations import Follow
from broker.core.policy.evaluate import STRICTNESS, evaluate
from broker.core.policy.model import Allow, Ask, Decision, Policy
from broker.core.resolve import HttpAsk, resolve
from broker.core.urls import canonical_url

MAX_HOPS = 5
_STATUSES = frozenset({301, 302, 303, 307, 308})
_METHODS = frozenset({"GET", "HEAD"})
_NOTICE = Warn(
    code=WarningCode.DEFAULT_SCOPE_APPLIED,
    message="The upstream sent on to another address of its own; what is told stands there: see the final URL.",
)


def may_be_sent_on(asked: FrozenRequest) -> bool:
    """Whether its operation lets an answer send it to another address."""
    declared = asked.declared
    follows = declared is not None and declared.redirect.follow is Follow.SAME_HOST_GET_ONLY
    return follows and _is_read(asked)


def next_hop(asked: FrozenRequest, raw: RawOutcome, shield: Shield = BARE) -> FrozenRequest | None:
    """The same read where the answer sends it; None where it may not go there."""
    if not may_be_sent_on(asked):
        return None
    told = [value for name, value in raw.headers if name == "location"]
    if raw.status not in _STATUSES or raw.fault is not None or len(told) != 1:
        return None
    target = shield.without_claimed(told[0])
    if not target or shield.is_told_in(target) or _has_dot_segment(target):
        return None
    try:
        url = canonical_url(urljoin(asked.url, target.partition("#")[0]))
    except ValueError:
        return None
    at_home = url.origin == canonical_url(asked.url).origin
    if not at_home or not f"{url.path}/".startswith(f"{asked.service.base_path}/") or url.url == asked.url:
        return None
    return replace(asked, url=url.url, path=url.path, query=url.query)


def may_follow(policy: Policy, caller: Caller, decision: Decision, hop: FrozenRequest) -> bool:
    """Whether the policy lets it go there for no more than was decided: as this operation, and as what fits there."""
    there = resolve(policy, HttpAsk(method=hop.method, url=hop.url))
    if not isinstance(there, FrozenRequest) or there.service.name != hop.service.name:
        return False
    decided = [evaluate(policy, caller, hop)]
    if there.declared is not None:
        decided.append(evaluate(policy, caller, there))
    return all(isinstance(one, Allow | Ask) and _strictness(one) <= _strictness(decision) for one in decided)


def with_notice(scrubbed: Scrubbed) -> Scrubbed:
    """What came from another address says so, once."""
    others = tuple(warning for warning in scrubbed.warnings if warning.code is not _NOTICE.code)
    return replace(scrubbed, warnings=(*others, _NOTICE))


def _is_read(asked: FrozenRequest) -> bool:
    return asked.effect is Effect.READ and asked.method in _METHODS


def _has_dot_segment(target: str) -> bool:
    return any(segment in {".", ".."} for segment in target.partition("?")[0].split("/"))


def _strictness(decision: Decision) -> int:
    return STRICTNESS[decision.rule.approval] if isinstance(decision, Ask) else 0
