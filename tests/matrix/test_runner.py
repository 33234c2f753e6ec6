"""What is found in a house when all is over counts for the runs in it: a leak for its own, else for every one."""

from pathlib import Path

import pytest
from typing_extensions import override

from broker.matrix import runner
from broker.matrix.case_files import parse
from broker.matrix.house import House
from broker.matrix.observed import Observed

TOKENS = ("canary-0000000000000001", "canary-0000000000000002")
CASE = "cases:\n  - {id: a, request: {method: GET, path: /}, expect: {category: success, retry: never}}\n"


class Closed(House):
    """A house whose daemon has stopped."""

    @override
    def stop(self) -> int:
        return 0

    @override
    def verdict(self) -> str:
        return "TAMPERED"


def leaks(home: Path) -> list[tuple[str, ...]]:
    (case,) = parse(CASE, "x.yaml")
    house, other = Closed(home), Closed(home.parent / "other")
    runs = [Observed(case=case, name=token, token=token, steps=(), far=(), trail=()) for token in TOKENS]
    done = [runner._Done(case=case, seen=[seen], broken=[], rounds=1, seconds=0.0, house=house) for seen in runs]
    done.append(runner._Done(case=case, seen=[runs[0]], broken=[], rounds=1, seconds=0.0, house=other))
    proven = runner._proven(done, house)

    assert ["TAMPERED", "TAMPERED", "OK"] == [one.seen[0].verdict for one in proven]
    return [one.seen[0].leaks for one in proven]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (b"nothing", [(), (), ()]),
        (TOKENS[1].encode(), [(), ("log (plain)",), ()]),
        (b"canary-of-somebody-else", [("log (plain)",), ("log (plain)",), ()]),
    ],
)
def test_a_leak_is_its_own_runs_or_of_all_where_nobody_can_tell(
    planted: Path, left: bytes, told: list[tuple[str, ...]]
) -> None:
    home = planted / "house"
    home.mkdir()
    (home / "log").write_bytes(left)

    assert told == leaks(home)
