"""SSH commands over kept connections, beside OpenSSH's own client with and without ControlMaster, in one run.

    .venv/bin/python tests/bench/bench_ssh.py

Rounds are interleaved on one sshd on loopback, for an account with a small login shell, and medians are compared, since
on a shared machine the ratios are what can be. Goals: a command takes at most half of ControlMaster's time and a
twentieth of a fresh ssh's; 32 at once get through four times as fast as with ControlMaster; a durable marker makes it
at most 3.5 times as long; a kept connection costs at most 64 KiB.
"""

import asyncio
import gc
import os
import statistics
import subprocess
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from broker.core.gate import Permit
from broker.core.ssh.frozen import Exec, SshDeadlines
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import MarkerState
from broker.executors.ssh import SshExecutor
from tests.fakes.ssh_calls import OneLogin, Trusting, bare, frozen, host, key_secret, permit
from tests.live.sshd import MANY_SESSIONS, Account, Lab, Sshd, open_lab, program

ROUNDS = 60
FRESH_ROUNDS = 7
AT_ONCE = 32
BURSTS = 3
EACH = 8  # commands of one of those at once, one after the other
CONNECTIONS = 40
MASTER_GOAL = 0.5
FRESH_GOAL = 1 / 20
THROUGHPUT_GOAL = 4.0
MARKED_GOAL = 3.5
CONNECTION_GOAL_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    bare_ms: float
    marked_ms: float
    master_ms: float
    fresh_ms: float
    ours_per_s: float
    master_per_s: float
    connection_bytes: float

    def lines(self) -> list[str]:
        return [
            f"pooled, bare          {self.bare_ms:8.2f} ms p50",
            f"pooled, marked        {self.marked_ms:8.2f} ms p50   {self.marked_ms / self.bare_ms:6.2f} x bare",
            f"ssh ControlMaster     {self.master_ms:8.2f} ms p50   {self.bare_ms / self.master_ms:6.3f} of it",
            f"ssh fresh             {self.fresh_ms:8.2f} ms p50   {self.bare_ms / self.fresh_ms:6.3f} of it",
            f"{AT_ONCE} at once, pooled    {self.ours_per_s:8.1f} /s",
            f"{AT_ONCE} at once, master    {self.master_per_s:8.1f} /s   {self.ours_per_s / self.master_per_s:6.2f} x",
            f"a kept connection     {self.connection_bytes / 1024:8.1f} KiB",
        ]


