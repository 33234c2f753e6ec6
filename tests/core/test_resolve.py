"""Resolution: what an agent asked becomes one frozen request, or a refusal that says what is wrong."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import CODES, Category, Effect
from broker.contract.wire import JsonValue
from broker.core.frozen import Deadlines, FrozenRequest
from broker.core.ledger import change_key
from broker.core.resolve import HttpAsk, Invalid, resolve
from tests.fakes.policies import SHOP, policy_of

OTHER = """
[services.other]
kind = "http"
base_url = "https://api.shop.example"
ad_hoc = ["GET", "DELETE", "HEAD"]

[services.twin-a]
kind = "http"
base_url = "https://twin.example"

[services.twin-b]
kind = "http"
base_url = "https://twin.example"
"""
POLICY = policy_of(SHOP, OTHER)


def frozen(**parts: Any) -> FrozenRequest:
    resolved = resolve(POLICY, HttpAsk(**parts))
    assert isinstance(resolved, FrozenRequest), resolved
    return resolved


def refused(**parts: Any) -> Invalid:
    resolved = resolve(POLICY, HttpAsk(**parts))
    assert isinstance(resolved, Invalid), resolved
    assert resolved.code in CODES[Category.INVALID_REQUEST]
    assert len(resolved.message) <= 300
    return resolved


def shop(**parts: Any) -> FrozenRequest:
    return frozen(service="shop", **parts)


CREATE: dict[str, JsonValue] = {"shop": "acme", "branch": "site", "name": "n", "note": "x"}


def test_a_declared_operation_is_spelled_out_in_full() -> None:
    request = shop(
        operation="orders.create", args=CREATE, headers=(("Prefer", "wait"),), deadlines=Deadlines(total_s=9)
    )

    assert ("shop.orders.create", "POST") == (request.operation, request.method)
    assert request.url == "https://api.shop.example/v1/shops/acme/site/orders"
    assert ("api.shop.example", 443, "/v1/shops/acme/site/orders", "") == (
        request.host, request.port, request.path, request.query,
    )  # fmt: skip
    assert b'{"name":"n","note":"x"}' == request.body
    assert {
        "accept": "application/json",
        "user-agent": "doorward",
        "prefer": "wait",
        "x-version": "7",
        "content-type": "application/json",
    } == dict(request.headers)
    assert (Effect.WRITE, False, CREATE) == (request.effect, request.destructive, request.args)
    assert request.deadlines.total_s == 9


def test_the_service_may_stand_in_the_operations_name() -> None:
    assert frozen(operation="shop.orders.get", args={"order_id": 1}) == shop(
        operation="orders.get", args={"order_id": "1"}
    )


def test_a_path_request_that_fits_an_operation_is_that_operation() -> None:
    by_name = shop(operation="orders.create", args=CREATE)
    by_path = shop(method="post", path="/shops/acme/site/orders", body=b'{ "note": "x", "name": "n" }')
    by_url = frozen(method="POST", url="https://API.shop.example:443/v1/shops/acme/site/orders", body=by_name.body)

    assert by_name == by_path == by_url
    assert by_name.digest == by_path.digest


def test_query_values_may_stand_in_the_path_or_beside_it() -> None:
    one = shop(method="GET", path="/orders?state=open", query=(("tag", "a b"), ("tag", "c&d")))
    other = shop(operation="orders.list", args={"tag": ["a b", "c&d"], "state": "open"})

    assert one == other
    assert one.query == "state=open&tag=a%20b&tag=c%26d"


def test_the_most_literal_template_wins() -> None:
    assert shop(method="GET", path="/orders/newest").operation == "shop.orders.newest"
    assert shop(method="GET", path="/orders/7").operation == "shop.orders.get"


def test_arguments_that_spell_another_operations_path_are_refused() -> None:
    refusal = refused(service="shop", operation="orders.get", args={"order_id": "newest"})

    assert refusal.code == "schema"
    assert "orders.newest" in refusal.message


def test_what_fits_no_operation_is_ad_hoc() -> None:
    request = shop(method="GET", path="/other/x%41?a=1", query=(("b", "2 3"),))

    assert ("shop.GET", None, Effect.READ, False) == (
        request.operation, request.declared, request.effect, request.destructive,
    )  # fmt: skip
    assert request.url == "https://api.shop.example/v1/other/xA?a=1&b=2%203"
    assert request.identifies == "/v1/other/xA"
    assert () == request.targets


def test_an_ad_hoc_method_that_the_service_does_not_list_is_frozen_for_the_policy_to_deny() -> None:
    request = shop(method="DELETE", path="/a/b%20c")

    assert ("shop.DELETE", Effect.WRITE, True, ("b c",)) == (
        request.operation, request.effect, request.destructive, request.targets,
    )  # fmt: skip


def test_an_ad_hoc_delete_of_the_root_has_no_target_to_name() -> None:
    assert () == frozen(service="other", method="DELETE", path="/").targets


def test_an_ad_hoc_body_keeps_its_bytes_and_its_type() -> None:
    said = shop(method="POST", path="/x", body=b"a=1", headers=(("Content-Type", "text/x"),))
    implied = shop(method="POST", path="/x", body=b"[1]", body_media="application/json")
    unsaid = shop(method="POST", path="/x", body=b"\x00")

    assert (b"a=1", "text/x") == (said.body, dict(said.headers)["content-type"])
    assert (b"[1]", "application/json") == (implied.body, dict(implied.headers)["content-type"])
    assert dict(unsaid.headers)["content-type"] == "application/octet-stream"


def test_without_a_body_there_is_no_content_type() -> None:
    assert "content-type" not in dict(shop(method="POST", path="/x", headers=(("content-type", "a/b"),)).headers)


def test_a_url_belongs_to_the_service_with_the_longest_base_on_a_segment_boundary() -> None:
    assert frozen(method="GET", url="https://api.shop.example/v1/x").service.name == "shop"
    assert frozen(method="GET", url="https://api.shop.example/v1").service.name == "shop"
    assert frozen(method="GET", url="https://api.shop.example/v10/x").service.name == "other"


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example/v1",
        "http://api.shop.example/v1/x",
        "https://api.shop.example:8443/v1/x",
        "https://api.shop.example.evil.example/v1",
        "https://twin.example/x",
    ],
)
def test_a_url_that_no_single_service_covers_is_of_an_unknown_service(url: str) -> None:
    assert refused(method="GET", url=url).code == "unknown_service"


def test_the_card_names_adjacent_path_arguments_together() -> None:
    cancel = shop(operation="orders.cancel", args={"shop": "acme", "branch": "site", "order_id": 1290})

    assert "acme/site 1290" == cancel.identifies
    assert ("1290",) == cancel.targets
    assert cancel.destructive


def test_a_title_names_what_it_says_and_targets_what_they_name() -> None:
    request = shop(operation="files.put", args={"path": "docs/a b", "meta": {"id": [1, "two"]}})

    assert ("docs/a b", ("docs/a b", "1", "two")) == (request.identifies, request.targets)
    assert request.path == "/v1/files/docs/a%20b"
    assert {"meta": {"id": [1, "two"]}} == json.loads(request.body)
    assert ("docs/a b",) == shop(operation="files.put", args={"path": "docs/a b", "meta": "none"}).targets


def test_an_operation_without_path_arguments_is_named_by_its_path() -> None:
    assert "/v1/orders" == shop(operation="orders.list", args={}).identifies


def test_a_destructive_operation_without_path_arguments_has_no_target_of_its_own() -> None:
    purge = """
