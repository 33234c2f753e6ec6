"""Every fault that the loader knows, one example each: file, line, key, what is wrong and what was expected.

The examples stand in every_fault.toml. A fault in the code that no example shows makes the last test fail.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import DOTS_MAX, MOST, load_policy

ROOT = Path(__file__).resolve().parents[2]
WHERE = (*sorted((ROOT / "broker/core/policy").glob("*.py")), ROOT / "broker/policyfiles/load.py")
CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("every_fault.toml").read_text())["cases"]
TELLERS = {"fault": 1, "fault_at": 1, "fault_in": 2, "_fault": 2}  # and which of their arguments is the problem
TOLD_BY_OTHERS = "not TOML: "  # the rest is Python's own word


def told_of(*files: tuple[str, bytes]) -> list[str]:
    with pytest.raises(PolicyError) as refused:
        load_policy([PolicyFile(name=name, raw=raw) for name, raw in files])
    assert [str(fault) for fault in refused.value.faults] == str(refused.value).split("\n")
    return [str(fault) for fault in refused.value.faults]


def ours(line: str) -> str:
    before, told, _ = line.partition(TOLD_BY_OTHERS)
    return before + told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["told"][0][:90])
def test_a_fault_is_told_with_its_place_and_all_of_them_at_once(case: dict[str, Any]) -> None:
    told = told_of(*((file["name"], file["text"].encode()) for file in case["files"]))

    assert case["told"] == [ours(line) for line in told]


def rules(count: int) -> str:
    return "".join(f'[[rules]]\nid = "r{number}"\napproval = "deny"\n' for number in range(count))


def agents(count: int) -> str:
    return "[agents]\n" + "".join(f'a{number} = {{ exe = "/a" }}\n' for number in range(count))


MANY_RULES = f"version = 1\n{rules(MOST['rules'] + 1)}"
MANY_AGENTS = f"version = 1\n{agents(MOST['agents'] + 1)}"
MADE: list[tuple[str, bytes, str]] = [
    ("a.toml", b"version = 1\n\xff", "a.toml:2: the file: not UTF-8, expected text in UTF-8"),
    ("a.known_hosts", b"\xff", "a.known_hosts:1: the file: not UTF-8, expected text in UTF-8"),
    (
        "a.toml",
        b"a." * (DOTS_MAX + 1) + b"b = 1",
        "a.toml:1: the file: a key of too many parts, expected at most 64 dots in a line",
    ),
    ("a.toml", b"version = 1" + b"0" * 5000, "a.toml:1: the file: a number is too long, expected a policy"),
    ("a.toml", b"a = " + b"[" * 5000 + b"]" * 5000, "a.toml:1: the file: nested too deeply, expected a policy"),
    (
        "a.toml",
        MANY_RULES.encode(),
        "a.toml:2: rules: it has 257 members, expected 1 to 256; leave it out where it says nothing",
    ),
    ("a.toml", MANY_AGENTS.encode(), "a.toml:1: agents: all files together hold 65, expected at most 64"),
]


@pytest.mark.parametrize(("name", "raw", "told"), MADE, ids=[told[:60] for _, _, told in MADE])
def test_what_can_not_be_written_down_here_is_told_as_well(name: str, raw: bytes, told: str) -> None:
    assert [told] == told_of((name, raw))


def problems() -> Iterator[tuple[str, str]]:
    """The literal part of each problem in the code, and where it stands."""
    for path in WHERE:
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if not isinstance(node, ast.Call) or name not in TELLERS or len(node.args) <= TELLERS[name]:
                continue
            said = node.args[TELLERS[name]]
            parts = said.values if isinstance(said, ast.JoinedStr) else [said]
            texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if texts:
                yield max(texts, key=len), f"{path.name}:{node.lineno}"


def test_no_fault_in_the_code_is_without_an_example() -> None:
    everything = "\n".join([line for case in CASES for line in case["told"]] + [told for _, _, told in MADE])
    found = dict(problems())

    assert len(found) > 70
    assert {} == {text: place for text, place in found.items() if text not in everything}
