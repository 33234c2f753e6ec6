"""Reading the log back, against what cannot be left out: opening the seals alone, in the same run.

    .venv/bin/python tests/bench/bench_project.py [--records 200000] [--rounds 5]

The ratio is the figure to compare between machines. CPU time, so that other programs disturb less.
"""

import argparse
import hashlib
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.audit.projection import EVENTS_KEPT, Projection
from broker.audit.reader import LogReading, event_of, read_events
from broker.audit.writer import AuditWriter
from broker.core.secret import Secret
from tests.bench.bench_audit import clock, event, median, new_log, write_many

NONCE = bytes(12)
GOAL = 150_000
LEAST_SHARE = 0.35  # of the rate that opening the seals alone allows, on whatever machine


def per_second(count: int, work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return count / (time.process_time() - began)


def seals_alone(plain: bytes, count: int) -> None:
    """What each event costs in C whatever the reader does: the ratchet's step, the seal, the record's hash."""
    padded = plain + b"\x80" + bytes(-(len(plain) + 1) % 64)
    associated, key = bytes(52), os.urandom(32)
    sealed = ChaCha20Poly1305(key).encrypt(NONCE, padded, associated)
    frame = bytes(52) + sealed
    for _ in range(count):
        hashlib.blake2b(b"doorward/audit/ratchet/v1", key=key).digest()
        ChaCha20Poly1305(key).decrypt(NONCE, sealed, associated)
        hashlib.sha256(frame).digest()


def opened(directory: Path, audit_sk: Secret) -> None:
    for _ in LogReading(directory, audit_sk).committed():
        pass


def parsed(plains: list[bytes]) -> None:
    for plain in plains:
        event_of(plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Events a second, medians over rounds that take turns."""

    event_bytes: int
    seals: float
    opened: float
    parsed: float
    read: float
    projected: float
    projection_mib: int


def measured(count: int, rounds: int) -> Figures:
    with tempfile.TemporaryDirectory() as place:
        paths, secrets = new_log(Path(place))
        writer = AuditWriter.open(paths, clock=clock)
        write_many(writer, count)
        writer.close()
        directory, key = paths.directory, secrets.audit_sk
        plains = [event(number).encode() for number in range(20_000)]
        works: dict[str, tuple[int, Callable[[], object]]] = {
            "seals": (count, lambda: seals_alone(plains[0], count)),
            "opened": (count, lambda: opened(directory, key)),
            "parsed": (len(plains), lambda: parsed(plains)),
            "read": (count, lambda: sum(1 for _ in read_events(directory, key))),
        }
        taken: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(rounds):
            for name, (number, work) in works.items():
                taken[name].append(per_second(number, work))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        held = Projection()
        projected = per_second(count, lambda: filled(held, directory, key))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    medians = {name: median(values) for name, values in taken.items()}
    return Figures(event_bytes=len(plains[0]), projected=projected, projection_mib=grown // 1024, **medians)


def told(figures: Figures) -> None:
    print(f"event                         {figures.event_bytes:10,} bytes")
    rows = (
        ("seal, ratchet and hash alone", figures.seals),
        ("walked, hashed and opened", figures.opened),
        ("parsed alone", figures.parsed),
        ("read: opened and parsed", figures.read),
        ("project: read, folded, kept", figures.projected),
    )
    for name, figure in rows:
        print(f"{name:29s} {figure:10,.0f} /s   {1e6 / figure:5.2f} us   {figure / figures.seals:.2f} of seals alone")
    print(f"goal for reading              {GOAL:10,} /s")
    print(f"the projection takes          {figures.projection_mib:10,} MiB for {EVENTS_KEPT:,} events at most")


def test_reading_takes_no_more_than_twice_what_seals_and_parsing_cost_in_c() -> None:
    figures = measured(60_000, 3)
    told(figures)

    assert figures.read / figures.seals > LEAST_SHARE
    assert figures.projected / figures.seals > LEAST_SHARE / 2


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    told(measured(chosen.records, chosen.rounds))


def filled(projection: Projection, directory: Path, audit_sk: Secret) -> None:
    for batch in LogReading(directory, audit_sk).committed():
        projection.append(batch)


if __name__ == "__main__":
    main()
