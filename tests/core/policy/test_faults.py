"""Faults: one line that says where, what and what instead."""

from broker.core.policy.faults import Fault


def test_a_fault_is_one_line() -> None:
    fault = Fault(file="a.toml", line=3, key="rules[0].id", problem="missing", expected="a string")

    assert str(fault) == "a.toml:3: rules[0].id: missing, expected a string"
    assert str(Fault(file="a.toml", line=3, key="x", problem="not TOML")) == "a.toml:3: x: not TOML"


def test_a_fault_is_told_field_by_field() -> None:
    fault = Fault(file="a.toml", line=3, key="rules[0].per", problem="missing", expected="a string")

    assert {
        "file": "a.toml", "line": 3, "key": "rules[0].per", "problem": "missing", "expected": "a string",
    } == fault.to_json()  # fmt: skip
