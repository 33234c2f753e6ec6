"""A writer whose doings are taken down by our recorder, so that they can be held against what a tracer saw of it.

python -m tests.fakes.recorded_child BASE

Prints the kind of each step, one a line.
"""

import sys
from pathlib import Path

from broker.audit.limits import WriterLimits
from broker.audit.seal import EpochReason
from tests.fakes.file_recorder import Recorder
from tests.fakes.logs import an_event, new_log
from tests.fakes.power_cut import Bind, Resize, Step, Sync, Write

LIMITS = WriterLimits(segment_bytes=3000, epoch_events=4, min_free_bytes=0, reserve_bytes=1024)


def kind(step: Step) -> str | None:
    match step:
        case Write():
            return "write"
        case Resize(grows=False):
            return "truncate"
        case Sync():
            return "sync"
        case Bind(names=names):
            gone = any(number is None for _, number in names)
            return ("rename" if len(names) > 1 else "unlink") if gone else "create"
        case _:
            return None


def main(base: Path) -> None:
    log = new_log(base)
    with log.segments()[-1].open("ab") as file:
        file.write(bytes(100))
    recorder = Recorder(base)
    (base / "begin").touch()
    with recorder.recording():
        with log.writer(limits=LIMITS) as writer:
            for number in range(12):
                writer.append_blocking(an_event(number))
            writer.new_epoch_blocking(EpochReason.LOCK)
        with log.writer(limits=LIMITS) as again:
            again.checkpoint_blocking(log.root)
    (base / "end").touch()
    sys.stdout.write("".join(f"{told}\n" for told in map(kind, recorder.steps) if told is not None))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
