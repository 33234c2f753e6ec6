import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.plain_json import MAX_PLAIN_BYTES, parse_plain_object
from broker.contract.wire import WireError, canonical, parse_object

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(['":', ':"x"', "\\", "{", "[", '"'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def both_ways(raw: bytes) -> tuple[object, object]:
    told = []
    for parse in (parse_object, parse_plain_object):
        try:
            told.append(repr(parse(raw)))
        except WireError as fault:
            told.append(f"refused: {fault}")
    return told[0], told[1]


@given(OBJECTS, st.sampled_from([None, (",", ":")]), st.booleans())
def test_it_gives_what_the_strict_parser_gives(
    value: dict[str, object],
    separators: tuple[str, str] | None,
    escaped: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    raw = json.dumps(value, separators=separators, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    strict, plain = both_ways(raw)

    assert strict == plain


@given(st.binary(max_size=60))
def test_it_refuses_what_the_strict_parser_refuses(raw: bytes) -> None:
    strict, plain = both_ways(raw)

    assert strict == plain


@given(OBJECTS, st.data())
def test_a_document_cut_or_altered_anywhere_is_judged_alike(value: dict[str, object], data: st.DataObject) -> None:
    raw = bytearray(json.dumps(value).encode("utf-8", "surrogatepass"))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    strict, plain = both_ways(bytes(raw))

    assert strict == plain


@pytest.mark.parametrize(
    "raw",
    [
        b'{"fields":{"a":1,"a":2}}',
        b'{"fields":1,"fields":{"a":1}}',
        b'{"a":{"b":{"c":1,"c":2}}}',
        b'{"a":[{"c":1,"c":2}],"fields":{}}',
        b'{"a":":","a":1}',
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":-Infinity}',
        b"[1]",
        b"[" * 70 + b"]" * 70,
        b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b'{"a":' + b"1" * 5000 + b"}",
        b'{"a":"\xff"}',
        b'{"a":"\\ud800"}',
        b'{"a":1} x',
        b"",
    ],
)
def test_what_is_hostile_is_refused_in_the_same_words(raw: bytes) -> None:
    strict, plain = both_ways(raw)

    assert str(plain).startswith("refused: ")
    assert strict == plain


@pytest.mark.parametrize(
    "raw",
    [
        canonical({"event": "a.b", "fields": {"x": 1, "y": [1, 2]}, "at_ms": 5}),
        canonical({"fields": {"gate": {"call": "granted", "rules": ["a"]}}}),
        b' {"a" : 1.5}\n',
        b'{"fields":{"a":":x"}}',
        b'{"a":[[{"b":[]}]]}',
        canonical({"a": "x" * MAX_PLAIN_BYTES}),
        b'{"fields":{"a":' + b'{"b":' * 55 + b"1" + b"}" * 57,
    ],
)
def test_what_is_well_is_read(raw: bytes) -> None:
    assert parse_object(raw) == parse_plain_object(raw)
