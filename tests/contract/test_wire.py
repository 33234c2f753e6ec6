import json
import time
from enum import StrEnum
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.wire import (
    MAX_BYTES,
    JsonValue,
    WireError,
    canonical,
    digest,
    dump,
    dump_names,
    parse_json,
    parse_object,
)

plain_text = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | plain_text,
    lambda inner: st.lists(inner) | st.dictionaries(plain_text, inner),
    max_leaves=30,
)


def refusal(raw: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = 64) -> str:
    with pytest.raises(WireError) as caught:
        parse_json(raw, max_bytes=max_bytes, max_depth=max_depth)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"null", None),
        (b'{"a":[1,2.5,true,"x"]}', {"a": [1, 2.5, True, "x"]}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'{"a":{"a":1}}', {"a": {"a": 1}}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_good_json_is_read_as_it_says(raw: bytes, value: JsonValue) -> None:
    assert value == parse_json(raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"a":1,"a":2}', "the same key twice"),
        (b'[{"b":{"a":1,"a":1}}]', "the same key twice"),
        (b'{"a":1,"\\u0061":2}', "the same key twice"),
        (b"NaN", "NaN and infinities"),
        (b"[-Infinity]", "NaN and infinities"),
        (b"1e999", "too large"),
        (b"-1e999", "too large"),
        (b"9" * 5000, "too long"),
        (b"\xff", "not valid UTF-8"),
        (b'"\xed\xa0\x80"', "not valid UTF-8"),
        (b'"\\ud83d"', "not valid UTF-8"),
        (b'{"\\ude00":1}', "not valid UTF-8"),
        (b"", "not JSON"),
        (b"{} {}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a":1,}', "not JSON"),
        (b"{'a':1}", "not JSON"),
        (b'"a\nb"', "not JSON"),
    ],
)
def test_bad_json_is_refused_with_its_fault(raw: bytes, words: str) -> None:
    assert words in refusal(raw)


def test_a_refusal_never_repeats_the_input() -> None:
    for raw in (b'{"canary-1":canary-2}', b'"canary-1', b'{"canary-1":1,"canary-1":2}', b'["canary-1\\ud800"]'):
        assert "canary" not in refusal(raw)


def test_a_document_may_have_exactly_the_bytes_allowed() -> None:
    assert parse_json(b"[  ]", max_bytes=4) == []
    assert "more than 3 bytes" in refusal(b"[  ]", max_bytes=3)


@pytest.mark.parametrize("depth", [1, 5, 64])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_document_may_be_exactly_as_deep_as_allowed(depth: int, opening: bytes, closing: bytes) -> None:
    nested = b"[" * (depth - 1) + opening + b"0" + closing + b"]" * (depth - 1)
    beside = b"[" + nested[1:-1] + b",[],{}]" if depth > 1 else nested

    parse_json(nested, max_depth=depth)
    parse_json(beside, max_depth=depth)
    if depth > 1:
        assert f"deeper than {depth - 1}" in refusal(nested, max_depth=depth - 1)


def test_brackets_within_strings_do_not_count_as_nesting() -> None:
    words = ["[" * 200, '\\"[{' * 40, "\\" * 7, '"[', "]" * 9]

    assert words == parse_json(json.dumps(words).encode())


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert [[]] * 500 == parse_json(b"[" + b",".join([b"[]"] * 500) + b"]")


def test_an_unterminated_string_is_not_scanned_again_and_again() -> None:
    assert "not JSON" in refusal(b"[[]]" * 40 + b'"' + b'\\"' * 400_000 + b"\\")


def test_a_caller_without_a_depth_limit_still_gets_a_refusal() -> None:
    assert "nested deeper" in refusal(b"[" * 200_000, max_depth=1_000_000)


def test_an_object_is_asked_for_where_one_is_needed() -> None:
    assert parse_object(b'{"a":1}') == {"a": 1}
    with pytest.raises(WireError, match="not an object"):
        parse_object(b"[]")
    with pytest.raises(WireError, match="more than 1 bytes"):
        parse_object(b"{}", max_bytes=1)


def test_canonical_json_has_one_spelling() -> None:
    value: JsonValue = {"b": [1, {"z": None, "a": True}], "a": "ä\n"}

    assert '{"a":"ä\\n","b":[1,{"a":true,"z":null}]}'.encode() == canonical(value)


