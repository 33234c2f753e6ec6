"""The request of an operation: bodies of each kind, and what is the same in every one."""

import pytest

from broker.core.policy.model import Operation
from tests.fakes.policies import faults_of, policy_of

BASE = '[services.s]\nkind = "http"\nbase_url = "https://s.example"\n'


def whole(request: str) -> str:
    return f'{BASE}[services.s.operations.o]\neffect = "write"\nrequest = {{ {request} }}\n'


def read(request: str) -> Operation:
    return policy_of(whole(request)).services["s"].operations["o"]


def test_a_body_is_named_free_or_raw() -> None:
    named = read('method = "POST", path = "/", body = ["a", "_b", "$c"]')
    free = read('method = "POST", path = "/", body = "object"')
    raw = read('method = "PUT", path = "/", body = "raw", media = "text/csv"')

    assert (("a", "_b", "$c"), False, False, "application/json") == (
        named.body, named.body_free, named.body_raw, named.body_media,
    )  # fmt: skip
    assert (None, True, False) == (free.body, free.body_free, free.body_raw)
    assert (None, False, True, "text/csv") == (raw.body, raw.body_free, raw.body_raw, raw.body_media)


def test_a_body_may_travel_as_a_form_or_as_json_of_another_name() -> None:
    form = read('method = "POST", path = "/", body = ["a"], media = "form"')
    named = read('method = "POST", path = "/", body = ["a"], media = "application/x-amz-json-1.0"')

    assert ("application/x-www-form-urlencoded", "application/x-amz-json-1.0") == (form.body_media, named.body_media)


def test_what_is_the_same_in_every_request_is_read() -> None:
    read_ = read(
        'method = "GET", path = "/", query = ["q"], fixed_query = { list-type = "2" }, headers = { X-Target = "T" }, '
        'refused_words = { q = ["drop"] }'
    )

    assert ((("list-type", "2"),), (("x-target", "T"),), {"q": ("drop",)}) == (
        read_.fixed_query, read_.fixed_headers, dict(read_.refused_words),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ('method = "POST", path = "/", body = "any"', "request.body: not one of the values"),
        ('method = "POST", path = "/", body = "raw"', "request.media: missing"),
        ('method = "POST", path = "/", body = "raw", media = "csv"', "request.media: malformed"),
        ('method = "GET", path = "/", media = "json"', "request.media: means nothing without a body"),
        ('method = "POST", path = "/", body = "object", media = "form"', "request.media: a form has named fields"),
        ('method = "POST", path = "/", body = ["a"], media = "text/csv"', "request.media: malformed, expected json"),
        ('method = "GET", path = "/", fixed_query = { a = 1 }', "request.fixed_query: a value is no string"),
        ('method = "GET", path = "/", query = ["a"], fixed_query = { a = "1" }', "a name of it is an argument as well"),
        ('method = "GET", path = "/", headers = { host = "x" }', "the header host is set by the broker alone"),
        ('method = "GET", path = "/", headers = { content-type = "x" }', "the content type follows from `media`"),
        ('method = "GET", path = "/", refused_words = { q = ["a"] }', 'the operation has no argument "q"'),
        ('method = "GET", path = "/", query = ["q"], refused_words = { q = [] }', "refused_words.q: it has 0 members"),
        ('method = "GET", path = "/", query = ["q"], refused_words = { q = ["a b"] }', "refused_words.q[0]: malformed"),
        ('method = "GET", path = "/{a}", query = ["a"]', "stands in two of path, query and body"),
        ('method = "GET", path = "x"', "request.path: a path begins with a slash"),
    ],
)  # fmt: skip
def test_a_request_at_fault_is_told_where(request_: str, fault: str) -> None:
    assert [fault] == [fault for found in faults_of(whole(request_)) if fault in found][:1]


def test_two_operations_with_one_path_differ_by_what_is_fixed() -> None:
    first = (
        '[services.s.operations.a]\neffect = "read"\nrequest = { method = "GET", path = "/", headers = { x = "a" } }\n'
    )
    other = first.replace("operations.a", "operations.b")

    assert [] == faults_of(BASE + first + other.replace('x = "a"', 'x = "b"'))
    assert "the same requests fit the operation" in faults_of(BASE + first + other)[0]
