"""Running cases: a house, the far sides, an agent in a process of its own, a human; then what all that left behind.

Every case has a bounded time. A shared house serves all runs but those that need a daemon of their own; in the end
its log is verified offline and its whole directory is scanned, and what is found then counts for the runs in it.
"""

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from broker.client.faults import ClientError
from broker.contract.wire import JsonObject, WireError, parse_object
from broker.matrix.canaries import scan, sees
from broker.matrix.cases import Case
from broker.matrix.checks import judge
from broker.matrix.faults import MatrixError
from broker.matrix.house import House
from broker.matrix.human import Human
from broker.matrix.observed import Breach, Observed, event_of
from broker.matrix.policy_text import policy_text
from broker.matrix.stage import CANARY, Furnished, Run, Stage
from broker.matrix.transcript import Step, step_of

AGENT = ("-I", "-m", "broker.matrix.agents")
RUN_S = 120.0  # for one agent process
LOOK_S = 0.02
ASKING = frozenset({"session", "per_call"})
LINE_BYTES = 8 << 20
UNPROVEN = "not verified yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A case, over: every round of it, and all that did not hold."""

    case: Case
    breaches: tuple[Breach, ...]
    rounds: int
    seconds: float
    seen: tuple[Observed, ...] = field(default=(), repr=False)  # each round

    @property
    def holds(self) -> bool:
        return not self.breaches


@dataclass(slots=True, kw_only=True)
class _Done:
    """A case while the house that it ran in still stands."""

    case: Case
    seen: list[Observed]
    broken: list[Breach]
    rounds: int
    seconds: float
    house: House | None = None


class Runner:
    """Runs cases in order. `stages` by channel; `work` is a directory of its own."""

    def __init__(
        self,
        *,
        stages: Mapping[str, Stage],
        work: Path,
        tell: Callable[[Case, bool, float], None],
        numbers: Iterator[int] | None = None,
    ) -> None:
        """`numbers` make the names of runs unique where far sides are shared."""
        self._stages = stages
        self._work = work
        self._tell = tell
        self._shared: dict[tuple[str, ...], House] = {}  # by the daemon's program; () is the plain one
        self._numbers = numbers or itertools.count(1)

    def run(self, cases: Iterable[Case]) -> list[Outcome]:
        """Every case to its end."""
        self._work.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not sees(self._work):
            raise MatrixError("the canary scan does not find what is planted for it")
        done: list[_Done] = []
        try:
            for case in cases:
                done.append(self._case(case))
                early = [breach for seen in done[-1].seen for breach in judge(replace(seen, verdict="OK"))]
                self._tell(case, not (early or done[-1].broken), done[-1].seconds)
            for house in self._shared.values():
                done = _proven(done, house)
        finally:
            for house in self._shared.values():
                house.__exit__(None, None, None)
        return [_outcome(one) for one in done]

    def _case(self, case: Case) -> _Done:
        done = _Done(case=case, seen=[], broken=[], rounds=case.repeat, seconds=0.0)
        began = time.monotonic()
        for _ in range(case.repeat):
            try:
                self._round(case, done)
            except (MatrixError, ClientError, WireError, OSError, subprocess.SubprocessError) as fault:
                done.broken.append(Breach(assertion="run", text=f"{type(fault).__name__}: {fault}"))
            if done.broken:
                break
        done.seconds = time.monotonic() - began
        return done

    def _round(self, case: Case, done: _Done) -> None:
        stage = self._stages.get(case.channel)
        if stage is None:
            raise MatrixError(f"nothing here speaks {case.channel}")
        slug = re.sub(r"[^a-z0-9-]+", "-", case.id.lower()).strip("-")[:40]
        run = Run(case=case, name=f"{slug}-{next(self._numbers)}")
        furnished = stage.furnish(run)
        done.house = self._house(tuple(furnished.program))
        done.seen.append(self._observe(run, furnished, stage, done.house))

    def _house(self, program: tuple[str, ...]) -> House:
        """That of the program, made when it is first needed, and brought back if a run left it without a daemon."""
        house = self._shared.get(program)
        if house is None:
            house = self._shared[program] = House(self._work / f"house-{len(self._shared)}")
            house.init().start(program).open()
        if not house.is_alive():
            house.restart(killed=True)
        return house

    def _observe(self, run: Run, furnished: Furnished, stage: Stage, house: House) -> Observed:
        case = run.case
        house.furnish(run.credential, furnished.kind, furnished.secret or {"token": run.token}, furnished.origins)
        house.trust(policy_text(case, furnished.services), furnished.files)
        before_seq, before_pid = house.last_seq(), house.pid
        if case.gate.policy in ASKING and set(case.gate.approver) == {"absent"}:
            house.step_away()
        if case.gate.vault == "locked":
            house.lock()
        beside = threading.Thread(target=stage.meanwhile, args=(run, house), daemon=True)
        beside.start()
        try:
            steps = self._agents(case, furnished, house)
            beside.join(RUN_S)
            if not beside.is_alive():
                stage.afterwards(run, house)
        finally:
            house.come_back()
        if beside.is_alive():
            raise MatrixError("what was to happen meanwhile did not end in time")
        rows = [event_of(row) for row in house.events(after_seq=before_seq)]
        return Observed(
            case=case,
            name=run.name,
            token=run.token,
            steps=steps,
            far=stage.events(run),
            trail=tuple(one for one in rows if one.correlation_id is not None),
            verdict=UNPROVEN,
            daemon_died=house.pid != before_pid,
        )

    def _agents(self, case: Case, furnished: Furnished, house: House) -> tuple[Step, ...]:
        """The agent, and after it has exited a second one where the case says so."""
        human = Human(house, case.gate.approver, scope="session" if case.gate.policy == "session" else "once")
        is_watched = case.gate.policy in ASKING or bool(case.rules)
        steps: list[Step] = []
        for number in range(2 if case.gate.second_process else 1):
            order: JsonObject = {
                "script": case.agent.script,
                "process": number,
                "main": dict(furnished.orders["main"]),
                "uses": {role: dict(told) for role, told in furnished.orders.items() if role != "main"},
            }
            steps += _agent(order, house, human if is_watched else None, house.home / "agents.log")
        return tuple(steps)


