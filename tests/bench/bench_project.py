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
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from broker.audit.projection import Projection
from broker.audit.reader import LogReading, event_of, read_events
from broker.audit.writer import AuditWriter
from broker.core.secret import Secret
from tests.bench.bench_audit import clock, event, median, new_log, write_many

NONCE = bytes(12)


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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    count = chosen.records
    with tempfile.TemporaryDirectory() as place:
        paths, secrets = new_log(Path(place))
        writer = AuditWriter.open(paths, clock=clock)
        write_many(writer, count)
        writer.close()
        directory, key = paths.directory, secrets.audit_sk
        plains = [event(number).encode() for number in range(20_000)]
        bare: list[float] = []
        sealed: list[float] = []
        decoded: list[float] = []
        whole: list[float] = []
        for _ in range(chosen.rounds):  # interleaved
            bare.append(per_second(count, lambda: seals_alone(plains[0], count)))
            sealed.append(per_second(count, lambda: opened(directory, key)))
            decoded.append(per_second(len(plains), lambda: parsed(plains)))
            whole.append(per_second(count, lambda: sum(1 for _ in read_events(directory, key))))
        base = median(bare)
        print(f"event                         {len(plains[0]):10,} bytes")
        print(f"seal, ratchet and hash alone  {base:10,.0f} /s   {1e6 / base:.2f} us")
        rows = (("walked, hashed and opened", sealed), ("parsed alone", decoded), ("read: opened and parsed", whole))
        for name, values in rows:
            figure = median(values)
            print(f"{name:29s} {figure:10,.0f} /s   {1e6 / figure:.2f} us   {figure / base:.2f} of seals alone")
        before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figure = per_second(count, lambda: filled(Projection(), directory, key))
        after_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"project: read, folded, kept   {figure:10,.0f} /s   {1e6 / figure:.2f} us   {figure / base:.2f}")
        print(f"goal                          {150_000:10,.0f} /s   read: opened and parsed")
        print(f"peak RSS                      {after_mib:10,} MiB, {before_mib} before the projection")


def filled(projection: Projection, directory: Path, audit_sk: Secret) -> None:
    for batch in LogReading(directory, audit_sk).committed():
        projection.append(batch)


if __name__ == "__main__":
    main()
