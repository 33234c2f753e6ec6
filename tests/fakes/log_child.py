"""A process that forks writers: each appends to a log until it is killed, and tells each event after its receipt.

python -m tests.fakes.log_child

Reads `BASE FIRST` from its input. Prints `pid N` for the writer that it forked, then the number of each event that was
acknowledged, and `dead` once that writer has gone.
"""

import asyncio
import os
import sys
from pathlib import Path

from broker.audit.limits import WriterLimits
from broker.audit.seal import EpochReason
from broker.audit.writer import AuditWriter
from tests.fakes.logs import TickingClock, an_event, paths_in

CALLERS = 4
LIMITS = WriterLimits(segment_bytes=20_000, epoch_events=20, min_free_bytes=0, reserve_bytes=4096)


async def append_for_ever(writer: AuditWriter, first: int) -> None:
    number = first
    while True:
        if number % 11 == 10:
            writer.post(an_event(-1))
        await writer.append(an_event(number))
        os.write(1, f"{number}\n".encode())
        if number % 37 == 36:
            await writer.new_epoch(EpochReason.LOCK)
        number += CALLERS


async def write_until_killed(base: Path, first: int) -> None:
    writer = AuditWriter.open(paths_in(base), clock=TickingClock(), limits=LIMITS)
    async with asyncio.TaskGroup() as tasks:
        for caller in range(CALLERS):
            tasks.create_task(append_for_ever(writer, first + caller))


def serve() -> None:
    for line in sys.stdin:
        base, first = line.split()
        child = os.fork()
        if child == 0:
            asyncio.run(write_until_killed(Path(base), int(first)))
            os._exit(1)
        os.write(1, f"pid {child}\n".encode())
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    serve()
