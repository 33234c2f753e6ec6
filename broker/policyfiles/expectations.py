"""Tests of a policy, as its administrator writes them: requests, and what is expected to become of each.

A file of its own, never beside the policy: what is in the policy directory is the policy. Read as strictly as a policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from broker.contract.reasons import ApprovalRule
from broker.contract.wire import JsonObject, JsonValue
from broker.core.identity import UNIDENTIFIED
from broker.core.policy.hours import DAYS, Moment
from broker.core.policy.place import Place
from broker.core.policy.table import Document, Faults, Table
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import document_of

FILE = frozenset({"version", "tests"})
TEST = frozenset({"name", "action", "request", "agent", "at", "expect", "rules", "code"})
ACTIONS = ("http", "collect", "ssh", "ssh_put", "ssh_get")
INVALID = "invalid"
ENDINGS = (*(rule.value for rule in ApprovalRule), INVALID)
_MOMENT = rf"(?:{'|'.join(DAYS)}) (?:[01][0-9]|2[0-3]):[0-5][0-9]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One test. `at` is None for now; `rules` is None where any may decide."""

    name: str
    action: str
    request: JsonObject
    agent: str
    at: Moment | None
    expect: str
    rules: tuple[str, ...] | None
    code: str | None
    place: Place


def expectations_of(file: PolicyFile) -> tuple[Expectation, ...]:
    """The tests of a file. Raises PolicyError with every fault."""
    faults = Faults()
    documents = document_of(file, faults.found)
    tests = [test for document in documents for test in _tests(document, faults)]
    told = tuple(faults)
    if told:
        raise PolicyError("\n".join(map(str, told)), told)
    return tuple(tests)


def _tests(document: Document, faults: Faults) -> list[Expectation]:
    table = Table(document=document, path=(), values=document.values, known=FILE, faults=faults)
    table.refuse_unknown()
    if table.integer("version", None, low=1, high=1 << 31) not in {0, 1}:
        table.fault("version", "not supported by this version", "1")
    if "tests" not in table:
        table.fault("tests", "missing", "[[tests]]")
    return [_test(below, position) for position, below in enumerate(table.tables("tests", TEST), start=1)]


def _test(table: Table, position: int) -> Expectation:
    at = table.optional_text("at", pattern=_MOMENT, expected="a day and a time, such as mon 14:30")
    return Expectation(
        name=table.text("name", f"test {position}"),
        action=table.choice("action", ACTIONS, "http"),
        request=_request(table),
        agent=table.text("agent", UNIDENTIFIED),
        at=None if at is None else _moment_of(at),
        expect=table.choice("expect", ENDINGS),
        rules=table.texts("rules", may_be_empty=True) if "rules" in table else None,
        code=table.optional_text("code"),
        place=table.place,
    )


def _moment_of(text: str) -> Moment | None:
    """None for what was told as a fault already."""
    day, _, clock = text.partition(" ")
    if day not in DAYS or len(clock) != len("00:00"):
        return None
    return Moment(weekday=DAYS.index(day), minute=int(clock[:2]) * 60 + int(clock[3:]))


def _request(table: Table) -> JsonObject:
    """The document as an agent would post it; its shape is checked by the schema of the action."""
    if "request" not in table:
        table.fault("request", "missing", "a table, as an agent would send it")
        return {}
    pairs = dict(table.pairs("request"))
    try:
        return {name: _plain(value) for name, value in pairs.items()}
    except TypeError:
        table.fault("request", "it holds a date or time", "what JSON can hold")
        return {}


def _plain(value: object) -> JsonValue:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    raise TypeError
