"""Writing the audit log, against the machine it runs on: every figure stands beside a raw one from the same run.

    .venv/bin/python tests/bench/bench_audit.py [--records 200000] [--directory DIR]

Figures of different machines, and of different minutes on a shared one, are not to be compared; the ratios are.
"""

import argparse
import asyncio
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.create import LogSecrets, create_log
from broker.audit.disk import LocalDisk
from broker.audit.limits import WriterLimits
from broker.audit.opening import LockedLog, OpenedLog
from broker.audit.pin import AuditPaths
from broker.audit.writer import AuditWriter
from broker.core.events import AuditEvent, EventName

SINGLES = 200
GROUPS = 32
ROUNDS = 15
BATCH = 64


def clock() -> int:
    return time.time_ns() // 1_000_000


def paths_in(directory: Path) -> AuditPaths:
    return AuditPaths(
        directory=directory / "audit",
        pin=directory / "audit.pin",
        anchor=directory / "anchor" / "head",
        seeds=directory / "audit-seed",
    )


def new_log(directory: Path) -> tuple[AuditPaths, LogSecrets]:
    paths = paths_in(directory)
    return paths, create_log(paths.directory, paths.anchor, paths.pin, paths.seeds, clock=clock)


def event(number: int) -> AuditEvent:
    """About 293 bytes of canonical JSON, as a decision has."""
    return AuditEvent(
        name=EventName.DISPATCH_STARTED,
        at_ms=1_700_000_000_000 + number,
        correlation_id=f"{number:026d}",
        session_id="s-0123456789",
        fields={
            "operation": "issues.create",
            "target": "api.example.test",
            "digest": "0" * 64,
            "gate": "approved once",
        },
    )


def rate(count: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def cpu_us(count: int, work: Callable[[], object]) -> float:
    """CPU time for each, which other programs on the machine disturb less than the clock."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / count * 1e6


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def raw_singles(directory: Path, record: bytes) -> None:
    descriptor = os.open(directory / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for _ in range(SINGLES):
        os.write(descriptor, record)
        os.fdatasync(descriptor)
    os.close(descriptor)


def blocking_singles(writer: AuditWriter) -> None:
    for number in range(SINGLES):
        writer.append_blocking(event(number))


def bare_singles(log: OpenedLog) -> None:
    """The writer's own work for one event, without a thread or an event loop around it."""
    for number in range(SINGLES):
        log.appender.make_room()
        log.appender.write_events([event(number).encode()])
        log.appender.tidy()


async def loop_singles(writer: AuditWriter) -> None:
    for number in range(SINGLES):
        await writer.append(event(number))


async def batches(writer: AuditWriter, rounds: int) -> None:
    """64 callers each time, from the events themselves to all receipts."""
    for at in range(rounds):
        await asyncio.gather(*(writer.append(event(at * BATCH + number)) for number in range(BATCH)))


def posted(writer: AuditWriter, count: int) -> None:
    """One caller that queues 63 events and waits for the 64th."""
    for number in range(count):
        if number % BATCH == BATCH - 1:
            writer.append_blocking(event(number))
        else:
            writer.post(event(number))


def bench_append(directory: Path) -> None:
    """Each figure beside raw ones of just before and just after, so that a slow moment of the machine hits both."""
    paths, _ = new_log(directory / "served")
    other, _ = new_log(directory / "bare")
    alone = LockedLog(other, clock=clock, disk=LocalDisk(), limits=WriterLimits()).take_up()
    if not isinstance(alone, OpenedLog):
        raise TypeError(alone.note)
    writer = AuditWriter.open(paths, clock=clock)
    works: dict[str, tuple[int, Callable[[], object], str]] = {
        "single, writer alone": (SINGLES, lambda: bare_singles(alone), ""),
        "single, a thread": (SINGLES, lambda: blocking_singles(writer), "goal 0.65"),
        "single, event loop": (SINGLES, lambda: asyncio.run(loop_singles(writer)), ""),
        "groups of 64, writer alone": (GROUPS * BATCH, lambda: bare_groups(alone, GROUPS), "goal 7.5"),
        "groups of 64, one caller": (GROUPS * BATCH, lambda: posted(writer, GROUPS * BATCH), "goal 7.5"),
        "64 callers, event loop": (GROUPS * BATCH, lambda: asyncio.run(batches(writer, GROUPS)), ""),
    }
    record, ratios, rates = bytes(504), defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for _ in range(ROUNDS):
        before = rate(SINGLES, lambda: raw_singles(directory, record))
        for name, (count, work, _) in works.items():
            found = rate(count, work)
            after = rate(SINGLES, lambda: raw_singles(directory, record))
            rates["raw"].append(after)
            rates[name].append(found)
            ratios[name].append(found * 2 / (before + after))
            before = after
    raw_us = 1e6 / median(rates["raw"])
    print(f"raw append+fdatasync of 504 B {1e6 / raw_us:10,.0f} /s, {raw_us:.0f} us")
    for name, (_, _, goal) in works.items():
        print(f"{name:29s} {median(rates[name]):10,.0f} /s  {median(ratios[name]):6.2f} of raw   {goal}")
    own_us = cpu_us(SINGLES, lambda: bare_singles(alone)) - cpu_us(SINGLES, lambda: raw_singles(directory, record))
    print(f"CPU of a single above raw     {own_us:10,.0f} us, of which the signature alone {signature_us():.0f} us")
    writer.close()
    alone.appender.close()


def bare_groups(log: OpenedLog, count: int) -> None:
    """64 events a commit, from the events themselves, without a thread or a loop around it."""
    for at in range(count):
        log.appender.make_room()
        log.appender.write_events([event(at * BATCH + number).encode() for number in range(BATCH)])
        log.appender.tidy()


def signature_us() -> float:
    """What no writer with one Ed25519 signature a commit gets below, warm."""
    key, message = Ed25519PrivateKey.generate(), bytes(85)
    return cpu_us(2000, lambda: [key.sign(message) for _ in range(2000)])


def write_many(writer: AuditWriter, count: int) -> None:
    for number in range(0, count, 512):
        for more in range(min(512, count - number) - 1):
            writer.post(event(number + more))
        writer.append_blocking(event(number))


def bench_whole(directory: Path, records: int) -> None:
    paths, _ = new_log(directory)
    writer = AuditWriter.open(paths, clock=clock, limits=WriterLimits())
    print(f"writing in groups of 512      {rate(records, lambda: write_many(writer, records)):10,.0f} /s")
    writer.close()
    size = sum(path.stat().st_size for path in paths.directory.glob("*.seg"))
    print(f"bytes for a {len(event(0).encode())} byte event     {size / records:10,.1f}     (goal 400)")


def test_appending_beside_the_bare_disk(tmp_path: Path) -> None:
    """Prints the figures beside their goals. What the disk of the moment makes of them is for the reader."""
    (tmp_path / "append").mkdir()
    (tmp_path / "whole").mkdir()
    bench_append(tmp_path / "append")
    bench_whole(tmp_path / "whole", 50_000)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--directory", type=Path, default=None, help="on the disk to be measured")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as place:
        first, second = Path(place) / "append", Path(place) / "whole"
        first.mkdir()
        second.mkdir()
        bench_append(first)
        bench_whole(second, chosen.records)
    print(f"peak RSS of this process      {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
