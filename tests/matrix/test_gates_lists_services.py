"""The cases of gates, broken contracts, lists, repeats and real services hold, and leave nothing out that they owe."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.contract.reasons import Category, IncompleteCode
from broker.matrix.cases import Case, load
from tests.cases.table import print_table

CASES = Path(__file__).with_name("cases")
GROUPS = ("gates", "contract", "completeness", "idempotency", "providers", "ssh_services")
LIMIT_S = 1800.0  # a machine many times slower, and more


def of(group: str) -> list[Case]:
    return load([CASES / f"{group}.yaml"])


@pytest.mark.live
def test_every_case_holds(request: pytest.FixtureRequest) -> None:
    files = [str(CASES / f"{group}.yaml") for group in GROUPS]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "matrix", "run", *files, "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    rows = json.loads(done.stdout)["cases"]
    held = {group: sum(row["holds"] for row in rows if row["group"] == group) for group in GROUPS}
    print_table(request.config, held, {group: len(of(group)) for group in GROUPS})

    assert [] == [(row["id"], row["breaches"]) for row in rows if not row["holds"]]
    assert (0, sum(len(of(group)) for group in GROUPS)) == (done.returncode, len(rows))
    assert "canary-" not in done.stdout


def test_every_gate_says_no_and_every_case_of_it_says_how_often_a_human_is_asked() -> None:
    cases = of("gates")
    no = {Category.VAULT_LOCKED, Category.SESSION_DENIED, Category.CALL_DENIED, Category.APPROVAL_TIMEOUT}

    assert no | {Category.POLICY_DENIED} <= {Category(one.expect.category) for one in cases}
    assert [] == [one.id for one in cases if one.expect.prompts is None]
    assert [] == [one.id for one in cases if one.expect.remote.received is None]
    assert 3 == sum(one.gate.second_process for one in cases)


def test_every_reason_is_told_with_rows_and_without() -> None:
    wanted = [one.expect.completeness for one in of("completeness")]
    found = {
        (one.reasons[0], bool(one.returned))
        for one in wanted
        if one is not None and one.reasons and len(one.reasons) == 1
    }

    assert set() == {(code.value, has_rows) for code in IncompleteCode for has_rows in (True, False)} - found


def test_no_part_of_a_list_leads_to_a_change() -> None:
    """Where a script deletes, the chains that are permitted delete after a whole list alone, or are refused."""
    chains = [chain for one in of("completeness") for chain in one.agent.permitted if "delete" in chain]
    allowed = [chain for chain in chains if chain[-1] == "success"]

    assert [("search", "partial", "continue_search", "success", "delete", "success")] == allowed
    assert {"evidence_required", "call_denied", "success"} == {chain[-1] for chain in chains}


def test_repeats_are_told_by_their_keys() -> None:
    counted = {one.id: one.expect.remote for one in of("idempotency")}
    ignored, honoured = counted["key-ignored"], counted["key-sent-answer-lost-same-key-again"]

    assert (2, 1, 1) == (honoured.received, honoured.committed, honoured.keys)
    assert (2, 2, 1) == (ignored.received, ignored.committed, ignored.keys)
