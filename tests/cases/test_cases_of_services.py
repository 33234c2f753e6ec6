"""What real services answer, and what it means, each through the loader with its operation declared as data.

Every case stands in a file beside this one. `before` holds the pages of a list that came before the answer, and then
all of them are collected; `earlier` tells that our own earlier attempt at the same change is in doubt,
`forgotten` that it went out under a key which the upstream knows no more. `then` holds what is answered where a
redirect leads. A case with
`missing` needs what the broker does not have, and says so; it is held to fail.
"""

import base64
import tomllib
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from broker.core.classify.batch import accounts_of
from broker.core.classify.case import Case
from broker.core.classify.order import classify
from broker.core.classify.reading import as_declared, read_body
from broker.core.collect.budget import Wish
from broker.core.collect.ending import concluded
from broker.core.collect.page import read_page
from broker.core.collect.request import CollectAsk, resolve_collect
from broker.core.collect.walk import On, Over, after, begun
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.policy.model import Policy
from broker.core.predicate import answer_view
from broker.core.redirects import next_hop
from broker.core.resolve import HttpAsk, resolve
from broker.policyfiles import PolicyFile
from broker.policyfiles.load import load_policy
from tests.cases.table import print_table

GROUPS = {"auth": 27, "completeness": 35, "malformed": 29, "rate_limit": 17, "uncertain": 35, "further": 33}
HERE = Path(__file__).parent
NOW_MS = 1_795_953_600_000
POLICY = """
version = 1

[services.s]
kind = "http"
base_url = "https://{host}"

[services.s.operations.l]
effect = "read"
request = {{ method = "GET", path = "/read-back" }}

[services.s.operations.o]
{declares}
"""
CASES: dict[str, dict[str, dict[str, Any]]] = {
    group: tomllib.loads((HERE / f"{group}.toml").read_text(encoding="utf-8")) for group in GROUPS
}
Found = dict[str, Any]


def each() -> list[Any]:
    return [
        pytest.param(
            group,
            case,
            id=f"{name}: {case['claim']}",
            marks=[pytest.mark.xfail(strict=True, reason=case["missing"])] if "missing" in case else [],
        )
        for group, cases in CASES.items()
        for name, case in cases.items()
    ]


@pytest.fixture(scope="module")
def green(request: pytest.FixtureRequest) -> Any:
    """Counts, and prints a table of them past whatever is captured."""
    counted: Counter[str] = Counter()
    yield counted
    print_table(request.config, counted, {group: len(cases) for group, cases in CASES.items()})


@pytest.mark.parametrize(("group", "case"), each())
def test_an_answer_means_what_its_case_says(group: str, case: dict[str, Any], green: Counter[str]) -> None:
    expected = {"retry_after_s": None, "complete": None} | case["expect"]
    found = collected(case) if "before" in case else judged(case)

    assert expected == {key: found[key] for key in expected}
    green[group] += 1


def test_no_case_is_lost() -> None:
    assert GROUPS == {group: len(cases) for group, cases in CASES.items()}
    sources = {case["source"] for cases in CASES.values() for case in cases.values()}
    assert {"the result contract"} == {one for one in sources if not one.startswith("https://")}


def judged(case: dict[str, Any]) -> Found:
    frozen = frozen_of(case)
    raw = raw_of(case, frozen)
    for answer in case.get("then", ()):  # where a redirect leads
        assert "redirect_not_followed" == classify(frozen, raw, now_ms=NOW_MS).verdict.code
        hop = next_hop(frozen, raw)
        assert hop is not None
        frozen, raw = hop, raw_of({"answer": answer}, hop)
    seen = classify(frozen, raw, now_ms=now_ms(case), prior_doubt="earlier" in case, key_expired="forgotten" in case)
    verdict, told = seen.verdict, seen.completeness
    return {
        "items": accounts(frozen, raw),
        "category": verdict.category.value,
        "retry": verdict.retry.value,
        "retry_after_s": verdict.retry_after_s,
        "remote_effect": verdict.remote_effect.value,
        "complete": None if told is None else told.complete,
        "truncated": None if told is None else told.truncated,
        "next_cursor": None if told is None or told.next_cursor is None else led_to(frozen, told.next_cursor),
        "reasons": [] if told is None else [reason.code.value for reason in told.reasons],
        "warnings": [*(warning.code.value for warning in seen.warnings), *noticed(case)],
    }


