"""The audit log against the machine it runs on: every figure stands beside a raw one from the same run.

    .venv/bin/python tests/bench/bench_audit.py [--records 200000] [--directory DIR]

Figures of different machines, and of different minutes on a shared one, are not to be compared; the ratios are.
"""

import argparse
import asyncio
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from broker.audit.create import LogSecrets, create_log
from broker.audit.disk import LocalDisk
from broker.audit.ladder import in_file
from broker.audit.limits import WriterLimits
from broker.audit.opening import LockedLog, OpenedLog
from broker.audit.pin import Anchor, AuditPaths, Pin
from broker.audit.reader import read_events
from broker.audit.verify import verify
from broker.audit.writer import AuditWriter
from broker.core.events import AuditEvent, EventName

SINGLES = 400
ROUNDS = 11
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
        if (reason := log.appender.epoch_is_over()) is not None:
            log.appender.new_epoch(reason)
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
    record = bytes(504)  # an EVENT of this size with its COMMIT
    raw: list[float] = []
    blocking: list[float] = []
    looped: list[float] = []
    grouped: list[float] = []
    queued: list[float] = []
    bare: list[float] = []
    paths, _ = new_log(directory / "served")
    other, _ = new_log(directory / "bare")
    alone = LockedLog(other, clock=clock, disk=LocalDisk(), limits=WriterLimits()).take_up()
    if not isinstance(alone, OpenedLog):
        raise TypeError(alone.note)
    writer = AuditWriter.open(paths, clock=clock)
    for _ in range(ROUNDS):  # interleaved, so that a slow minute of the machine hits all alike
        raw.append(rate(SINGLES, lambda: raw_singles(directory, record)))
        bare.append(rate(SINGLES, lambda: bare_singles(alone)))
        blocking.append(rate(SINGLES, lambda: blocking_singles(writer)))
        looped.append(rate(SINGLES, lambda: asyncio.run(loop_singles(writer))))
        grouped.append(rate(64 * BATCH, lambda: asyncio.run(batches(writer, 64))))
        queued.append(rate(256 * BATCH, lambda: posted(writer, 256 * BATCH)))
    writer.close()
    own_us = cpu_us(SINGLES, lambda: bare_singles(alone)) - cpu_us(SINGLES, lambda: raw_singles(directory, record))
    base = median(raw)
    print(f"raw append+fdatasync          {base:10,.0f} /s")
    singles = (("writer alone", bare), ("single append, a thread", blocking), ("single append, event loop", looped))
    for name, values in singles:
        more_us = 1e6 / median(values) - 1e6 / base
        print(f"{name:29s} {median(values):10,.0f} /s   {median(values) / base:.2f} of raw, {more_us:.0f} us more")
    print(f"writer's CPU above raw        {own_us:10,.0f} us a single append, one signature in it")
    for name, values in (("64 callers, event loop", grouped), ("groups of 64, one caller", queued)):
        print(f"{name:29s} {median(values):10,.0f} /s   {median(values) / base:.2f} of raw")


def write_many(writer: AuditWriter, count: int) -> None:
    for number in range(0, count, 512):
        for more in range(min(512, count - number) - 1):
            writer.post(event(number + more))
        writer.append_blocking(event(number))


def bench_whole(directory: Path, records: int) -> None:
    paths, secrets = new_log(directory)
    writer = AuditWriter.open(paths, clock=clock, limits=WriterLimits())
    print(f"writing in groups of 512      {rate(records, lambda: write_many(writer, records)):10,.0f} /s")
    writer.close()
    size = sum(path.stat().st_size for path in paths.directory.glob("*.seg"))
    print(f"bytes for a {len(event(0).encode())} byte event     {size / records:10,.1f}     (goal 400)")
    script = Path(__file__).with_name("verify_once.py")
    measured = subprocess.run(
        [sys.executable, str(script), str(directory)], capture_output=True, text=True, check=True, env=os.environ
    ).stdout.split()
    seconds, rss_mib = float(measured[0]), int(measured[1])
    hashed = hash_rate()
    print(f"sha256 of 340 bytes, CPU time {hashed:10,.0f} /s")
    print(f"full verify, CPU time         {records / seconds:10,.0f} /s   {records / seconds / hashed:.2f} of that")
    print(
        f"  a million such records      {seconds * 1e6 / records:10.2f} s     (goal 2.5), RSS {rss_mib} MiB (goal 64)"
    )
    print(f"openssl speed, 340 bytes      {openssl_rate()}")
    verdict = verify(paths.directory, pin=Pin.load(paths.pin), anchors=in_file(Anchor.load(paths.anchor)))
    print(f"verdict                       {verdict.verdict} over {verdict.records} records")
    opened = rate(records, lambda: sum(1 for _ in read_events(paths.directory, secrets.audit_sk)))
    print(f"opened and parsed             {opened:10,.0f} /s   (goal 150,000)")


def hash_rate() -> float:
    content, sha256, count = os.urandom(340), hashlib.sha256, 300_000
    began = time.process_time()
    for _ in range(count):
        sha256(content).digest()
    return count / (time.process_time() - began)


def openssl_rate() -> str:
    program = shutil.which("openssl")
    if program is None:
        return "(no openssl here)"
    run = subprocess.run(
        [program, "speed", "-bytes", "340", "-seconds", "1", "sha256"], capture_output=True, text=True, check=False
    )
    return run.stdout.strip().splitlines()[-1] if run.returncode == 0 else "(openssl speed failed)"


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
