"""`doorward audit verify`: one verdict on a log, from public knowledge alone. Needs no daemon, vault or network.

Knowledge that can't be read is a verdict too; only a name that leads nowhere is a wrong command line.
"""

import os
import stat
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker.audit import AuditError
from broker.audit.checkpoint import MAX_FILE_BYTES
from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Rung, Verdict, VerdictName
from broker.audit.verify import unreadable, verify
from broker.cli.faults import UsageError
from broker.cli.output import show, text
from broker.cli.reach import places
from broker.client.places import Places
from broker.contract.wire import JsonObject

T = TypeVar("T")

NEXT = {
    VerdictName.OK_UNANCHORED: "hold it against an --anchor or a --checkpoint that was kept elsewhere",
    VerdictName.TORN_TAIL: "the daemon mends this at its next start; so does doorward audit repair",
    VerdictName.TORN_OR_TAMPERED: "hold it against a --checkpoint; if you know of a crash: doorward audit repair",
}
_TAKE_OVER = (
    "keep a copy of the log and find out who wrote there; to go on: doorward vault readopt (docs/audit.md). "
    "Where that was done already, doorward status tells whether there is more"
)
_RESTORE = "see that pin, anchor and directory belong together, restore what is gone; docs/audit.md tells more"


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="DIR|FILE", help="default: this state's own log, anchor and pin")
    parser.add_argument("--pin", metavar="FILE", help="the public pin of the log")
    parser.add_argument(
        "--anchor", metavar="FILE", action="append", default=[], help="a copy of the log's head; may be given again"
    )
    parser.add_argument("--checkpoint", metavar="FILE", help="signed notes of the log's head that were kept elsewhere")


def run(options: Namespace) -> int:
    verdict = verdict_on(options)
    show(dict(verdict.to_json()), told(verdict), as_json=options.json)
    return verdict.exit_code


def verdict_on(options: Namespace) -> Verdict:
    where, own = places(), not options.paths
    try:
        pin = _read(Pin.load, options.pin) or (_own(Pin.load, where.pin) if own else None)
    except AuditError as cause:
        return unreadable(f"the pin can't be used: {cause}", pinned=False)
    try:
        anchors = [anchor for name in options.anchor if (anchor := _read(Anchor.load, name)) is not None]
        if own and not anchors:
            anchors = [anchor for anchor in [_own(Anchor.load, where.anchor_head)] if anchor is not None]
        notes = _notes(options.checkpoint)
    except AuditError as cause:
        return unreadable(str(cause), pinned=pin is not None)
    paths = [Path(path) for path in options.paths]
    progress = _Progress() if sys.stderr.isatty() else None
    try:
        return verify(
            where.audit if own else paths,
            pin=pin,
            anchors=[HeldAnchor(rung=Rung.FILE, anchor=anchor) for anchor in anchors],
            checkpoint=notes,
            progress=progress,
        )
    finally:
        if progress is not None:
            progress.wipe()  # a check that stops at a fault is never at 100 %


def own_verdict(where: Places) -> Verdict:
    """The verdict on the state's own log, held against its own pin and anchor."""
    try:
        pin, anchor = Pin.load(where.pin), _own(Anchor.load, where.anchor_head)
    except AuditError as cause:
        return unreadable(str(cause), pinned=False)
    held = [] if anchor is None else [HeldAnchor(rung=Rung.FILE, anchor=anchor)]
    return verify(where.audit, pin=pin, anchors=held)


def told(verdict: Verdict) -> list[str]:
    """The verdict for humans, and what to do next."""
    value = verdict.to_json()
    good = verdict.verdict in {VerdictName.OK, VerdictName.OK_UNANCHORED}
    known = "pinned" if verdict.pinned else "NOT pinned: held against no key from outside"
    lines = [
        f"{'+' if good else 'x'} {text(value, 'verdict')}: {text(value, 'note')}",
        f"  anchored: {text(value, 'rung')}; {known}" + ("; a writer is at work" if verdict.live else ""),
        f"  proven: {text(value, 'records')} records, to number {text(value, 'proven_to')}",
    ]
    if any(value[name] is not None for name in ("segment", "offset", "seq")):
        lines.append(_place(value, "ends" if good else "first bad record"))
    advice = next_step(verdict.verdict)
    return lines if advice is None else [*lines, f"  next: {advice}"]


def next_step(verdict: VerdictName) -> str | None:
    """What a human may do about it; docs/audit.md has the same at length."""
    if verdict in NEXT or verdict is VerdictName.OK:
        return NEXT.get(verdict)
    whose = {VerdictName.WRONG_LOG, VerdictName.UNREADABLE, VerdictName.EMPTY_OR_MISSING}
    return _RESTORE if verdict in whose else _TAKE_OVER


def _place(value: JsonObject, word: str) -> str:
    return f"  {word}: {text(value, 'segment')} offset {text(value, 'offset')} record {text(value, 'seq')}"


def _read(load: Callable[[Path], T], name: str | None) -> T | None:
    """What a file holds that was named; one that does not exist is a slip of the keyboard."""
    if name is None:
        return None
    path = Path(name)
    if not _there(path):
        raise UsageError(f"there is no {path}")
    return load(path)


def _own(load: Callable[[Path], T], path: Path) -> T | None:
    return load(path) if _there(path) else None


def _there(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # a name with a NUL in it
        return False


def _notes(name: str | None) -> bytes | None:
    """The content of a checkpoint file; one byte more than may be tells that it is too large. Raises AuditError."""
    if name is None:
        return None
    path = Path(name)
    if not _there(path):
        raise UsageError(f"there is no {path}")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not hold us up
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise AuditError(f"{path} is not a file of checkpoints")
            return os.read(descriptor, MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as cause:
        raise AuditError(f"{path} can't be read: {cause.strerror}") from cause


class _Progress:
    """A line on the terminal that is drawn anew with each per cent, and wiped at the end."""

    def __init__(self) -> None:
        self._drawn = -1

    def __call__(self, done: int, whole: int) -> None:
        percent = 100 if done >= whole else done * 100 // max(whole, 1)
        if percent != self._drawn:
            line = "" if percent == 100 else f"checking {percent} %"
            print(f"\r{line:<14}\r{line}", end="", file=sys.stderr, flush=True)
            self._drawn = percent

    def wipe(self) -> None:
        if 0 <= self._drawn < 100:
            print(f"\r{'':<14}\r", end="", file=sys.stderr, flush=True)