def led_to(frozen: FrozenRequest, cursor: str) -> str:
    """A token as it is, and of a URL what stands behind the service's own."""
    return cursor.removeprefix(frozen.service.base_url)


def noticed(case: dict[str, Any]) -> list[str]:
    """What is said beside an answer that came from another address than was asked."""
    return ["DEFAULT_SCOPE_APPLIED"] if "then" in case else []


def accounts(frozen: FrozenRequest, raw: RawOutcome) -> dict[str, int]:
    """How the items of a batch fared, without what the answer does not tell."""
    reading = as_declared(read_body(raw, method=frozen.method), raw, frozen.declared)
    view = answer_view(
        status=raw.status or 0, headers=raw.headers, json=reading.json, text=reading.text, xml=reading.xml
    )
    case = Case(frozen=frozen, raw=raw, reading=reading, view=view, now_ms=NOW_MS, prior_doubt=False)
    found = accounts_of(case)
    told = {} if found is None else {"ok": found.ok, "failed": found.failed, "unaccounted": found.unaccounted}
    return {name: count for name, count in told.items() if count is not None}


def frozen_of(case: dict[str, Any]) -> FrozenRequest:
    frozen = resolve(policy_of(case), HttpAsk(service="s", operation="o", args=case.get("args", {})))
    assert isinstance(frozen, FrozenRequest), frozen
    return frozen


def policy_of(case: dict[str, Any]) -> Policy:
    host = case.get("host", "api.example")
    text = POLICY.format(declares=case["declares"], host=host).encode()
    return load_policy([PolicyFile(name="case.toml", raw=text)])


def raw_of(case: dict[str, Any], frozen: FrozenRequest) -> RawOutcome:
    answer = case["answer"]
    body = base64.b64decode(answer["body_b64"]) if "body_b64" in answer else answer.get("body", "").encode()
    fault = Fault(answer["fault"]) if "fault" in answer else None
    return RawOutcome(
        phase=Phase(answer.get("phase", "response_complete")),
        fault=fault,
        status=answer.get("status"),
        headers=tuple(answer.get("headers", {}).items()),
        body=body,
        body_complete=fault is None,
        sent_bytes=-1 if answer.get("early") else len(frozen.body),
        elapsed_ms=5,
    )


def now_ms(case: dict[str, Any]) -> int:
    return round(datetime.fromisoformat(case["clock"]).timestamp() * 1000) if "clock" in case else NOW_MS


def collected(case: dict[str, Any]) -> Found:
    """All pages of the case as one call, by the rules of the core and nothing else."""
    policy = policy_of(case)
    ask = CollectAsk(service="s", operation="o", args=case.get("args", {}), wish=Wish())
    frozen = resolve_collect(policy, ask, None)
    assert isinstance(frozen, FrozenRequest), frozen
    operation = frozen.declared
    assert operation is not None
    walk, rows, seen, move = begun(frozen, None, now_ms=0), 0, None, None
    for answer in [*case["before"], case["answer"]]:
        raw = raw_of({"answer": {"status": 200, "headers": {"content-type": "application/json"}} | answer}, walk.asked)
        seen = classify(walk.asked, raw, now_ms=0)
        page = read_page(operation, walk.asked, raw, seen.completeness)
        move = after(walk, seen.verdict, page, is_clean=True, elapsed_ms=1, policy=policy)
        assert isinstance(move, On | Over)
        rows += len(page.rows or ())
        walk = move.walk
    assert isinstance(move, Over)
    assert seen is not None
    ending = concluded(operation, walk.progress, move.cause, args=walk.args, returned=rows)
    return {
        "category": ending.verdict.category.value,
        "retry": ending.verdict.retry.value,
        "retry_after_s": ending.verdict.retry_after_s,
        "remote_effect": ending.verdict.remote_effect.value,
        "complete": ending.completeness.complete,
        "truncated": ending.completeness.truncated,
        "reasons": [reason.code.value for reason in ending.completeness.reasons],
        "warnings": [warning.code.value for warning in seen.warnings],
    }
