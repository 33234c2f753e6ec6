"""Running cases side by side: lanes with a house each, for a case mostly waits. The far sides are shared.

HTTP cases are dealt out to the lanes in turn. What else breaks (SSH, the daemon itself) has a lane each, in order.
Outcomes come in the order of the cases.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broker.matrix.cases import Case
from broker.matrix.runner import Outcome, Runner
from broker.matrix.stage import Stage

HTTP_LANES = 3
OTHERS = ("ssh", "daemon")


def run_lanes(
    cases: Sequence[Case], *, stages: Mapping[str, Stage], work: Path, tell: Callable[[Case, bool, float], None]
) -> list[Outcome]:
    """Every case to its end. Raises what a lane raises, once all have ended."""
    numbers = itertools.count(1)  # names of runs stay unique over all lanes
    lanes = [lane for lane in deal(cases) if lane]

    def run(place: int) -> list[Outcome]:
        runner = Runner(stages=stages, work=work / f"lane-{place}", tell=tell, numbers=numbers)
        return runner.run([cases[index] for index in lanes[place]])

    with ThreadPoolExecutor(max_workers=max(1, len(lanes))) as pool:
        done = list(pool.map(run, range(len(lanes))))
    found = dict(zip(itertools.chain(*lanes), itertools.chain(*done), strict=True))
    return [found[index] for index in range(len(cases))]


def deal(cases: Sequence[Case]) -> list[list[int]]:
    """The places of the cases, lane by lane."""
    http = [index for index, case in enumerate(cases) if case.channel == "http"]
    others = [[index for index, case in enumerate(cases) if case.channel == channel] for channel in OTHERS]
    return [*(http[lane::HTTP_LANES] for lane in range(HTTP_LANES)), *others]
