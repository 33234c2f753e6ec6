"""Step 9: one request with many items, each with a fate of its own. What no answer accounts for is unknown.

A failed item makes the whole partial, never a success; the items that were done are not undone by it.
"""

import math
from dataclasses import dataclass, replace

from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.contract.wire import JsonObject, JsonValue
from broker.core.classify.case import Case, after
from broker.core.classify.delays import told_s
from broker.core.outcome import Verdict
from broker.core.paging import argument_at
from broker.core.policy.declarations import Batch
from broker.core.policy.places import at, rows_at
from broker.core.predicate import AnswerView, holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """How the items fared. `ok` is None where the answer names failures alone."""

    ok: int | None
    failed: int
    unaccounted: int | None
    may_retry: int = 0  # of the failed
    wait_s: int | None = None
    left_over: bool = False  # the upstream gives a part back that it did not try
    readable: bool = True


def accounts_of(case: Case) -> Accounts | None:
    """The items of an answer; None where the operation declares no batch."""
    batch = None if case.declared is None else case.declared.batch
    if batch is None:
        return None
    good, bad, readable = _sorted(batch, case.view)
    left_over = batch.resubmit_path is not None and _is_something(at(case.view, batch.resubmit_path))
    waits = [wait for item in bad for delay in batch.item_delay if (wait := told_s(item, delay, now_ms=case.now_ms))]
    retryable = [item for item in bad if batch.item_retry is not None and holds(batch.item_retry, item) is True]
    sent = _sent(batch, case)
    ok = None if batch.names_failures_only else good
    return Accounts(
        ok=ok,
        failed=len(bad),
        unaccounted=None if ok is None else max(0, sent - good - len(bad)) if sent is not None and not left_over else 0,
        may_retry=len(retryable),
        wait_s=math.ceil(max(waits)) if waits else None,
        left_over=left_over,
        readable=readable,
    )


def judge_batch(case: Case, verdict: Verdict) -> Verdict:
    """The verdict on an answer that is good as a whole, or did not come, by what became of its items."""
    accounts = accounts_of(case)
    if accounts is None:
        return verdict
    if verdict.category is Category.OUTCOME_UNKNOWN and accounts.unaccounted and not (accounts.ok or accounts.failed):
        return replace(verdict, message=f"{verdict.message} None of its {accounts.unaccounted} items is accounted for.")
    if verdict.category is not Category.SUCCESS:
        return verdict
    if accounts.unaccounted or not accounts.readable:
        return _unaccounted(case, accounts)
    if accounts.failed == 0 and not (accounts.left_over and case.is_write):
        return verdict
    retry, wait_s = _retry(case, accounts)
    nothing_done = accounts.ok == 0 and not accounts.left_over
    if nothing_done and case.is_write:
        return replace(
            verdict,
            category=Category.CONFIRMED_FAILURE,
            code="declared",
            retry=retry,
            retry_after_s=wait_s,
            remote_effect=RemoteEffect.NONE,
            message=f"The upstream did none of the items; {accounts.failed} failed.",
        )
    return replace(
        verdict,
        category=Category.PARTIAL,
        code="item_failures",
        retry=retry,
        retry_after_s=wait_s,
        message=_message(accounts),
    )


def _unaccounted(case: Case, accounts: Accounts) -> Verdict:
    told = f"{accounts.unaccounted} of the items are not in the answer" if accounts.readable else "no items are in it"
    return Verdict(
        category=Category.MALFORMED_RESPONSE,
        code="schema",
        retry=case.settle if case.is_write else Retry.BOUNDED,
        remote_effect=case.unless_read,
        message=f"The upstream answered, and {told}; what became of them is unknown.",
    )


def _retry(case: Case, accounts: Accounts) -> tuple[Retry, int | None]:
    if accounts.may_retry and accounts.wait_s is not None:
        return after(case, accounts.wait_s)
    return (Retry.BOUNDED if accounts.may_retry or accounts.left_over else Retry.NEVER), None


def _message(accounts: Accounts) -> str:
    done = "" if accounts.ok is None else f"{accounts.ok} items were done, "
    again = f" Of these {accounts.may_retry} may be sent again by themselves." if accounts.may_retry else ""
    left = " The upstream gave a part of the request back untried." if accounts.left_over else ""
    return f"The upstream took the request: {done}{accounts.failed} failed.{again}{left}"


def _sorted(batch: Batch, view: JsonObject) -> tuple[int, list[AnswerView], bool]:
    """The number of good items, the bad ones, and whether the lists were there to be read."""
    good, bad, readable = 0, [], True
    if batch.items is not None:
        items = rows_at(view, batch.items)
        readable = items is not None
        for item in items or ():
            seen = AnswerView({"item": item})
            if batch.item_ok is None or holds(batch.item_ok, seen) is True:
                good += 1
            else:
                bad.append(seen)
    if batch.failed_items is not None:
        bad += [AnswerView({"item": item}) for item in rows_at(view, batch.failed_items) or ()]
    return good, bad, readable


def _sent(batch: Batch, case: Case) -> int | None:
    told: JsonValue = None if batch.request_count is None else argument_at(case.frozen.args, batch.request_count)
    return len(told) if isinstance(told, list | tuple | dict) else None


def _is_something(value: JsonValue) -> bool:
    return value not in (None, "", {}, [])
