"""Lies about a run make it red, each with a message that names it; a lie that goes unnoticed is a fault of the harness.

Real runs of a few cases are the ground; each lie changes one thing that they left behind. Further lies are told while
a run goes on, by a far side that keeps quiet and a daemon's directory that holds what it must not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.matrix.cases import Case, load
from broker.matrix.checks import judge
from broker.matrix.house import House
from broker.matrix.http_stage import HttpStage
from broker.matrix.observed import Breach, Observed
from broker.matrix.records import Seen
from broker.matrix.runner import Outcome, Runner
from broker.matrix.stage import Furnished, Run, Stage
from tests.cases.table import print_table
from tests.matrix.lies import LIES, Lie

pytestmark = pytest.mark.live

CASES = Path(__file__).with_name("cases")
FILES = ("founding", "gates", "contract", "completeness", "idempotency", "providers")
CAUGHT: Counter[str] = Counter()
KINDS = ("category", "retry", "effect", "completeness", "trail", "secret", "remote state", "next action")


def needed(*names: str) -> list[Case]:
    return [one for one in load([CASES / f"{name}.yaml" for name in FILES]) if one.id in names]


def run(cases: list[Case], stage: Stage, work: Path) -> dict[str, Outcome]:
    done = Runner(stages={"http": stage}, work=work, tell=lambda *_: None).run(cases)
    return {one.case.id: one for one in done}


@pytest.fixture(scope="module")
def honest(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Mapping[str, Observed]]:
    with HttpStage() as stage:
        done = run(needed(*(lie.case for lie in LIES)), stage, tmp_path_factory.mktemp("honest") / "w")
    assert {} == {name: one.breaches for name, one in done.items() if not one.holds}
    yield {name: one.seen[0] for name, one in done.items()}
    print_table(request.config, CAUGHT, Counter(lie.kind for lie in LIES))


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: f"{lie.kind}: {lie.name}")
def test_a_lie_is_told(honest: Mapping[str, Observed], lie: Lie) -> None:
    seen = honest[lie.case]
    found = judge(lie.doctor(seen))

    assert () == judge(seen)
    assert [] != [one for one in found if one.assertion == lie.breaks and lie.says in one.text], found
    CAUGHT[lie.kind] += 1


def test_there_are_lies_of_every_kind() -> None:
    assert set(KINDS) == {lie.kind for lie in LIES}
    assert len({lie.name for lie in LIES}) == len(LIES) >= 25


class Lying:
    """A stage between the far side and the runner."""

    def __init__(self, stage: HttpStage) -> None:
        self.stage = stage

    def furnish(self, run: Run) -> Furnished:
        return self.stage.furnish(run)

    def meanwhile(self, run: Run, house: House) -> None:
        """Leave the credential lying about, spelled in hexadecimal."""
        (house.home / "note.txt").write_text(f"note: {run.token.encode().hex()}")

    def afterwards(self, run: Run, house: House) -> None:
        self.stage.afterwards(run, house)

    def events(self, run: Run) -> tuple[Seen, ...]:
        """Keep quiet about what was changed."""
        return tuple(one for one in self.stage.events(run) if one.what != "committed")

    def close(self) -> None:
        self.stage.close()


def test_a_lie_while_it_runs_makes_the_run_red(planted: Path) -> None:
    with HttpStage() as stage:
        done = run(needed("create-right"), Lying(stage), planted / "w")
    told = [str(breach) for breach in done["create-right"].breaches]

    assert not done["create-right"].holds
    assert "remote: committed is 0, expected 1" in told
    assert "remote: 1 changes are claimed, and 0 were made" in told
    assert any(line.startswith("secret: the credential is in note.txt (hex") for line in told), told


def test_a_case_whose_expectation_is_wrong_makes_the_run_red(tmp_path: Path) -> None:
    (case,) = needed("expired-token")
    lies: Any = {"category": "success", "retry": "bounded", "code": "revoked", "remote_effect": "applied"}
    wrong = [
        replace(case, id=f"wrong-{key}", expect=replace(case.expect, **{key: value})) for key, value in lies.items()
    ]
    with HttpStage() as stage:
        done = run(wrong, stage, tmp_path / "w")

    for key, value in lies.items():
        found = done[f"wrong-{key}"].breaches
        assert [Breach] == [
            type(one) for one in found if one.assertion == "result" and f"expected '{value}'" in one.text
        ]
