from enum import StrEnum
from inspect import getmembers, isclass

import pytest

from broker.contract import reasons
from broker.contract.reasons import CODES, ApprovalRule, Category, IncompleteCode, WarningCode

ENUMS = [kind for _, kind in getmembers(reasons, isclass) if issubclass(kind, StrEnum) and kind is not StrEnum]


def test_every_category_has_codes() -> None:
    assert set(Category) == set(CODES)
    assert all(CODES.values())


@pytest.mark.parametrize("kind", ENUMS)
def test_members_are_spelled_as_they_are_named(kind: type[StrEnum]) -> None:
    spelling = str.upper if kind in {IncompleteCode, WarningCode} else str.lower

    assert [spelling(member.name) for member in kind] == [member.value for member in kind]


def test_codes_are_lower_case_words() -> None:
    assert all(code.replace("_", "").isalpha() and code.islower() for codes in CODES.values() for code in codes)


def test_later_gates_are_stricter() -> None:
    assert ["none", "session", "per_call", "deny"] == [gate.value for gate in ApprovalRule]
