"""A process that appends to a log until it is killed, and prints the number of each event after its receipt.

python -m tests.fakes.log_child BASE FIRST
"""

import asyncio
import sys
from pathlib import Path

from broker.audit.limits import WriterLimits
from broker.audit.writer import AuditWriter
from tests.fakes.logs import TickingClock, an_event, paths_in

CALLERS = 4
LIMITS = WriterLimits(segment_bytes=20_000, epoch_events=20, min_free_bytes=0, reserve_bytes=4096)


async def append_for_ever(writer: AuditWriter, first: int) -> None:
    number = first
    while True:
        await writer.append(an_event(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += CALLERS


async def main(base: Path, first: int) -> None:
    writer = AuditWriter.open(paths_in(base), clock=TickingClock(), limits=LIMITS)
    async with asyncio.TaskGroup() as tasks:
        for caller in range(CALLERS):
            tasks.create_task(append_for_ever(writer, first + caller))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
