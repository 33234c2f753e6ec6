"""Verifying the audit log, beside `journalctl --verify` on a journal of the like and `openssl speed` of the same run.

    .venv/bin/python tests/bench/bench_verify.py [--records 1000000] [--entries 200000] [--directory DIR]

Times are of the processor (user and system) of one whole process each, the best of three rounds that take turns. What
differs in number is scaled to the record. The journal is not sealed, and is made by systemd-journal-remote.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from broker.audit.create import create_log
from broker.audit.limits import WriterLimits
from broker.audit.pin import AuditPaths
from broker.audit.writer import AuditWriter
from broker.core.events import AuditEvent, EventName
from tests.tampering import journal

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 3
GROUP = 64
GOAL_S = 2.5
GOAL_AT_BYTES_PER_S = 1.15e9
GOAL_OVER_JOURNAL = 1.6
GOAL_RSS_MIB = 64
EVENT_BYTES = 293


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    cpu_s: float
    rss_mib: int


def clock() -> int:
    return time.time_ns() // 1_000_000


def event(number: int) -> AuditEvent:
    """As large as a decision is: 293 bytes of canonical JSON."""
    bare = AuditEvent(
        name=EventName.DISPATCH_STARTED,
        at_ms=1_700_000_000_000 + number,
        correlation_id=f"{number:026d}",
        session_id="s-0123456789",
        fields={"digest": "0" * 64, "operation": "issues.create", "target": "api.example.test", "text": ""},
    )
    missing = EVENT_BYTES - len(bare.encode())
    return AuditEvent(
        name=bare.name,
        at_ms=bare.at_ms,
        correlation_id=bare.correlation_id,
        session_id=bare.session_id,
        fields={**bare.fields, "text": "x" * missing},
    )


def make_log(base: Path, records: int) -> int:
    """A log of at least so many records, in groups of 64 events; how many there are."""
    paths = AuditPaths(
        directory=base / "audit", pin=base / "audit.pin", anchor=base / "anchor" / "head", seeds=base / "seeds"
    )
    create_log(paths.directory, paths.anchor, paths.pin, paths.seeds, clock=clock)
    writer = AuditWriter.open(paths, clock=clock, limits=WriterLimits(min_free_bytes=0))
    number = 0
    while writer.head[0] + 1 < records:
        for _ in range(GROUP - 1):
            writer.post(event(number))
            number += 1
        writer.append_blocking(event(number))
        number += 1
    writer.close()
    return writer.head[0] + 1


def measured(command: list[str], *, good: set[int]) -> Run:
    """One process to its end: its processor time and its peak memory."""
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in good:
        raise SystemExit(f"{command[0]} ended with {child.returncode}")
    return Run(cpu_s=used.ru_utime + used.ru_stime, rss_mib=used.ru_maxrss // 1024)


def openssl_bytes_per_s() -> float | None:
    program = shutil.which("openssl")
    if program is None:
        return None
    command = [program, "speed", "-mr", "-bytes", "340", "-seconds", "1", "sha256"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return next(float(line.split(":")[-1]) for line in done.stdout.splitlines() if line.startswith("+F:"))


def best(runs: list[Run]) -> Run:
    return Run(cpu_s=min(run.cpu_s for run in runs), rss_mib=max(run.rss_mib for run in runs))


def bench(place: Path, records: int, entries: int) -> None:
    print(f"making a log of {records:,} records ...", file=sys.stderr)
    records = make_log(place, records)
    size = sum(path.stat().st_size for path in (place / "audit").glob("*.seg"))
    ours = [sys.executable, "-m", "broker.cli", "audit", "verify", str(place / "audit")]
    ours += ["--pin", str(place / "audit.pin"), "--anchor", str(place / "anchor" / "head")]
    theirs: list[str] | None = None
    if journal.available():
        print(f"making a journal of {entries:,} entries ...", file=sys.stderr)
        exported = journal.export(place / "export", entries, text="x" * (EVENT_BYTES - 40))
        (place / "journal").mkdir()
        journal.made_from(exported, place / "journal" / "bench.journal")  # more than one file where it grows large
        exported.unlink()
        theirs = ["journalctl", "--verify", f"--directory={place / 'journal'}"]
    verified, journaled, hashed = [], [], []
    for _ in range(ROUNDS):
        hashed.append(openssl_bytes_per_s())
        verified.append(measured(ours, good={0}))
        if theirs is not None:
            journaled.append(measured(theirs, good={0}))
    told(best(verified), records, size, [rate for rate in hashed if rate is not None])
    if journaled:
        beside(best(verified), records, best(journaled), entries)
    else:
        print("no systemd-journal-remote here: not held against a journal")


def told(run: Run, records: int, size: int, hashed: list[float]) -> None:
    million_s = run.cpu_s * 1e6 / records
    print(f"audit verify                 {records:11,d} records, {size / 1e6:,.0f} MB, every one read and hashed twice")
    print(f"  processor time             {run.cpu_s:11.2f} s    {records / run.cpu_s:10,.0f} records/s")
    print(f"  a million records          {million_s:11.2f} s    start of the program included")
    print(f"  peak memory                {run.rss_mib:11d} MiB  (goal {GOAL_RSS_MIB})")
    if hashed:
        rate = max(hashed)
        allowed_s = GOAL_S * GOAL_AT_BYTES_PER_S / rate
        verdict = "met" if million_s <= allowed_s else "NOT met"
        print(f"openssl speed, 340 B sha256  {rate / 1e9:11.2f} GB/s")
        print(f"  goal scaled to that        {allowed_s:11.2f} s    {verdict}")
        print(f"  bytes verified over that   {size / run.cpu_s / rate:11.2f}")


def beside(ours: Run, records: int, theirs: Run, entries: int) -> None:
    ratio = (records / ours.cpu_s) / (entries / theirs.cpu_s)
    verdict = "met" if ratio >= GOAL_OVER_JOURNAL else "NOT met"
    print(f"journalctl --verify          {entries:11,d} entries")
    print(f"  processor time             {theirs.cpu_s:11.2f} s    {entries / theirs.cpu_s:10,.0f} entries/s")
    print(f"  peak memory                {theirs.rss_mib:11d} MiB")
    print(f"ours over journalctl         {ratio:11.2f}      (goal {GOAL_OVER_JOURNAL}) {verdict}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--entries", type=int, default=200_000)
    options.add_argument("--directory", type=Path, default=None, help="where there is room for about 1 GB")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory) as place:
        bench(Path(place), chosen.records, chosen.entries)


def test_verify_beside_a_journal(tmp_path: Path) -> None:
    bench(tmp_path, 200_000, 50_000)


if __name__ == "__main__":
    main()
