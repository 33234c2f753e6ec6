"""The lines that a change is about: one table, and what differs in it."""

import pytest

from broker.core.policy.place import Place
from broker.policyfiles.blocks import LINE_MAX_CHARACTERS, SHOWN_MAX_LINES, block_lines, difference
from broker.policyfiles.files import PolicyFile

TEXT = """version = 1

# about the first
[[rules]]
id = "a"   # first
hours = [
  "09:00-17:00",
]

# about the second
[[rules]]
id = "b"
"""
FILE = PolicyFile(name="p.toml", raw=TEXT.encode())


@pytest.mark.parametrize("line", [4, 5, 7])
def test_a_block_goes_from_its_header_to_the_next_without_what_is_about_that(line: int) -> None:
    found = block_lines([FILE], Place(file="p.toml", line=line))

    assert ["[[rules]]", 'id = "a"   # first', "hours = [", '  "09:00-17:00",', "]"] == found


def test_what_stands_nowhere_has_no_lines() -> None:
    assert [] == block_lines([FILE], None)
    assert [] == block_lines([FILE], Place(file="other.toml", line=1))
    assert ["version = 1"] == block_lines([FILE], Place(file="p.toml", line=1))
    assert ["[[rules]]", 'id = "b"'] == block_lines([FILE], Place(file="p.toml", line=999))
    assert [] == block_lines([PolicyFile(name="p.toml", raw=b"")], Place(file="p.toml", line=1))


def test_lines_are_bounded_and_need_not_be_text() -> None:
    long = PolicyFile(name="p.toml", raw=b"[a]\n" + b"x = '" + b"\xff" * 2000 + b"'\n" + b"y = 1\n" * 500)
    found = block_lines([long], Place(file="p.toml", line=1))

    assert LINE_MAX_CHARACTERS == max(map(len, found))
    assert SHOWN_MAX_LINES == len(difference([], found))


def test_a_difference_marks_what_was_and_what_is() -> None:
    assert [(" ", "a"), ("-", "b"), ("+", "c"), (" ", "d"), ("+", "e")] == [
        (row["sign"], row["text"]) for row in difference(["a", "b", "d"], ["a", "c", "d", "e"]) if isinstance(row, dict)
    ]
