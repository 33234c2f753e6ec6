"""T16, the asking side: nothing that an agent supplies ends a line, frames a body, or sets what is not its to set."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.frozen import FrozenRequest
from broker.core.request_headers import RESERVED
from broker.core.resolve import HttpAsk, Invalid, resolve
from tests.fakes.policies import SHOP, policy_of

POLICY = policy_of(SHOP)
BREAKS = ["\r\n", "\r", "\n", "\x00", "\x0b", "\x0c", "\x85", "\u2028", "\x1f", "\x7f"]


def asked(**parts: object) -> FrozenRequest | Invalid:
    return resolve(POLICY, HttpAsk(**({"service": "shop", "method": "GET", "path": "/x"} | parts)))  # type: ignore[arg-type]  # parts of a request


def head_of(frozen: FrozenRequest) -> str:
    """The request head as a naive writer would put it."""
    target = frozen.path + (f"?{frozen.query}" if frozen.query else "")
    lines = [f"{frozen.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in frozen.headers)]
    return "\r\n".join(lines)


@pytest.mark.parametrize("ending", BREAKS)
@pytest.mark.parametrize("place", ["name", "value", "path", "method", "url"])
def test_no_line_ends_where_an_agent_wants(ending: str, place: str) -> None:
    smuggled = f"x{ending}evil: 1"
    parts: dict[str, object] = {
        "name": {"headers": ((smuggled, "1"),)},
        "value": {"headers": (("a", smuggled),)},
        "path": {"path": f"/{smuggled}"},
        "method": {"method": f"GET{ending}"},
        "url": {"service": None, "path": None, "url": f"https://api.shop.example/v1/{smuggled}"},
    }[place]  # type: ignore[assignment]  # one of these

    resolved = asked(**parts)
    if isinstance(resolved, FrozenRequest):  # beyond ASCII a path is percent-encoded
        assert head_of(resolved).isascii()
        assert "evil: 1" not in head_of(resolved)
    else:
        assert resolved.code in {"schema", "bad_url", "reserved_header"}


@pytest.mark.parametrize("ending", BREAKS)
def test_a_query_value_or_argument_never_ends_a_line(ending: str) -> None:
    by_query = asked(query=(("q", f"x{ending}evil: 1"),))
    by_name = asked(method=None, path=None, operation="orders.get", args={"order_id": f"x{ending}evil: 1"})

    assert isinstance(by_query, FrozenRequest)
    for resolved in (by_query, by_name):
        if isinstance(resolved, FrozenRequest):
            assert head_of(resolved).count("\r\n") == len(resolved.headers)
            assert head_of(resolved).isascii()


@pytest.mark.parametrize("name", sorted({*RESERVED, "proxy-authorization", "x-forwarded-host", "Transfer-Encoding"}))
def test_framing_routing_and_credentials_are_not_the_agents_to_set(name: str) -> None:
    resolved = asked(headers=((name, "chunked"),))

    assert isinstance(resolved, Invalid)
    assert resolved.code == "reserved_header"


@pytest.mark.parametrize("name", ["Content-Length ", "Transfer_Encoding\t", "Host:", " host", "ho\u017ft", "te\u0000"])
def test_a_name_that_only_looks_reserved_is_no_name(name: str) -> None:
    assert isinstance(asked(headers=((name, "x"),)), Invalid)


def test_a_header_can_not_be_named_twice() -> None:
    assert isinstance(
        asked(method="POST", body=b"x", headers=(("Content-Type", "a/b"), ("content-type", "c/d"))), Invalid
    )


def test_no_method_is_smuggled_in_by_a_header() -> None:
    for name in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"):
        assert isinstance(asked(method="POST", headers=((name, "DELETE"),)), Invalid)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4), st.text(max_size=12))
def test_the_head_has_exactly_the_lines_that_the_frozen_request_has(headers: dict[str, str], path: str) -> None:
    resolved = asked(path=f"/{path}", headers=tuple(headers.items()))

    if isinstance(resolved, FrozenRequest):
        head = head_of(resolved)
        assert head.count("\r") == head.count("\n") == len(resolved.headers)
        assert head.split("\r\n", 1)[0].count(" ") == 2
        assert head.isascii()
        assert head.isprintable() or set(head) & {"\r", "\n"}
