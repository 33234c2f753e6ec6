"""The real daemon with one fault planted: `python -I -m broker.matrix.faulty_daemon ORDER`.

The order is a file with one line of JSON: point, side, kind, seconds. It is looked at wherever a point is reached, and
removed when the fault is set off, so that it happens once. Points are the events of the audit log, and the methods
that make up the numbered steps. The daemon's own programs know nothing of this and can't be led here.
"""

import errno
import functools
import inspect
import os
import pkgutil
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.contract.wire import JsonObject, WireError, parse_object

METHODS = {
    "2_vault": "broker.pipeline:Pipeline._enter",
    "3_policy": "broker.pipeline:Pipeline._decide",
    "4_ledger": "broker.pipeline:Pipeline._consult_ledger",
    "5_evidence": "broker.proof:Proofs.consult",
    "6_gate": "broker.pipeline:Pipeline._ask_or_pass",
    "7_recheck": "broker.steps:Named.rechecked",
    "8_ledger": "broker.daemon.told_ledger:ToldLedger.begin",
    "9_send": "broker.executors.by_channel:ByChannel.execute",
    "9_ledger": "broker.daemon.told_ledger:ToldLedger.finish",
    "9_answer": "broker.pipeline:Pipeline.perform",
}
EVENTS = {
    "1_request": "action.requested",
    "3_decided": "policy.decided",
    "6_card": "approval.requested",
    "6_answer": "approval.decided",
    "8_intent": "dispatch.started",
    "9_outcome": "remote.answered",
    "9_result": "action.result",
}
JOURNAL = ("broker.daemon.journal:Journal.post", "broker.daemon.journal:Journal.append")
DAEMON = "broker.daemon"
DISK_FULL, SYNC_FAILS, KILLED_IN_WRITE = "disk_full", "fsync_error", "kill_in_write"
Method = Callable[..., Any]
WRITE = "broker.audit.disk:LocalDisk.write"
SYNC = "broker.audit.disk:LocalDisk.sync"
NS_PER_S = 1_000_000_000


class Fuse:
    """Sets the fault off where the order says so."""

    def __init__(self, order: Path) -> None:
        self._order = order
        self.disk = ""  # how the disk under the audit log fails from now on
        self.ahead_ns = 0  # of the wall clock

    def reached(self, side: str, point: str) -> None:
        told = self._told()
        if told.get("point") != point or told.get("side") != side:
            return
        self._order.unlink(missing_ok=True)
        match told.get("kind"):
            case "kill":
                die()
            case "jump":
                self.ahead_ns = int(float(str(told.get("seconds"))) * NS_PER_S)
            case kind:
                self.disk = str(kind)

    def _told(self) -> JsonObject:
        try:
            return parse_object(self._order.read_bytes())
        except (OSError, WireError):
            return {}


def die() -> None:
    """As `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def plant(fuse: Fuse) -> None:
    """Put the fuse before and after every point, under the log's disk, and under the wall clock.

    Raises AttributeError where a point is no more: then the daemon has changed, and this table has to.
    """
    for point, place in METHODS.items():
        _wrap(place, functools.partial(_fused, fuse, lambda *_, point=point: (point,)))
    for place in JOURNAL:
        _wrap(place, functools.partial(_fused, fuse, _points_of_event))
    _wrap(WRITE, functools.partial(_failing_write, fuse))
    _wrap(SYNC, functools.partial(_failing_sync, fuse))
    true_ns, true_s = time.time_ns, time.time
    time.time_ns = lambda: true_ns() + fuse.ahead_ns
    time.time = lambda: true_s() + fuse.ahead_ns / NS_PER_S


def _wrap(place: str, around: Callable[[Method], Method]) -> None:
    owner_place, _, name = place.rpartition(".")
    owner = pkgutil.resolve_name(owner_place)
    setattr(owner, name, around(getattr(owner, name)))


def _points_of_event(_: object, event: Any) -> tuple[str, ...]:
    """A write of the log goes by the event's own name, and by the step that it ends."""
    name = str(event.name.value)
    return (name, *(point for point, one in EVENTS.items() if one == name))


def _fused(fuse: Fuse, points: Callable[..., tuple[str, ...]], method: Method) -> Method:
    def burn(side: str, *given: object) -> None:
        for point in points(*given):
            fuse.reached(side, point)

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(*given: Any, **named: Any) -> Any:
            burn("before", *given)
            told = await method(*given, **named)
            burn("after", *given)
            return told

        return awaited

    @functools.wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        burn("before", *given)
        told = method(*given, **named)
        burn("after", *given)
        return told

    return called


def _failing_write(fuse: Fuse, write: Method) -> Method:
    """A full disk takes half of what it is given, as real ones do; so does one that is there no more in the middle."""

    @functools.wraps(write)
    def failing(disk: object, descriptor: int, content: bytes) -> Any:
        if fuse.disk not in {DISK_FULL, KILLED_IN_WRITE}:
            return write(disk, descriptor, content)
        written = write(disk, descriptor, content[: len(content) // 2])
        if fuse.disk == KILLED_IN_WRITE:
            die()
        return written

    return failing


def _failing_sync(fuse: Fuse, sync: Method) -> Method:
    @functools.wraps(sync)
    def failing(disk: object, descriptor: int) -> Any:
        if fuse.disk == SYNC_FAILS:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return sync(disk, descriptor)

    return failing


def main(order: str) -> None:
    """From here on it is the daemon's own program."""
    plant(Fuse(Path(order)))
    sys.argv = ["doorward serve"]
    runpy.run_module(DAEMON, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