[services.shop.operations.purge]
request = { method = "DELETE", path = "/all" }
effect = "write"
destructive = true
"""
    resolved = resolve(policy_of(SHOP + purge), HttpAsk(service="shop", operation="purge"))

    assert isinstance(resolved, FrozenRequest)
    assert () == resolved.targets


def test_a_template_that_ends_in_a_slash_is_matched_and_spelled_with_it() -> None:
    request = shop(operation="jobs.run", args={"dry": True})

    assert request.url == "https://api.shop.example/v1/jobs/?dry=true"
    assert Effect.EXEC is request.effect
    assert request == shop(method="POST", path="/jobs/?dry=true")


@pytest.mark.parametrize(
    "path",
    [
        *("/orders/7/", "/Orders/7", "/ORDERS/newest", "/orders/", "/Files/a/b/", "/FILES/a;v=1/b/"),
        *("/orders;v=1", "/orders;v=1/7", "/orders%3Bv=1", "/orders.", "/orders%20", "/%20orders", "/orders.%20./7"),
        *("/orders%e2%80%8b", "/%ef%bd%8frders", "/;a/orders", "/orders/%20/"),
    ],
)
def test_a_path_that_a_careless_upstream_reads_as_an_operations_is_no_way_around_it(path: str) -> None:
    method = "PUT" if path.casefold().startswith("/files") else "GET"

    assert refused(service="shop", method=method, path=path).code == "bad_url"


def test_what_another_service_declares_more_closely_is_asked_of_that_one() -> None:
    told = refused(service="other", method="GET", path="/v1/anything")

    assert ("bad_url", True) == (told.code, "below the base URL of the service shop" in told.message)
    assert frozen(service="other", method="GET", path="/v10/anything").service.name == "other"


def test_a_missing_slash_at_the_end_is_no_way_around_either() -> None:
    assert refused(service="shop", method="POST", path="/jobs").code == "bad_url"


@pytest.mark.parametrize(
    ("parts", "code", "reason"),
    [
        ({"service": "nosuch", "method": "GET", "path": "/"}, "unknown_service", "no service of that name"),
        ({"service": "nosuch", "operation": "x"}, "unknown_service", "no service of that name"),
        ({"operation": "orders.list"}, "unknown_service", "no service of that name"),
        ({"service": "shop", "operation": "nosuch"}, "unknown_operation", "declares no operation of that name"),
        ({"service": "shop", "operation": ""}, "unknown_operation", "declares no operation of that name"),
        ({"service": "shop", "operation": "orders.list", "method": "GET"}, "schema", "not both"),
        ({"service": "shop", "operation": "orders.list", "path": "/"}, "schema", "not both"),
        ({"service": "shop", "operation": "orders.list", "url": "https://a/"}, "schema", "not both"),
        ({"service": "shop", "operation": "orders.list", "query": (("a", "b"),)}, "schema", "not both"),
        ({"service": "shop", "operation": "orders.get"}, "schema", "missing: order_id"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": ""}}, "schema", "order_id is empty"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": ".."}}, "schema", "dot segment"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": "a/b"}}, "schema", "holds a slash"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": "\ud800"}}, "schema", "surrogate"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": "a\nb"}}, "bad_url", "hides"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": "a\\b"}}, "bad_url", "hides"),
        ({"service": "shop", "operation": "orders.get", "args": {"order_id": "%2e%2e"}}, "bad_url", "hides"),
        ({"service": "shop", "operation": "files.put", "args": {"path": "a//b"}}, "schema", "path is empty"),
        ({"service": "shop", "operation": "files.put", "args": {"path": "a/../b"}}, "schema", "dot segment"),
        ({"service": "shop", "method": "GET", "path": "/x", "args": {}}, "schema", "args belong to an operation"),
        ({"service": "shop", "path": "/x"}, "schema", "The method is one of"),
        ({"service": "shop", "method": "TRACE", "path": "/x"}, "schema", "The method is one of"),
        ({"service": "shop", "method": "CONNECT", "path": "/x"}, "schema", "The method is one of"),
        ({"method": "GET"}, "schema", "Give a service"),
        ({"service": "shop", "method": "GET"}, "schema", "Give a service"),
        ({"method": "GET", "path": "/x"}, "schema", "Give a service"),
        ({"service": "shop", "method": "GET", "url": "https://a/"}, "schema", "not both"),
        ({"path": "/x", "method": "GET", "url": "https://a/"}, "schema", "not both"),
        ({"service": "shop", "method": "GET", "path": "x"}, "bad_url", "begins with a slash"),
        ({"service": "shop", "method": "GET", "path": "@evil.example/"}, "bad_url", "begins with a slash"),
        ({"service": "shop", "method": "GET", "path": "//evil.example"}, "bad_url", "empty segment"),
        ({"service": "shop", "method": "GET", "path": "/../x"}, "bad_url", "dot segment"),
        ({"service": "shop", "method": "GET", "path": "/x#y"}, "bad_url", "fragment"),
        ({"service": "shop", "method": "GET", "path": "/x y"}, "bad_url", "write a space as %20"),
        ({"method": "GET", "url": "https://u@api.shop.example/"}, "bad_url", "user names"),
        ({"service": "shop", "method": "GET", "path": "/x", "query": (("a", "b" * 9000),)}, "bad_url", "longer than"),
        ({"service": "shop", "method": "GET", "path": "/x", "body": b"x"}, "schema", "carries no body"),
        ({"service": "shop", "method": "GET", "path": "/orders?odd=1"}, "schema", "does not declare"),
        ({"service": "shop", "method": "GET", "path": "/orders", "body": b"{}"}, "schema", "takes no body"),
        ({"service": "shop", "method": "POST", "path": "/x", "body": b"x" * 262_145}, "body_too_large", "262144 bytes"),
        (
            {"service": "shop", "operation": "files.put", "args": {"path": "a", "x": "y" * 262_144}},
            "body_too_large",
            "262144 bytes",
        ),
        ({"service": "shop", "method": "GET", "path": "/x", "headers": (("Host", "a"),)}, "reserved_header", "host"),
        ({"service": "shop", "method": "GET", "path": "/x", "headers": (("a", "b\r\nc"),)}, "schema", "control"),
        (
            {"operation": "shop.orders.create", "args": CREATE, "headers": (("Content-Type", "text/plain"),)},
            "schema",
            "application/json",
        ),
    ],
)  # fmt: skip
def test_a_request_at_fault_is_refused_with_its_code(parts: dict[str, Any], code: str, reason: str) -> None:
    refusal = refused(**parts)

    assert code == refusal.code
    assert reason in refusal.message


def test_a_json_type_with_parameters_is_json() -> None:
    headers = (("content-type", "application/json; charset=utf-8"),)

    assert b"{" in shop(operation="orders.create", args=CREATE, headers=headers).body


def test_a_query_or_a_spelling_makes_no_other_change_of_it() -> None:
    by_name = shop(operation="orders.create", args=CREATE)
    by_path = shop(method="POST", path="/shops/%61cme/site/orders", body=b'{"name":"n"}')

    assert change_key(by_name) == change_key(by_path)


def test_a_refusal_repeats_no_text_of_the_agent() -> None:
    told = [
        refused(service="canary-x", method="GET", path="/"),
        refused(service="shop", operation="canary-x"),
        refused(service="shop", operation="orders.get", args={"order_id": "1", "canary-x": 1}),
        refused(service="shop", method="GET", path="/orders?canary-x=1"),
        refused(service="shop", method="GET", path="/x", headers=(("canary-x y", "1"),)),
        refused(method="GET", url="https://canary-x.example/"),
    ]

    assert not [refusal for refusal in told if "canary" in refusal.message]


TEXT = st.text(max_size=12)


@given(shop_name=TEXT, branch=TEXT, order=TEXT)
def test_an_argument_never_reaches_past_its_segment(shop_name: str, branch: str, order: str) -> None:
    args = {"shop": shop_name, "branch": branch, "order_id": order}
    resolved = resolve(POLICY, HttpAsk(service="shop", operation="orders.cancel", args=args))

    if isinstance(resolved, FrozenRequest):
        assert resolved.path.count("/") == 6
        assert resolved.query == ""
        assert resolve(POLICY, HttpAsk(method="DELETE", url=resolved.url)) == resolved


@given(path=st.text(alphabet="/ab.%2fFe5c0;?#@:\\", max_size=16), method=st.sampled_from(["GET", "POST"]))
def test_whatever_the_path_a_request_stays_below_its_base_url(path: str, method: str) -> None:
    resolved = resolve(POLICY, HttpAsk(service="shop", method=method, path=path))

    if isinstance(resolved, FrozenRequest):
        assert resolved.url.startswith("https://api.shop.example/v1/")
        assert resolved.host == "api.shop.example"


def test_a_service_reached_by_its_bare_origin_is_asked_for_its_root() -> None:
    bare = replace(POLICY.services["other"], base_path="")

    assert bare.base_url == "https://api.shop.example"
    assert frozen(method="GET", url="https://api.shop.example").path == "/"
