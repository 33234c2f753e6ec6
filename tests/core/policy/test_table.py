"""Strict reading of tables: what each reader refuses, and that it goes on to the next fault."""

from collections.abc import Callable
from datetime import date

import pytest

from broker.contract.reasons import Effect
from broker.core.policy.keys import RULE
from broker.core.policy.table import Document, Faults, Table, kind_of, spelled


def table_of(known: frozenset[str] = frozenset({"a", "b"}), **values: object) -> Table:
    document = Document(name="p.toml", values=values, line_of=lambda path: len(path) + 1)
    return Table(document=document, path=("t",), values=values, known=known, faults=Faults())


def named(table: Table) -> dict[str, Table]:
    return table.named("a", RULE, names="[a-z]", expected="a letter")


@pytest.mark.parametrize(
    ("read", "value", "fault"),
    [
        (lambda table: table.text("a"), 1, "p.toml:3: t.a: it is an integer, expected a string"),
        (lambda table: table.text("a"), "x\ny", "unprintable or too long"),
        (lambda table: table.text("a"), "x\u202ey", "unprintable or too long"),
        (lambda table: table.text("a"), "x" * 201, "at most 200 printable characters"),
        (lambda table: table.text("a", pattern="[a-z]+", expected="letters"), "A", "malformed, expected letters"),
        (lambda table: table.flag("a", default=False), 1, "it is an integer, expected true or false"),
        (lambda table: table.integer("a", 1, low=1, high=9), True, "it is true or false, expected an integer"),
        (lambda table: table.integer("a", 1, low=1, high=9), 10, "out of range, expected an integer from 1 to 9"),
        (lambda table: table.integer("a", 1, low=1, high=9), 1.0, "it is a number, expected an integer"),
        (lambda table: table.milliseconds("a", 0, low_ms=1, high_ms=2000), "1", "a number of seconds from 0.001 to 2"),
        (lambda table: table.milliseconds("a", 0, low_ms=1, high_ms=2000), True, "it is true or false"),
        (lambda table: table.milliseconds("a", 0, low_ms=1, high_ms=2000), 2.1, "out of range"),
        (lambda table: table.milliseconds("a", 0, low_ms=1, high_ms=2000), float("nan"), "out of range"),
        (lambda table: table.choice("a", ("x", "y")), "z", "not one of the values that it can have, expected x or y"),
        (lambda table: table.choice("a", ("x", "y")), [], "it is a list, expected a string"),
        (lambda table: table.member("a", Effect), "reed", "expected read or write or exec"),
        (lambda table: table.members("a", Effect), ["reed"], "t.a[0]: malformed, expected read or write or exec"),
        (lambda table: table.texts("a"), "x", "it is a string, expected a list"),
        (lambda table: table.texts("a"), [], "it has 0 members, expected 1 to 256"),
        (lambda table: table.texts("a"), ["x"] * 257, "it has 257 members"),
        (lambda table: table.texts("a"), ["x", "x"], "t.a[1]: it stands twice in the list"),
        (lambda table: table.texts("a"), ["x", 1], "t.a[1]: it is an integer, expected a string"),
        (lambda table: table.integers("a", low=1, high=2), [1, 3], "t.a[1]: not usable, expected integers from 1 to 2"),
        (lambda table: table.integers("a", low=1, high=2), [True], "not usable"),
        (lambda table: table.integers("a", low=1, high=2), [1, 1], "not usable"),
        (lambda table: table.table("a", RULE), date(2026, 1, 1), "it is a date or time, expected a table"),
        (lambda table: table.table("a", RULE), {"idd": 1}, "t.a.idd: unknown key, expected id"),
        (lambda table: table.table("a", RULE), {"zzz": 1}, "unknown key, expected one of agents, approval"),
        (lambda table: table.tables("a", RULE), [1], "t.a[0]: it is an integer, expected a table"),
        (named, {"B": {}}, "t.a.B: malformed, expected a letter"),
        (named, {"b": 1}, "t.a.b: it is an integer"),
        (named, 1, "t.a: it is an integer"),
        (lambda table: list(table.pairs("a")), [], "it is a list, expected a table"),
    ],
)  # fmt: skip
def test_a_reader_refuses_what_it_does_not_expect(read: Callable[[Table], object], value: object, fault: str) -> None:
    table = table_of(a=value)
    read(table)

    assert [True] == [fault in str(found) for found in table.faults]


def test_what_is_missing_and_needed_is_a_fault_and_a_stand_in() -> None:
    table = table_of()

    assert ["", "read", 0] == [
        table.text("a"),
        table.member("b", Effect).value,
        table.integer("c", None, low=0, high=1),
    ]
    assert ["a", "b", "c"] == [fault.key.removeprefix("t.") for fault in table.faults]


def test_what_may_be_missing_has_its_default() -> None:
    table = table_of()

    assert table.optional_text("a") is None
    assert table.optional_flag("a") is None
    assert table.optional_integer("a", low=0, high=1) is None
    assert table.optional_member("a", Effect) is None
    assert table.table("a", RULE) is None
    assert ("d", 5, 7, ()) == (
        table.text("a", "d"),
        table.integer("a", 5, low=0, high=9),
        table.milliseconds("a", 7, low_ms=0, high_ms=9),
        table.texts("a"),
    )
    assert [] == list(table.pairs("a"))
    assert [] == list(table.faults)


def test_what_fits_comes_back() -> None:
    table = table_of(a=["x", "y"], b=True, c=1.25, d=[3], e={"k": 1}, f=[])

    assert ("x", "y") == table.texts("a")
    assert table.optional_flag("b") is True
    assert table.milliseconds("c", 0, low_ms=0, high_ms=2000) == 1250
    assert (3,) == table.integers("d", low=1, high=3)
    assert [("k", 1)] == list(table.pairs("e"))
    assert () == table.texts("f", may_be_empty=True)
    assert (Effect.READ,) == table_of(a=["read"]).members("a", Effect)
    assert "t" in str(table.place.line) or table.place.line == 2
    assert [] == list(table.faults)


VALUES: tuple[object, ...] = ({}, [], "", False, date(2026, 1, 1))


def test_kinds_are_told_in_words() -> None:
    assert ["a table", "a list", "a string", "true or false", "a date or time"] == [kind_of(value) for value in VALUES]


def test_a_key_path_is_spelled_as_it_would_be_written() -> None:
    assert 'services.github."issues.list".errors[0]' == spelled(("services", "github", "issues.list", "errors", 0))
    assert '"a\\nb"' == spelled(("a\nb",))
    assert "the file" == spelled(())
