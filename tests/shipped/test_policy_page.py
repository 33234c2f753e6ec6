"""The administrator's page on policies: it names every key with its default, and its examples do what they say."""

import re
from pathlib import Path

from broker.cli.policy_test import outcome
from broker.core.policy import keys
from broker.core.policy.hours import Moment
from broker.core.policy.model import Limits
from broker.policyfiles.check import check
from broker.policyfiles.expectations import expectations_of
from broker.policyfiles.files import PolicyFile
from broker.policyfiles.load import load_policy

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
POLICY, TESTS = (block.encode() for block in re.findall(r"(?s)```toml\n(.*?)```", PAGE))


def rows(heading: str) -> dict[str, str]:
    """The keys of a table, with what stands in its last column."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return {key: default.strip() for key, default in re.findall(r"(?m)^\| `(\w+)` \|.*\|([^|]*)\|$", section)}


def test_every_key_is_there_with_its_default() -> None:
    limits = Limits()

    assert keys.RULE == set(rows("Keys of a rule"))
    assert keys.AGENT == set(rows("Agents"))
    assert {name: f"`{getattr(limits, name)}`" for name in keys.LIMITS} == rows("Limits")


def test_the_example_is_a_policy_without_a_warning_and_its_tests_hold() -> None:
    files = [PolicyFile(name="shop.toml", raw=POLICY)]
    report = check(files, None)
    assert ((), ()) == (report.faults, report.warnings)
    tests = expectations_of(PolicyFile(name="tests.toml", raw=TESTS))
    outcomes = [outcome(load_policy(files), test, Moment(weekday=0, minute=0)) for test in tests]

    assert [""] * 3 == [one.wrong for one in outcomes]


def test_every_verb_is_named() -> None:
    verbs = set(re.findall(r'add\("(\w+)"', (ROOT / "broker/cli/policy.py").read_text()))

    assert verbs == set(re.findall(r"(?m)^\| `policy (\w+)", PAGE))
