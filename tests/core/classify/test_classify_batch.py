"""Requests with many items: each has its fate, and what nobody accounts for is unknown."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.core.outcome import Classified, Fault, RawOutcome
from broker.core.policy.declarations import Batch, Delay
from broker.core.predicate import compile_predicate
from tests.fakes.answers import answer, classified, lost
from tests.fakes.https_calls import frozen, operation

ITEM = ("item",)
OK = compile_predicate("item.status < `400`", sees=ITEM)
AGAIN = compile_predicate("item.status==`429`", sees=ITEM)
WAIT = Delay(path="item.wait", kind="delta_s")
EACH = Batch(items="json", item_ok=OK, item_retry=AGAIN, item_delay=(WAIT,), request_count="entries")
SPLIT = Batch(items="json.good", failed_items="json.bad", request_count="entries")
LEFT = Batch(resubmit_path="json.left")


def after(batch: Batch, body: str, *, write: bool = True, entries: Any = None) -> Classified:
    name, method = ("things.create", "POST") if write else ("things.get", "GET")
    effect = Effect.WRITE if write else Effect.READ
    declared = replace(operation(name, method=method, effect=effect), batch=batch)
    args = {} if entries is None else {"entries": entries}
    return classified(frozen(method=method, declared=declared, args=args), answer(200, body.encode()))


@pytest.mark.parametrize(
    ("batch", "body", "entries", "category", "code", "retry", "effect"),
    [
        (EACH, '[{"status": 201}, {"status": 200}]', None, "success", "ok", "never", "applied"),
        (EACH, '[{"status": 201}, {"status": 424}]', None, "partial", "item_failures", "never", "applied"),
        (EACH, '[{"status": 201}, {"status": 429}]', None, "partial", "item_failures", "bounded", "applied"),
        (EACH, '[{"status": 201}, {"status": 429, "wait": 7}]', None, "partial", "item_failures", "after_delay",
         "applied"),
        (EACH, '[{"status": 424}]', None, "confirmed_failure", "declared", "never", "none"),
        (EACH, '[{"status": "odd"}, {"status": 201}]', None, "partial", "item_failures", "never", "applied"),
        (EACH, '[{"status": 201}]', [1], "success", "ok", "never", "applied"),
        (EACH, '[{"status": 201}]', {"a": 1}, "success", "ok", "never", "applied"),
        (EACH, '[{"status": 201}]', [1, 2], "malformed_response", "schema", "after_human", "unknown"),
        (EACH, '{"status": 201}', None, "malformed_response", "schema", "after_human", "unknown"),
        (SPLIT, '{"good": [{}], "bad": [{}]}', [1, 2], "partial", "item_failures", "never", "applied"),
        (SPLIT, '{"good": [{}]}', [1], "success", "ok", "never", "applied"),
        (replace(SPLIT, names_failures_only=True), '{"good": [], "bad": [{}]}', [1, 2], "partial", "item_failures",
         "never", "applied"),
        (LEFT, '{"left": {"t": [1]}}', None, "partial", "item_failures", "bounded", "applied"),
        (LEFT, '{"left": {}}', None, "success", "ok", "never", "applied"),
        (LEFT, "{}", None, "success", "ok", "never", "applied"),
    ],
)  # fmt: skip
def test_a_change_of_many_things_is_as_good_as_its_items(
    batch: Batch, body: str, entries: Any, category: str, code: str, retry: str, effect: str
) -> None:
    verdict = after(batch, body, entries=entries).verdict

    assert (category, code, retry, effect) == (
        verdict.category.value, verdict.code, verdict.retry.value, verdict.remote_effect.value,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "entries", "told"),
    [
        (lost(Fault.CONNECTION_LOST), [1, 2], True),
        (lost(Fault.CONNECTION_LOST), None, False),
        (answer(500, b'{"good": [{}]}'), [1, 2], False),
        (answer(404), [1, 2], False),
    ],
)
def test_of_a_batch_that_nobody_answered_it_is_told_how_much_of_it_is_unknown(
    raw: RawOutcome, entries: Any, *, told: bool
) -> None:
    declared = replace(operation("things.create", method="POST", effect=Effect.WRITE), batch=SPLIT)
    args = {} if entries is None else {"entries": entries}
    verdict = classified(frozen(method="POST", declared=declared, args=args), raw).verdict

    assert told == verdict.message.endswith("None of its 2 items is accounted for.")


def test_the_longest_wait_of_an_item_counts_and_is_told() -> None:
    verdict = after(EACH, '[{"status": 429, "wait": 3}, {"status": 429, "wait": 9}, {"status": 200}]').verdict

    assert (Retry.AFTER_DELAY, 9) == (verdict.retry, verdict.retry_after_s)
    assert "1 items were done, 2 failed. Of these 2 may be sent again" in verdict.message


def test_a_reading_of_many_things_says_what_is_left() -> None:
    left = after(LEFT, '{"left": {"t": [1]}}', write=False)
    failed = after(EACH, '[{"status": 404}]', write=False)
    unaccounted = after(EACH, "[]", write=False, entries=[1])

    assert (Category.PARTIAL, Retry.BOUNDED) == (left.verdict.category, left.verdict.retry)
    assert left.completeness is not None
    assert ["MORE_PAGES_AVAILABLE"] == [reason.code.value for reason in left.completeness.reasons]
    assert (Category.PARTIAL, RemoteEffect.NONE) == (failed.verdict.category, failed.verdict.remote_effect)
    assert failed.completeness is not None
    assert ["ITEM_FAILURES"] == [reason.code.value for reason in failed.completeness.reasons]
    assert (Category.MALFORMED_RESPONSE, Retry.BOUNDED) == (unaccounted.verdict.category, unaccounted.verdict.retry)
