"""`doorward audit repair`: cut an unfinished write off the end of a log that nobody writes to, and say what was cut.

The daemon does the same at each start; here it starts for that alone, under the state's lock, and ends. No committed
byte is touched: the torn ones are kept in a file beside, and a RECOVERY record tells of them. What is no torn write is
refused with the word for what it is.
"""

import hashlib
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from broker.audit.payload import MAX_HEAD_BYTES, Recovery, consistent_head, unpack_recovery
from broker.audit.segment import SegmentFile, layout_of, segment_name
from broker.audit.verdict import TORN, Verdict, VerdictName
from broker.audit.walk import Walk
from broker.cli.audit_verify import next_step, own_verdict, told
from broker.cli.faults import CliError
from broker.cli.output import show
from broker.cli.reach import places, running, started_and_stopped
from broker.client.faults import NotRunning
from broker.client.places import Places
from broker.contract.wire import JsonObject
from broker.core.chain import Chain, Place, Record, RecordType


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What a RECOVERY record tells of, and the file that holds the bytes; None where none of that content is there."""

    seq: int
    recovery: Recovery
    kept_in: str | None


def run(options: Namespace) -> int:
    where = places()
    _refuse_beside_a_daemon(where)
    before = own_verdict(where)
    if before.live:
        raise CliError("another process writes to this log; stop it first")
    if before.verdict not in TORN:
        return _nothing_done(options, before)
    started_and_stopped(where)
    after, cut = (
        own_verdict(where),
        last_cut(where.audit, after_seq=-1 if before.proven_to is None else before.proven_to),
    )
    if cut is None and after.verdict in TORN:
        raise CliError(
            "the log was opened, and no unfinished write was found to be cut: look at `doorward audit verify`"
        )
    value: JsonObject = {
        "before": before.to_json(),
        "after": after.to_json(),
        "cut": None if cut is None else _json(cut),
    }
    words = ["cut nothing: an empty file stood at the end, and was taken away"] if cut is None else _words(cut)
    show(value, [*words, *told(after)], as_json=options.json)
    return 0 if after.verdict is VerdictName.OK_UNANCHORED else after.exit_code


def _refuse_beside_a_daemon(where: Places) -> None:
    try:
        with running(where) as control:
            control.status()
    except NotRunning:
        return
    raise CliError("a daemon runs: it mended the end of its log when it started. To look: doorward audit verify")


def _nothing_done(options: Namespace, verdict: Verdict) -> int:
    """A whole log needs no repair; any other fault is none that may be cut away."""
    value: JsonObject = {"before": verdict.to_json(), "after": verdict.to_json(), "cut": None}
    if verdict.verdict in {VerdictName.OK, VerdictName.OK_UNANCHORED}:
        show(value, [f"nothing to repair: {verdict.note}"], as_json=options.json)
        return 0
    lines = [
        "nothing was changed: this is no unfinished write at the end, and cutting it away would hide it",
        *told(verdict),
    ]
    if next_step(verdict.verdict) is None:
        lines.append("  next: docs/audit.md")
    show(value, lines, as_json=options.json)
    return verdict.exit_code


def last_cut(directory: Path, *, after_seq: int) -> Cut | None:
    """The RECOVERY record that was written after that one. Raises OSError."""
    for path in reversed(layout_of(directory).segments):
        with SegmentFile(path) as file:
            found = [record for record in _recoveries(file) if record.seq > after_seq]
        recovery = unpack_recovery(found[-1].payload) if found else None
        if recovery is not None:
            return Cut(seq=found[-1].seq, recovery=recovery, kept_in=_kept_in(directory, recovery))
    return None


def _recoveries(file: SegmentFile) -> list[Record]:
    start = consistent_head(file.read(0, MAX_HEAD_BYTES))
    if start is None:
        return []
    chain = Chain(head=start.head.previous, seq=start.seq, epoch=start.epoch, place=Place.FILE_START)
    steps = (step for _, step in Walk(file, chain).stretches())
    return [step for step in steps if isinstance(step, Record) and step.kind is RecordType.RECOVERY]


def _kept_in(directory: Path, recovery: Recovery) -> str | None:
    for path in sorted(directory.glob(f"{recovery.segment:08d}.{recovery.offset}.*torn")):
        if path.lstat().st_size == recovery.cut_bytes:
            with SegmentFile(path) as file:
                content = file.read(0, recovery.cut_bytes)
            if hashlib.sha256(content).digest() == recovery.sha256:
                return path.name
    return None


def _json(cut: Cut) -> JsonObject:
    recovery = cut.recovery
    return {
        "segment": segment_name(recovery.segment),
        "offset": recovery.offset,
        "bytes": recovery.cut_bytes,
        "sha256": recovery.sha256.hex(),
        "anchored_seq": recovery.anchored_seq,
        "recorded_as": cut.seq,
        "kept_in": cut.kept_in,
    }


def _words(cut: Cut) -> list[str]:
    recovery = cut.recovery
    anchored = "there was no anchor" if recovery.anchored_seq is None else f"record {recovery.anchored_seq}"
    return [
        f"cut {recovery.cut_bytes} bytes of an unfinished write: {segment_name(recovery.segment)} at {recovery.offset}",
        f"  kept in: {cut.kept_in or 'a file that is gone'}; told in record {cut.seq}",
        f"  acknowledged before: {anchored}; of what was cut nobody was told that it was recorded",
    ]