def _agent(order: JsonObject, house: House, human: Human | None, log: Path) -> list[Step]:
    """One agent process to its end; what it did. The human looks while it works."""
    with log.open("ab") as errors, subprocess.Popen(
        [sys.executable, *AGENT],
        env=house.environ,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
    ) as process:  # fmt: skip
        told: list[bytes] = []
        reader = threading.Thread(target=lambda: told.append(process.stdout.read() if process.stdout else b""))
        reader.start()
        if process.stdin is not None:
            process.stdin.write(json.dumps(order).encode())
            process.stdin.close()
        deadline = time.monotonic() + RUN_S
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise MatrixError(f"the agent did not end within {RUN_S:g} s")
            if human is not None:
                human.look()
            time.sleep(LOOK_S)
        reader.join(RUN_S)
    if process.returncode:
        raise MatrixError(f"the agent ended with {process.returncode}; its words are in {log}")
    lines = b"".join(told).splitlines()
    return [step_of(parse_object(line, max_bytes=LINE_BYTES)) for line in lines]


def _closed(house: House, root: Path) -> tuple[str, tuple[str, ...]]:
    """Stop the daemon; the verdict on its log, and every file that holds a canary."""
    house.stop()
    return house.verdict(), tuple(scan(root, CANARY))


def _proven(done: list[_Done], house: House) -> list[_Done]:
    """With what was found in the end. A leak is its own run's, and of all where nobody can tell whose it is."""
    verdict, leaks = _closed(house, house.home)
    tokens = [seen.token for one in done if one.house is house for seen in one.seen] if leaks else []
    owned = {token: tuple(scan(house.home, token)) for token in tokens}
    known = {_file(line) for lines in owned.values() for line in lines}
    nobodys = tuple(line for line in leaks if _file(line) not in known)
    return [
        one
        if one.house is not house
        else replace(
            one,
            seen=[replace(seen, verdict=verdict, leaks=(*owned.get(seen.token, ()), *nobodys)) for seen in one.seen],
        )
        for one in done
    ]


def _file(leak: str) -> str:
    return leak.rpartition(" (")[0]


def _outcome(done: _Done) -> Outcome:
    breaches = [*done.broken]
    for number, seen in enumerate(done.seen, 1):
        found = judge(seen)
        if len(done.seen) > 1:
            found = tuple(Breach(assertion=one.assertion, text=f"round {number}: {one.text}") for one in found)
        breaches += found
    return Outcome(
        case=done.case, breaches=tuple(breaches), rounds=len(done.seen), seconds=done.seconds, seen=tuple(done.seen)
    )
