"""Work that an upstream accepted and has not finished: where it is looked at, and what the look says.

A look is a GET on the same origin and below the same base URL, whatever made the work. What settles it is declared;
whatever else a look comes to says nothing about the work.
"""

from dataclasses import replace
from urllib.parse import urljoin

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.core.classify.delays import retry_after, told_s
from broker.core.continuation import BARE, Shield
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Verdict
from broker.core.policy.declarations import Async
from broker.core.policy.places import at
from broker.core.predicate import AnswerView, holds
from broker.core.urls import canonical_url

MAX_LOOKS = 100
_OF_A_BODY = frozenset({"content-type", "content-encoding"})


def look_of(asked: FrozenRequest, slow: Async, view: AnswerView, shield: Shield = BARE) -> FrozenRequest | None:
    """The look at where the answer says that the work can be found; None where it may not go there."""
    told = next((target for place in slow.poll if isinstance(target := at(view, place), str) and target), None)
    told = None if told is None else shield.without_claimed(told)
    if (
        told is None
        or shield.is_told_in(told)
        or any(segment in {".", ".."} for segment in told.partition("?")[0].split("/"))
    ):
        return None
    try:
        url = canonical_url(urljoin(asked.url, told))
    except ValueError:
        return None
    if url.origin != canonical_url(asked.url).origin or not f"{url.path}/".startswith(f"{asked.service.base_path}/"):
        return None
    return replace(
        asked,
        declared=None,
        method="GET",
        url=url.url,
        path=url.path,
        query=url.query,
        headers=tuple(pair for pair in asked.headers if pair[0] not in _OF_A_BODY),
        body=b"",
        effect=Effect.READ,
        destructive=False,
        targets=(),
    )


def wait_s(slow: Async, view: AnswerView, *, now_ms: int) -> int:
    """How long the answer asks to wait before the next look; at least a second."""
    told = [wait for delay in slow.delay if (wait := told_s(view, delay, now_ms=now_ms)) is not None]
    wait = told[0] if told else retry_after(view, now_ms=now_ms)
    return max(1, slow.default_s if wait is None else wait)


def settled(asked: FrozenRequest, slow: Async, view: AnswerView) -> Verdict | None:
    """What a look proves of the work; None where it is not over, or nothing is proven."""
    if slow.failed_when is not None and holds(slow.failed_when, view) is True:
        can_reconcile = asked.declared is not None and asked.declared.reconcile is not None
        settle = Retry.RECONCILE_FIRST if can_reconcile else Retry.AFTER_HUMAN
        return Verdict(
            category=Category.CONFIRMED_FAILURE,
            code="declared",
            retry=settle if asked.is_write else Retry.NEVER,
            remote_effect=RemoteEffect.UNKNOWN if asked.is_write else RemoteEffect.NONE,
            message="The upstream took the work on and says that it failed."
            + (" A part of it may have been done." if asked.is_write else ""),
        )
    if slow.done_when is None or holds(slow.done_when, view) is not True:
        return None
    return Verdict(
        category=Category.SUCCESS,
        code="ok",
        retry=Retry.NEVER,
        remote_effect=RemoteEffect.APPLIED if asked.is_write else RemoteEffect.NONE,
        message="The upstream took the work on and has finished it.",
    )
