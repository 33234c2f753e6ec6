"""A key of the broker's may be an argument: nobody else says it, and nothing else of the request differs by it."""

from dataclasses import replace
from typing import Any

import pytest

from broker.contract.wire import parse_object
from broker.core.frozen import FrozenRequest
from broker.core.key_argument import with_key
from broker.core.resolve import HttpAsk, Invalid, resolve
from tests.fakes.policies import faults_of, policy_of

KEY = 'idempotency = { kind = "key", param = "%s", window_s = 60 }'
HEAD = '[services.s]\nkind = "http"\nbase_url = "https://s.example/api"\n'


def one(request: str, param: str, more: str = "") -> str:
    return f'{HEAD}[services.s.operations.o]\neffect = "write"\nrequest = {{ {request} }}\n{KEY % param}\n{more}\n'


QUERY = one('method = "POST", path = "/", query = ["Token", "n"], fixed_query = { Action = "Run" }', "Token")
BODY = one('method = "POST", path = "/", body = ["amount", "idempotency_key"]', "idempotency_key")
FORM = one('method = "POST", path = "/", body = ["n", "token"], media = "form"', "token")
NESTED = one('method = "POST", path = "/", body = ["order"]', "order.token")
FREE = one('method = "POST", path = "/", body = "object"', "token")


def frozen(text: str, **args: Any) -> FrozenRequest:
    found = resolve(policy_of(text), HttpAsk(service="s", operation="o", args=args))
    assert isinstance(found, FrozenRequest), found
    return found


def refused(text: str, **args: Any) -> Invalid:
    found = resolve(policy_of(text), HttpAsk(service="s", operation="o", args=args))
    assert isinstance(found, Invalid), found
    return found


def test_it_stands_in_the_query_behind_what_is_fixed() -> None:
    asked = frozen(QUERY, n="1")
    sent = with_key(asked, "dw-1")

    assert "Action=Run&n=1" == asked.query
    assert "https://s.example/api/?Action=Run&Token=dw-1&n=1" == sent.url
    assert replace(asked, url=sent.url, query=sent.query) == sent


def test_it_stands_in_a_body_of_json_or_of_a_form() -> None:
    sent = with_key(frozen(BODY, amount=5), "dw-1")

    assert {"amount": 5, "idempotency_key": "dw-1"} == parse_object(sent.body, max_bytes=100)
    assert "https://s.example/api/" == sent.url
    assert b"n=1&token=dw-1" == with_key(frozen(FORM, n="1"), "dw-1").body
    assert b'{"a":1,"token":"dw-1"}' == with_key(frozen(FREE, a=1), "dw-1").body


def test_it_may_stand_within_an_argument() -> None:
    assert b'{"order":{"n":1,"token":"dw-1"}}' == with_key(frozen(NESTED, order={"n": 1}), "dw-1").body
    assert b'{"order":{"token":"dw-1"}}' == with_key(frozen(NESTED), "dw-1").body


def test_what_is_decided_about_has_no_key_in_it() -> None:
    asked = frozen(BODY, amount=5)

    assert asked.digest != with_key(asked, "dw-1").digest
    assert b'{"amount":5}' == asked.body


def test_where_the_key_is_a_header_or_none_the_request_stays_as_it_is() -> None:
    header = one('method = "POST", path = "/"', "x").replace('param = "x"', 'header = "idempotency-key"')
    asked = frozen(header)

    assert asked is with_key(asked, "dw-1")
    ad_hoc = replace(asked, declared=None)
    assert ad_hoc is with_key(ad_hoc, "dw-1")


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (QUERY, {"Token": "mine"}),
        (BODY, {"idempotency_key": None}),
        (NESTED, {"order": {"token": "mine"}}),
        (NESTED, {"order": "no object"}),
        (FREE, {"token": 1}),
    ],
)
def test_nobody_else_says_it(text: str, args: dict[str, Any]) -> None:
    found = refused(text, **args)

    assert "schema" == found.code
    assert "the broker's own key" in found.message


def test_nobody_says_it_by_the_path_either() -> None:
    found = resolve(
        policy_of(QUERY),
        HttpAsk(service="s", method="POST", path="/", query=(("Action", "Run"), ("Token", "mine"))),
    )

    assert isinstance(found, Invalid)
    assert "the broker's own key" in found.message


def test_what_holds_it_has_to_be_an_object() -> None:
    with pytest.raises(ValueError, match="no object"):
        with_key(replace(frozen(NESTED), args={"order": "x"}), "dw-1")


@pytest.mark.parametrize(
    ("request_", "param", "more", "fault"),
    [
        ('method = "POST", path = "/{token}"', "token", "", "the broker can't put a key there"),
        ('method = "POST", path = "/", body = "raw", media = "text/csv"', "token", "", "can't put a key there"),
        ('method = "POST", path = "/", query = ["t"]', "t.x", "", "only a JSON body has places"),
        ('method = "POST", path = "/", body = ["t"], media = "form"', "t.x", "", "only a JSON body has places"),
        ('method = "POST", path = "/", body = ["t"], required = ["t"]', "t", "", "it is the broker's, and stands in"),
        ('method = "POST", path = "/", body = ["t"]', "t", 'change_key = ["t"]', "stands in change_key"),
        ('method = "POST", path = "/", body = ["t"]', "u", "", 'the operation has no argument "u"'),
    ],
)
def test_a_place_that_can_hold_no_key_is_told(request_: str, param: str, more: str, fault: str) -> None:
    found = faults_of(one(request_, param, more))

    assert [True] == [fault in told for told in found if fault in told][:1]
    assert any(".idempotency.param" in told for told in found)


def test_a_key_that_is_inherited_is_told_where_the_operation_stands() -> None:
    text = f"""{HEAD}[services.s.defaults]\n{KEY % "token"}
[services.s.operations.o]
effect = "write"
request = {{ method = "POST", path = "/{{token}}" }}
"""
    assert ["services.s.operations.o: the broker can't put a key there"] == [
        told.partition(": ")[2].partition(", expected")[0] for told in faults_of(text)
    ]


def test_a_read_takes_no_key_and_may_name_the_argument() -> None:
    text = f"""{HEAD}[services.s.defaults]\n{KEY % "token"}
[services.s.operations.o]
effect = "read"
request = {{ method = "GET", path = "/", query = ["token"] }}
"""
    assert "token=mine" == frozen(text, token="mine").query
