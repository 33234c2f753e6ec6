"""Lines of keys: every key that tomllib finds stands where the locator says."""

import tomllib
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.policy.table import KeyPath
from broker.policyfiles.locate import locate
from broker.policyfiles.shipped import pack_bytes, pack_names

TEXT = '''# a comment with [brackets] and "quotes"
title = "x" # not a key = 1
"quoted key" = 1
'literal.key' = 2
a.b . c = 3

[table]
list = [
    1, # one
    { inner = "}", other = [ "]", """
multi ] } "quoted" """ ] },
    [ 2,
      3 ],
]
text = \'\'\'
[not.a.table]
key = "no"\'\'\'
escaped = "a \\" ] b"
date = 2026-11-29T10:00:00Z
[ table . "sub.table" ]
x = {}
y = []

[[entries]]
id = 1
[entries.below]
z = true
[[entries]]
id = 2
[[entries.deep]]
q = -1.5e3
[[entries.deep]]
q = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("quoted key",), 3),
        (("literal.key",), 4),
        (("a", "b", "c"), 5),
        (("table",), 7),
        (("table", "list"), 8),
        (("table", "list", 0), 9),
        (("table", "list", 1, "inner"), 10),
        (("table", "list", 1, "other", 1), 10),
        (("table", "list", 2), 12),
        (("table", "list", 2, 1), 13),
        (("table", "text"), 15),
        (("table", "escaped"), 18),
        (("table", "date"), 19),
        (("table", "sub.table"), 20),
        (("table", "sub.table", "y"), 22),
        (("entries",), 24),
        (("entries", 0, "id"), 25),
        (("entries", 0, "below", "z"), 27),
        (("entries", 1), 28),
        (("entries", 1, "deep", 0, "q"), 31),
        (("entries", 1, "deep", 1, "q"), 33),
        (("entries", 1, "nosuch", "key"), 28),
        (("nosuch",), 1),
        ((), 1),
    ],
)
def test_a_key_stands_on_its_line_and_a_missing_one_on_its_parents(path: KeyPath, line: int) -> None:
    assert line == locate(TEXT)(path)


def paths_in(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    if path:
        yield path
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths_in(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from paths_in(item, (*path, position))


@pytest.mark.parametrize("name", pack_names())
def test_each_key_of_a_shipped_pack_stands_on_the_line_that_writes_it(name: str) -> None:
    text = pack_bytes(name).decode()
    line_of, lines = locate(text), text.split("\n")

    for path in paths_in(tomllib.loads(text)):
        last = next(str(part) for part in reversed(path) if isinstance(part, str))
        if isinstance(path[-1], str):
            assert last in lines[line_of(path) - 1], path


@given(st.text(alphabet="ab.[]{}=,\"'#\n \\1", max_size=30))
def test_whatever_tomllib_accepts_is_located(text: str) -> None:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    line_of = locate(text)
    assert all(1 <= line_of(path) <= text.count("\n") + 1 for path in paths_in(values))


def test_what_is_no_toml_is_refused() -> None:
    with pytest.raises(ValueError, match="not TOML"):
        locate("= 1")
