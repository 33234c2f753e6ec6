"""What the documents say is so: commands, files, codes and examples that they name exist and fit."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from broker.audit.verdict import EXIT_CODES as VERDICT_EXITS
from broker.contract.exits import EXIT_CODES
from broker.contract.reasons import Category, NextAction, Retry
from broker.contract.schemas import schema

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "policies" / "README.md"])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_that_there_are(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)\)", path.read_text(encoding="utf-8"))

    assert [] == [target for target in targets if "://" not in target and not (path.parent / target).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_into_a_document_lead_to_a_heading_of_it(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", path.read_text(encoding="utf-8"))

    for target, anchor in links:
        assert anchor in headings(path.parent / target if target else path), (target, anchor)


def headings(path: Path) -> set[str]:
    """The anchors of a document, as they are made of its headings."""
    found = re.findall(r"(?m)^#+ (.+)$", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in found}


def test_the_list_of_packs_names_every_pack_that_is_shipped() -> None:
    named = set(re.findall(r"(?m)^\| `([a-z-]+)` \| ", text("policies/README.md").split("\n## ", 1)[0]))

    assert {path.stem for path in (ROOT / "policies").glob("*.toml")} == named


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    named = set(re.findall(r"(?m)(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8")))

    assert named <= set(re.findall(r"(?m)^([a-z-]+):", text("Makefile")))


def test_the_readme_has_the_exit_code_of_every_category() -> None:
    told = {
        name: int(code) for code, name in re.findall(r"\| (\d+) \| ([a-z_]+)", text("README.md")) if name in EXIT_CODES
    }

    assert told == EXIT_CODES


def test_the_readme_has_the_exit_code_of_every_verdict_on_the_log() -> None:
    told = {name: int(code) for code, name in re.findall(r"\b(\d+) ([A-Z_]{2,})\b", text("README.md"))}

    assert {verdict.value: code for verdict, code in VERDICT_EXITS.items()} == told


def test_the_envelope_in_the_readme_fits_the_schema() -> None:
    block = re.search(r"```json\n(.*?)```", text("README.md"), re.DOTALL)
    assert block is not None

    jsonschema_rs.validator_for(schema("result"), offline=True).validate(json.loads(block[1]))


def test_the_agents_guide_knows_every_category_and_step() -> None:
    guide = text("docs/agent-guide.md")

    assert {category.value for category in Category} == set(re.findall(r"(?m)^\| `([a-z_]+)` \| [A-Z]", guide))
    steps = re.findall(r"(?m)^\| `([a-z_]+)` \| `([a-z_]+)` \|", guide)
    assert {retry.value for retry in Retry} == {retry for retry, _ in steps}
    assert {action.value for action in NextAction} == {action for _, action in steps}


def test_the_threat_model_names_tests_that_there_are() -> None:
    named = set(re.findall(r"`((?:[a-z]+/)*test_\w+\.py)`", text("docs/threat-model.md")))

    assert named
    assert [] == [name for name in sorted(named) if not (ROOT / "tests" / name).is_file()]


def test_every_test_of_an_attack_has_its_line_in_the_threat_model() -> None:
    lines = set(re.findall(r"(?m)^\| T(\d\d) \|", text("docs/threat-model.md")))
    tests = {path.name[6:8] for path in (ROOT / "tests" / "attacks").glob("test_t??_*.py")}

    assert tests <= lines
    assert [f"{number:02}" for number in range(1, 48)] == sorted(lines)
