"""T46, schemas and XML: a hostile answer costs a bounded time, and what can't be looked at is never a success."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest

from broker.contract.reasons import Category
from broker.core.classify.order import classify
from broker.core.outcome import Phase, RawOutcome
from broker.core.policy.schemas import compiled_schema
from broker.core.xml_tree import XmlError, tree_of
from tests.fakes.https_calls import frozen
from tests.fakes.policies import policy_of
from tests.fakes.untraced import untraced

LONGEST_S = 0.15  # three times what is aimed at, for slow machines

SCHEMAS: dict[str, Any] = {
    "unique": {"uniqueItems": True},
    "nested quantifiers": {"pattern": "^(a+)+$"},
    "alternatives": {"items": {"anyOf": [{"type": "string", "pattern": "(x+x+)+y"}, {"type": "object"}]}},
    "recursive": {"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"}},
    "unevaluated": {"contains": {"const": "z"}, "unevaluatedItems": False},
}
ANSWERS: dict[str, Any] = {
    "objects": [{"id": f"a{number}"} for number in range(45_000)],
    "one text, many times": ["a"] * 99_000,
    "a long text": "a" * 200_000 + "!",
    "texts": ["x" * 400] * 250,
    "numbers": list(range(99_000)),
}
DOCUMENTS = {
    "elements": "<a>" + "<b/>" * 49_000 + "</a>",
    "more elements than are looked at": "<a>" + "<b/>" * 250_000 + "</a>",
    "attributes": "<a>" + "".join(f'<b c="{number}"/>' for number in range(24_000)) + "</a>",
    "references": "<a>" + "&#65;" * 200_000 + "</a>",
    "a long name": f"<{'a' * 500_000}/>",
    "namespaces": "<a " + " ".join(f'xmlns:n{number}="u"' for number in range(20_000)) + "/>",
    "depth": "<a>" * 300_000,
    "text between": "<a>" + "x<b>y</b>" * 40_000 + "</a>",
    "entities": '<!DOCTYPE a [<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;">]><a>&b;</a>',
}
POLICY = policy_of(
    """
[services.x]
kind = "http"
base_url = "https://api.example.com"

[services.x.operations.get]
request = { method = "GET", path = "/" }
effect = "read"
response = { media = "xml" }
success = { statuses = [200], when = "xml.a != `null`" }
"""
)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_no_answer_keeps_a_schema_busy(schema: str, answer: str) -> None:
    validator = compiled_schema(json.dumps(SCHEMAS[schema]))

    started = time.thread_time()
    validator.is_valid(ANSWERS[answer])

    assert time.thread_time() - started < LONGEST_S


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_takes_long(document: str) -> None:
    with untraced(), suppress(XmlError):
        started = time.thread_time()
        try:
            tree_of(DOCUMENTS[document])
        finally:
            took = time.thread_time() - started

    assert took < LONGEST_S


@pytest.mark.parametrize("document", ["more elements than are looked at", "depth", "entities"])
def test_a_document_that_is_not_looked_at_is_no_success(document: str) -> None:
    declared = POLICY.services["x"].operations["get"]
    raw = RawOutcome(
        phase=Phase.RESPONSE_COMPLETE,
        status=200,
        headers=(("content-type", "application/xml"),),
        body=DOCUMENTS[document].encode(),
        body_complete=True,
    )

    assert Category.MALFORMED_RESPONSE is classify(frozen(declared=declared), raw, now_ms=0).verdict.category
