"""What a read-back's answer may prove: read as JSON or XML, and never more than the source of it knows."""

from typing import Any

import pytest

from broker.core.policy.model import ReadBack
from broker.operations.reconcile import _complete, _matches
from tests.fakes.attempts import attempt

XML = ReadBack(operation="o", args={}, match="to_array(xml.L.C)[?K==$name]")
ONE = "<L><C><K>order-1</K></C></L>"


@pytest.mark.parametrize(
    ("http", "found"),
    [
        ({"status": 200, "body": ONE}, 1),
        ({"status": 200, "body": ONE.replace("</L>", "<C><K>other</K></C></L>")}, 1),
        ({"status": 200, "body": "<L/>"}, 0),
        ({"status": 200, "body": "<L>"}, None),
        ({"status": 200, "body": "<!DOCTYPE a><L/>"}, None),
        ({"status": 200, "body_b64": "AA=="}, None),
        (None, None),
    ],
)
def test_a_document_of_xml_is_looked_into(http: Any, found: int | None) -> None:
    assert found == _matches(XML, attempt(args={"name": "order-1"}), {"http": http})


@pytest.mark.parametrize(
    ("completeness", "warnings", "whole"),
    [
        ({"complete": True}, [], True),
        ({"complete": False}, [], False),
        (None, [], False),
        ({"complete": True}, [{"code": "PROVIDER_NOTICE"}], True),
        ({"complete": True}, [{"code": "STALE_INDEX"}], False),
    ],
)
def test_an_index_that_may_be_behind_proves_no_absence(completeness: Any, warnings: Any, whole: bool) -> None:  # noqa: FBT001 - a verdict
    assert whole is _complete({"completeness": completeness, "warnings": warnings})
