"""What the matrix says of its cases, how it spells a policy, and that its canary scan is not blind."""

import base64
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from broker.contract.wire import parse_object
from broker.matrix.canaries import scan, sees, spelled_in
from broker.matrix.case_files import parse
from broker.matrix.cases import Case
from broker.matrix.faults import MatrixError
from broker.matrix.observed import Breach
from broker.matrix.policy_text import policy_text
from broker.matrix.report import as_json, table, write_junit
from broker.matrix.runner import Outcome

SECRET = "canary-0123456789abcdef"
TEXT = """
group: {group}
cases:
  - id: "{name}"
    request: {{method: {method}, path: /x}}
    policy: {policy}
    approver: {approver}
    expect: {{category: success, retry: never}}
"""


def case(
    name: str = "a", *, group: str = "g", method: str = "POST", policy: str = "none", approver: str = "absent"
) -> Case:
    (made,) = parse(TEXT.format(name=name, group=group, method=method, policy=policy, approver=approver), "x.yaml")
    return made


def outcome(name: str, *texts: str, group: str = "g") -> Outcome:
    breaches = tuple(Breach(assertion="remote", text=text) for text in texts)
    return Outcome(case=case(name, group=group), breaches=breaches, rounds=2, seconds=1.5)


OUTCOMES = [outcome("a"), outcome("b", "a \x1b[31mred\x07 lie", "another"), outcome("c", group="h")]


def test_the_table_counts_by_group_and_tells_each_breach_without_control_characters() -> None:
    lines = table(OUTCOMES).splitlines()

    assert [["g", "1", "2", "4", "3.0"], ["h", "1", "1", "2", "1.5"], ["all", "2", "3", "6", "4.5"]] == [
        line.split() for line in lines[1:4]
    ]
    assert "b (x.yaml:4)" == lines[5]
    assert "\x1b" not in "".join(lines)


def test_json_and_junit_tell_the_same(tmp_path: Path) -> None:
    told = parse_object(as_json(OUTCOMES))
    write_junit(OUTCOMES, tmp_path / "r.xml")
    suites = ET.parse(tmp_path / "r.xml").getroot()  # noqa: S314 - our own

    assert (3, 2, False) == (told["total"], told["hold"], told["ok"])
    assert [("g", "2", "1"), ("h", "1", "0")] == [
        (suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites
    ]
    assert "remote: another" in str(suites.findtext("testsuite/testcase/failure"))


@pytest.mark.parametrize(
    ("method", "policy", "expected"),
    [
        ("GET", "per_call", [("per_call", None)]),
        ("POST", "none", [("none", None)]),
        ("POST", "session", [("none", ["read"]), ("session", ["write", "exec"])]),
        ("POST", "deny", [("none", ["read"]), ("deny", ["write", "exec"])]),
    ],
)
def test_the_gate_of_a_case_is_a_rule_and_looks_stay_free(
    method: str, policy: str, expected: list[tuple[str, list[str] | None]]
) -> None:
    text = policy_text(case(method=method, policy=policy), {"s": {"kind": "http"}})
    rules = tomllib.loads(text)["rules"]

    assert expected == [(rule["approval"], rule.get("effects")) for rule in rules]


def test_a_policy_is_spelled_so_that_toml_reads_the_same_again() -> None:
    service: dict[str, Any] = {
        "kind": "http",
        "base_url": 'http://x/é"\\\n\x7f',
        "operations": {"a.b": {"request": {"method": "GET", "query": ["p", "q"]}, "n": 1.5, "yes": True}},
    }
    told = tomllib.loads(policy_text(case(), {"s": service}))

    assert service == told["services"]["s"]
    with pytest.raises(MatrixError, match="has no null"):
        policy_text(case(), {"s": {"credential": None}})


def test_silence_makes_the_card_short() -> None:
    told = tomllib.loads(policy_text(case(policy="per_call", approver="silent"), {}))

    assert 5 == told["rules"][1]["expires_s"]


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_a_secret_is_found_in_every_spelling(shift: int, planted: Path) -> None:
    octets = SECRET.encode()
    for leak in (octets, octets.hex().encode(), SECRET.encode("utf-16-le"), base64.b64encode(b"x" * shift + octets)):
        assert spelled_in(b"..." + leak + b"...", SECRET)
    assert not spelled_in(b"nothing of it", SECRET)
    (planted / "deep").mkdir()
    (planted / "deep" / "file").write_bytes(b"." * ((1 << 20) - 5) + octets)
    (planted / f"{SECRET}.txt").touch()

    assert 2 == len(list(scan(planted, SECRET)))
    assert sees(planted)
    assert 2 == len(list(scan(planted, "canary-")))