class OpenSsh:
    """The common client, as one would script it."""

    def __init__(self, lab: Lab, server: Sshd, account: Account) -> None:
        known = lab.home / "known"
        known.write_text(lab.known_hosts(server), encoding="ascii")
        self._socket = lab.home / "master"
        self._base = [program("ssh"), "-F", "none", "-o", f"UserKnownHostsFile={known}", "-o", "IdentitiesOnly=yes"]
        self._base += ["-o", "BatchMode=yes", "-i", str(lab.user_key), "-p", str(server.port)]
        self._target = f"{account.name}@127.0.0.1"

    def start_master(self) -> None:
        subprocess.run([*self._base, "-M", "-S", str(self._socket), "-fN", self._target], check=True, timeout=20)

    def stop_master(self) -> None:
        command = [*self._base, "-S", str(self._socket), "-O", "exit", self._target]
        subprocess.run(command, check=False, timeout=20, capture_output=True)

    async def run(self, *, fresh: bool) -> None:
        through = ["-S", "none"] if fresh else ["-S", str(self._socket)]
        child = await asyncio.create_subprocess_exec(
            *self._base,
            *through,
            self._target,
            "true",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert await child.wait() == 0


class Ours:
    def __init__(self, lab: Lab, target: SshHost) -> None:
        self.executor = SshExecutor(secrets=OneLogin(key_secret(lab.user_key)), trust=Trusting())
        self._target = target
        self._deadlines = SshDeadlines()

    def ticket(self, *, marked: bool) -> Permit:
        action = Exec(command=b"true") if marked else bare("true")
        return permit(frozen(self._target, action, deadlines=self._deadlines))

    async def run(self, *, marked: bool = False) -> None:
        seen = await self.executor.execute(self.ticket(marked=marked))
        assert seen.exit_status == 0
        assert seen.marker is (MarkerState.STARTED if marked else MarkerState.OFF)


async def latencies(ours: Ours, theirs: OpenSsh) -> dict[str, float]:
    """Medians in milliseconds, one after the other within each round."""
    runs = {
        "bare": partial(ours.run, marked=False),
        "master": partial(theirs.run, fresh=False),
        "marked": partial(ours.run, marked=True),
    }
    took: dict[str, list[float]] = {name: [] for name in (*runs, "fresh")}
    for number in range(ROUNDS):
        for name, run in runs.items():
            began = time.perf_counter()
            await run()
            took[name].append(time.perf_counter() - began)
        if number < FRESH_ROUNDS:
            began = time.perf_counter()
            await theirs.run(fresh=True)
            took["fresh"].append(time.perf_counter() - began)
    return {name: statistics.median(values) * 1000 for name, values in took.items()}


async def throughput(ours: Ours, theirs: OpenSsh) -> tuple[float, float]:
    """Commands a second with so many at once, ours and theirs in turn."""

    async def burst(master: bool) -> float:  # noqa: FBT001 - whose turn it is
        async def several() -> None:
            for _ in range(EACH):
                await (theirs.run(fresh=False) if master else ours.run())

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(several())
        return AT_ONCE * EACH / (time.perf_counter() - began)

    await burst(master=False)  # its connections are made
    pairs = [(await burst(master=False), await burst(master=True)) for _ in range(BURSTS)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


async def connection_bytes(lab: Lab, target: SshHost) -> float:
    """What each kept connection adds to the process, after a command on it."""
    ours = Ours(lab, target)

    async def open_another(term: int) -> None:
        ticket = permit(frozen(target, bare("true"), deadlines=SshDeadlines()), term=term)
        assert (await ours.executor.execute(ticket)).exit_status == 0

    for term in range(10):  # what is made once is made
        await open_another(term)
    gc.collect()
    before = resident_bytes()
    for term in range(10, 10 + CONNECTIONS):
        await open_another(term)
    gc.collect()
    grown = resident_bytes() - before
    assert len(ours.executor._pool.links) == CONNECTIONS + 10
    await ours.executor.close()
    return grown / CONNECTIONS


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


async def measure(lab: Lab) -> Figures:
    account, server = lab.account("dash"), lab.start(replace(MANY_SESSIONS, options={**MANY_SESSIONS.options, **QUIET}))
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    memory = await connection_bytes(lab, target)
    ours, theirs = Ours(lab, target), OpenSsh(lab, server, account)
    await asyncio.to_thread(theirs.start_master)
    try:
        await ours.run(marked=True)
        medians = await latencies(ours, theirs)
        ours_per_s, master_per_s = await throughput(ours, theirs)
    finally:
        await asyncio.to_thread(theirs.stop_master)
        await ours.executor.close()
    return Figures(
        bare_ms=medians["bare"],
        marked_ms=medians["marked"],
        master_ms=medians["master"],
        fresh_ms=medians["fresh"],
        ours_per_s=ours_per_s,
        master_per_s=master_per_s,
        connection_bytes=memory,
    )


QUIET = {"LogLevel": "ERROR"}  # a log line for each message would be what is measured


def test_ssh_commands_meet_their_goals() -> None:
    with open_lab() as lab:
        figures = asyncio.run(measure(lab))
    print("\n" + "\n".join(figures.lines()))

    assert figures.bare_ms <= MASTER_GOAL * figures.master_ms
    assert figures.bare_ms <= FRESH_GOAL * figures.fresh_ms
    assert figures.ours_per_s >= THROUGHPUT_GOAL * figures.master_per_s
    assert figures.marked_ms <= MARKED_GOAL * figures.bare_ms
    assert figures.connection_bytes <= CONNECTION_GOAL_BYTES


if __name__ == "__main__":
    os.environ.pop("SSH_AUTH_SOCK", None)
    test_ssh_commands_meet_their_goals()