@given(documents)
def test_canonical_json_reads_back_as_the_same_value(value: JsonValue) -> None:
    assert value == json.loads(canonical(value))
    assert canonical(value) == canonical(json.loads(canonical(value)))


@given(documents)
def test_what_is_dumped_parses_as_the_same_value(value: JsonValue) -> None:
    assert value == parse_json(dump(value))


class Word(StrEnum):
    ONE = "one"


def test_values_of_the_code_have_their_plain_spelling() -> None:
    frozen: JsonValue = MappingProxyType({"word": Word.ONE, "pair": (1, MappingProxyType({"x": 2}))})

    assert b'{"pair":[1,{"x":2}],"word":"one"}' == canonical(frozen)
    assert b'{"word":"one","pair":[1,{"x":2}]}' == dump(frozen)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.0, "integers only"),
        ({"a": [{"b": 0.5}]}, "integers only"),
        ({1: 2}, "not a string"),
        ({"a": b"bytes"}, "bytes has no JSON spelling"),
        ({"a": {1, 2}}, "set has no JSON spelling"),
        ({"a": "\ud800"}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
    ],
)
def test_what_has_no_canonical_spelling_is_refused(value: object, words: str) -> None:
    with pytest.raises(WireError, match=words):
        canonical(value)  # type: ignore[arg-type]  # what a faulty caller might hand in


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "NaN"),
        ([float("inf")], "NaN"),
        ("\ud800", "surrogate"),
        ({"a": object()}, "object has no JSON spelling"),
    ],
)
def test_what_is_no_json_never_leaves(value: object, words: str) -> None:
    with pytest.raises(WireError, match=words):
        dump(value)  # type: ignore[arg-type]  # what a faulty caller might hand in


def test_a_dump_may_hold_fractions() -> None:
    assert b'{"seconds":10.5,"text":"\xc3\xa4"}' == dump({"seconds": 10.5, "text": "ä"})


def test_a_digest_is_sha256_over_domain_nul_and_canonical_bytes() -> None:
    # printf 'doorward/test/v1\0{"a":1}' | sha256sum
    assert digest("doorward/test/v1", {"a": 1}) == (
        "sha256:025115a7c6a81db6e7f4981c6461c8428f0cba0583d90fc941c93cedc9d57669"
    )


def test_the_domain_keeps_equal_values_apart() -> None:
    assert digest("doorward/a/v1", {"a": 1}) != digest("doorward/b/v1", {"a": 1})


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b"[1,2,3]", 3),
        (b'{"a":[],"b":{"c":"x"}}', 4),
        (b'["a,b,[c,{d","\\",\\","]', 2),
        (b'{"a":"","b":""}', 2),
    ],
)
def test_values_are_counted_and_what_stands_in_strings_is_none(raw: bytes, values: int) -> None:
    """The document itself counts as one where it is a list or an object."""
    parse_json(raw, max_values=values)
    with pytest.raises(WireError, match=f"more than {values - 1} values"):
        parse_json(raw, max_values=values - 1)


@pytest.mark.parametrize("unit", [b"[]", b"{}", b"1e308", b'""', b'{"a":1}', b'["', b'"a":1', b"[[[[[[]]]]]]"])
def test_a_hostile_document_is_refused_in_no_time_that_others_would_notice(unit: bytes) -> None:
    """T46: counted is what the processor had to do, and of several tries the best, for the machine may be busy."""
    raw = b"[" + b",".join([unit] * ((1 << 20) // (len(unit) + 1) - 1)) + b"]"
    took: list[float] = []
    while not took or (min(took) > 0.05 and len(took) < 5):
        began = time.thread_time()
        with pytest.raises(WireError):
            parse_json(raw, max_values=20_000)
        took.append(time.thread_time() - began)

    assert min(took) < 0.05


def test_names_of_files_that_are_no_utf8_are_spelled_out_and_nothing_else_is_changed() -> None:
    name = b"/a/\xff\n".decode("utf-8", "surrogateescape")
    assert {"\u65e5": [{"n": "/a/\\udcff\n"}, 1, None]} == parse_json(dump_names({"\u65e5": [{"n": name}, 1, None]}))
    assert dump({"a": "b"}) == dump_names({"a": "b"})
    with pytest.raises(WireError):
        dump_names([float("nan"), name])
