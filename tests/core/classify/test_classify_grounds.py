"""Which step spoke, and which field of the operation's contract decided."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.reasons import Category
from broker.core.outcome import Fault, RawOutcome
from broker.core.policy.declarations import CompletenessDecl
from broker.core.policy.model import AnswerRule, Identity, Operation, RateLimit
from broker.core.predicate import compile_predicate
from tests.fakes.answers import HTML, answer, classified, cut
from tests.fakes.https_calls import frozen, operation

NEVER = AnswerRule(when=compile_predicate("status == `1`"), category=Category.CONFIRMED_FAILURE)
QUOTA = AnswerRule(when=compile_predicate("json.error == 'quota'"), category=Category.RATE_LIMITED)
OK = compile_predicate("json.ok == `true`")
LISTED = replace(
    operation(),
    name="items.list",
    completeness=CompletenessDecl(complete_when=compile_predicate("json.more == `false`")),
)


def grounds(raw: RawOutcome, declared: Operation | None = None) -> Any:
    found = classified(frozen() if declared is None else frozen(declared=declared), raw).grounds
    return found["step"], found["field"], found["predicate"]


@pytest.mark.parametrize(
    ("raw", "declared", "told"),
    [
        (cut(200, Fault.TRUNCATED), operation(), ("transport", None, None)),
        (answer(302), operation(), ("way_and_redirect", None, None)),
        (answer(200, b"{"), operation(), ("decoding", None, None)),
        (answer(404), operation(), ("status", None, None)),
        (
            answer(400, b'{"error": "quota"}'),
            replace(operation(), errors=(NEVER, QUOTA)),
            ("errors", "errors[1].when", "json.error == 'quota'"),
        ),
        (
            answer(403, b'{"left": 0}'),
            replace(operation(), rate_limit=RateLimit(when=compile_predicate("json.left == `0`"))),
            ("rate_limit", "rate_limit.when", "json.left == `0`"),
        ),
        (
            answer(200, b'{"ok": false}'),
            replace(operation(), success_when=OK),
            ("success", "success.when", "json.ok == `true`"),
        ),
        (
            answer(200, b'{"ok": false}'),
            replace(operation(), success_when=OK, success_statuses=(200,)),
            ("success", "success.when", "json.ok == `true`"),
        ),
        (answer(204, b""), replace(operation(), success_statuses=(200,)), ("success", "success.statuses", None)),
        (answer(200, b"<p>", HTML), replace(operation(), media=("json",)), ("success", "response.media", None)),
        (answer(200, b""), replace(operation(), media=("json",)), ("success", "response.media", None)),
        (
            answer(200, b""),
            replace(operation(), identity=Identity(path="json.id")),
            ("success", "identity.path", None),
        ),
        (
            answer(200, b'{"name": "x"}'),
            replace(operation(), identity=Identity(path="json.id")),
            ("success", "identity.path", None),
        ),
        (answer(200, b'{"more": true}'), LISTED, ("success", "completeness.complete_when", "json.more == `false`")),
        (answer(202), operation(), ("success", None, None)),
    ],
)  # fmt: skip
def test_the_step_and_the_field_that_decided_are_named(
    raw: RawOutcome, declared: Operation, told: tuple[str, str | None, str | None]
) -> None:
    assert told == grounds(raw, declared)


def test_without_a_declared_operation_no_field_is_named() -> None:
    assert ("status", None, None) == grounds(answer(404))
