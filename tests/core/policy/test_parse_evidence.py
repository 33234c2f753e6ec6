"""What a rule wants to be known before: read whole, and checked against the services that it reaches."""

import tomllib
from dataclasses import replace

import pytest

from broker.contract.reasons import WarningCode
from broker.core.policy.declarations import Claim, EvidenceNeed, Otherwise, Precheck
from broker.core.policy.keys import RULE
from broker.core.policy.model import Policy, Rule
from broker.core.policy.parse_evidence import check_reads, evidence_of, precheck_of
from broker.core.policy.parse_rules import rule_of
from broker.core.policy.table import Document, Faults, Table
from tests.fakes.policies import SHOP, policy_of

LISTED = 'query = ["state", "tag", "page"] }\n'
COUNTED = SHOP.replace(LISTED, f'{LISTED}completeness = {{ items = "json", id = "id" }}\n', 1)
SHOP_POLICY: Policy = policy_of(COUNTED)
SSH = """
[services.far]
kind = "ssh"
hosts = { h = { address = "h.example", user = "u", host_keys = "accept-new" } }
operations.x = { command = ["true"], effect = "read" }
"""


def table(text: str) -> Table:
    values = tomllib.loads(f'id = "r"\napproval = "per_call"\n{text}\n')
    document = Document(name="p.toml", values=values, line_of=lambda _: 1)
    return Table(document=document, path=(), values=values, known=RULE, faults=Faults())


def told(below: Table) -> list[str]:
    return [f"{fault.key}: {fault.problem}" for fault in below.faults]


NEED = 'from = "orders.list", claim = "absent", covers = "{order_id}", id = "json.id"'


def test_evidence_is_read_whole() -> None:
    args = 'args = { state = "{state}", page = 1 }'
    more = 'max_age_s = 60, refuse_warnings = ["STALE_INDEX"], otherwise = "ask"'
    below = table(f"evidence = {{ {NEED}, {args}, {more} }}")

    assert EvidenceNeed(
        operation="orders.list",
        args={"state": "{state}", "page": 1},
        claim=Claim.ABSENT,
        covers="{order_id}",
        id="id",
        max_age_s=60,
        refuse_warnings=(WarningCode.STALE_INDEX,),
        otherwise=Otherwise.ASK,
    ) == evidence_of(below)
    assert [] == told(below)


def test_a_precheck_is_read_whole() -> None:
    below = table(
        'precheck = { operation = "orders.get", args = { order_id = "{order_id}" }, expect = "json.id==$order_id" }'
    )

    assert Precheck(
        operation="orders.get", args={"order_id": "{order_id}"}, expect="json.id==$order_id"
    ) == precheck_of(below)
    assert [] == told(below)


def test_a_rule_without_either_wants_neither() -> None:
    assert (None, None) == (evidence_of(table("")), precheck_of(table("")))
    assert Otherwise.DENY is getattr(evidence_of(table(f"evidence = {{ {NEED} }}")), "otherwise", None)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("evidence = {}", "evidence.from: missing"),
        (f"evidence = {{ {NEED.replace('{order_id}', 'order_id')} }}", "evidence.covers: malformed"),
        (f"evidence = {{ {NEED}, args = {{ a = [] }} }}", "evidence.args: a is neither text, number"),
        (f'evidence = {{ {NEED}, args = {{ a = "{{b" }} }}', "evidence.args: a holds an odd brace"),
        ('precheck = { operation = "orders.get", expect = "json.a" }', "precheck.expect: a bare value is no test"),
    ],
)
def test_a_slip_is_told(text: str, fault: str) -> None:
    below = table(text)
    evidence_of(below)
    precheck_of(below)

    assert [fault] == [fault for found in told(below) if fault in found][:1]


def checked(text: str, policy: Policy = SHOP_POLICY) -> list[str]:
    below = table(text)
    rule: Rule = rule_of(below)
    check_reads(below, rule, policy.services.values())
    return [line for line in told(below) if "not supported" not in line]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"evidence = {{ {NEED} }}", None),
        (f'evidence = {{ {NEED}, args = {{ state = "x" }} }}', None),
        (
            f'evidence = {{ {NEED}, args = {{ nosuch = "x" }} }}',
            "evidence.from: shop.orders.list takes page, state, tag",
        ),
        (
            f"evidence = {{ {NEED.replace('orders.list', 'nosuch')} }}",
            'evidence.from: the service shop declares no read "nosuch"',
        ),
        (f"evidence = {{ {NEED.replace('orders.list', 'orders.create')} }}", 'declares no read "orders.create"'),
        (
            'precheck = { operation = "orders.get", expect = "status==`200`" }',
            "precheck.operation: shop.orders.get needs order_id",
        ),
        (
            'precheck = { operation = "orders.newest", args = { a = 1 }, expect = "status==`200`" }',
            "orders.newest takes no argument",
        ),
    ],
)
def test_the_reads_are_declared_and_take_these_arguments(text: str, fault: str | None) -> None:
    found = checked(text)

    assert ([] if fault is None else [True]) == [fault is not None and fault in line for line in found]


def test_what_is_leaned_on_is_a_list_whose_ids_stand_where_the_rule_looks() -> None:
    need = f"evidence = {{ {NEED} }}"

    assert ["evidence.from: shop.orders.list does not declare completeness with items and id"] == checked(
        need, policy_of(SHOP)
    )
    assert ["evidence.from: the id of shop.orders.list's rows is declared as id"] == checked(
        need.replace("json.id", "uid")
    )


def test_a_rule_that_reaches_nothing_over_http_can_rest_on_no_read() -> None:
    assert ["evidence.from: the rule reaches no service over HTTP"] == checked(
        f"evidence = {{ {NEED} }}", policy_of(SSH)
    )


def test_a_read_whose_path_is_at_fault_is_told_of_once_and_not_here() -> None:
    shop = SHOP_POLICY.services["shop"]
    broken = {**shop.operations, "orders.list": replace(shop.operations["orders.list"], path="odd")}

    assert [] == checked(
        f"evidence = {{ {NEED} }}", replace(SHOP_POLICY, services={"s": replace(shop, operations=broken)})
    )
