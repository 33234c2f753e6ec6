"""What is said beside a verdict: each thing once, and nothing that decides."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, WarningCode
from broker.core.outcome import Fault, RawOutcome
from broker.core.policy.declarations import Auth, CompletenessDecl, Consistency, Delay, Scope, WarningRule
from broker.core.policy.model import Operation, RateLimit
from broker.core.predicate import compile_predicate
from tests.fakes.answers import JSON, answer, classified, lost
from tests.fakes.https_calls import HERE, frozen, operation

LIST = operation("things.list")
AGED = replace(operation(), completeness=CompletenessDecl(max_age_s=60))
NOTICE = WarningRule(when=compile_predicate("json.note!=`null`"), code=WarningCode.PROVIDER_NOTICE, place=HERE)
COUNTED = CompletenessDecl(
    items="json.rows", total="json.n", estimated=True, consistency=Consistency.EVENTUAL, max_age_s=60
)
REGION = Scope(default_region="eu")


@pytest.mark.parametrize(
    ("declared", "raw", "codes"),
    [
        (replace(LIST, warnings=(NOTICE, NOTICE)), answer(200, b'{"note": 1}'), ["PROVIDER_NOTICE"]),
        (replace(LIST, warnings=(NOTICE,)), answer(200, b"{}"), []),
        (replace(LIST, warnings=(NOTICE,)), lost(Fault.CONNECTION_LOST), []),
        (replace(LIST, auth=Auth(masked_statuses=(404,))), answer(404), ["NOT_FOUND_MAY_BE_HIDDEN"]),
        (replace(LIST, auth=Auth(masked_statuses=(403,))), answer(404), []),
        (replace(LIST, scope=REGION), answer(200, b"[]"), ["DEFAULT_SCOPE_APPLIED"]),
        (replace(LIST, scope=Scope(defaults=("a",))), answer(200, b"[]"), ["DEFAULT_SCOPE_APPLIED"]),
        (replace(LIST, scope=Scope(resource="x")), answer(200, b"[]"), []),
        (replace(LIST, scope=REGION), answer(403), []),
        (replace(LIST, completeness=COUNTED), answer(200, b'{"rows": [], "n": 1}'), ["STALE_INDEX", "COUNT_ESTIMATED"]),
        (replace(LIST, completeness=COUNTED), answer(200, b'{"rows": []}', JSON, ("age", "61")), ["STALE_INDEX"]),
        (AGED, answer(200, b"{}", JSON, ("age", "61")),
         ["STALE_INDEX"]),
        (AGED, answer(200, b"{}", JSON, ("age", "60")), []),
        (AGED, answer(200, b"{}", JSON, ("age", "old")), []),
        (replace(operation(), completeness=CompletenessDecl()), answer(200, b"{}"), []),
    ],
)  # fmt: skip
def test_what_is_declared_of_an_answer_is_said(declared: Operation, raw: RawOutcome, codes: list[str]) -> None:
    assert codes == [warning.code.value for warning in classified(frozen(declared=declared), raw).warnings]


@pytest.mark.parametrize(("body", "wait"), [(b'{"backoff": 10}', 10), (b"{}", None)])
def test_a_pause_that_a_good_answer_asks_for_is_told_beside_success(body: bytes, wait: int | None) -> None:
    declared = replace(operation(), rate_limit=RateLimit(pace_from=Delay(path="json.backoff", kind="delta_s")))
    verdict = classified(frozen(declared=declared), answer(200, body)).verdict

    assert (Category.SUCCESS, wait) == (verdict.category, verdict.retry_after_s)
