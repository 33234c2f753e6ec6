"""`doorward audit export`: the log's events as JSON lines for other programs, each with its hash, and the signed head.

The events come from the daemon, which opens them; the hashes come from the files, which need no key. Going on from
where an export ended, the record there has to be the one that was exported: a log that was put back is told, and
nothing is added. Ended at any instant and begun again with --resume, each event is there once.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from broker.audit import AuditError
from broker.audit.hashes import EventHashes, Proof
from broker.audit.verdict import EXIT_CODES, VerdictName
from broker.cli.export_file import ExportFile
from broker.cli.faults import CliError, UsageError
from broker.cli.output import number
from broker.cli.reach import desk, places
from broker.client.control import ControlClient
from broker.client.envelope_lines import parts
from broker.contract.neutralise import visible_json
from broker.contract.wire import JsonObject, JsonValue, dump

PAGE = 1000
_CURSOR = re.compile(r"(\d{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last record that was exported."""

    seq: int
    h: str

    @property
    def spelled(self) -> str:
        return f"{self.seq}:{self.h}"


def cursor(text: str) -> Cursor:
    """Raises ValueError, which argparse words."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return Cursor(int(found[1]), found[2])


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--format", choices=["jsonl"], default="jsonl", help="one JSON object a line")
    parser.add_argument("--to", metavar="FILE", help="a file of your own that is made or, with --resume, gone on with")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--after", type=cursor, metavar="CURSOR", help="what comes after it: SEQ:HASH of an export's end"
    )
    start.add_argument("--resume", action="store_true", help="what comes after the last line of FILE")


def run(options: Namespace) -> int:
    if options.resume and options.to is None:
        raise UsageError("--resume goes on with a file: --to FILE; after a cursor: --after CURSOR")
    if options.to is None:
        return _export(options, options.after, _to_stdout)
    with ExportFile(Path(options.to), resume=options.resume) as file:
        begun = options.after if file.last is None else _where(file.last)
        return _export(options, begun, file.add, log_id=None if file.last is None else str(file.last.get("log_id")))


def _export(
    options: Namespace, begun: Cursor | None, write: Callable[[bytes], None], *, log_id: str | None = None
) -> int:
    hashes = EventHashes(places().audit)
    with desk(options, transient=True, session=True) as reached:
        control, own = reached.control, reached.key.log_id
        if log_id not in {None, own}:
            raise CliError(
                f"WRONG_LOG: the file holds events of log {log_id}, this is log {own}; nothing was added",
                exit_code=EXIT_CODES[VerdictName.WRONG_LOG],
                code="wrong_log",
            )
        if begun is not None:
            _still_there(hashes, begun)
        last, count = _events(control, hashes, own, begun, write)
        note = control.audit_checkpoint().get("note")
        write(_line(_head(own, last, note)))
    with suppress(ValueError):  # a closed stderr is nobody's trouble
        print(f"{count} {'event' if count == 1 else 'events'} exported", file=sys.stderr)
    return 0


def _events(
    control: ControlClient, hashes: EventHashes, log_id: str, begun: Cursor | None, write: Callable[[bytes], None]
) -> tuple[Cursor | None, int]:
    """Up to where the log ended when the last page was asked for."""
    last, count = begun, 0
    while True:
        answer = control.audit_events(after_seq=None if last is None else last.seq, limit=PAGE)
        lines = []
        for event in parts(answer, "events"):
            seq = number(event, "seq")
            proof = _proof(hashes, seq, broken="unreadable" in event)
            where: JsonObject = {"h": None, "epoch": None} if proof is None else {"h": proof.h, "epoch": proof.epoch}
            lines.append(_line({"log_id": log_id, "seq": seq, **where, **_told(event)}))
            last = last if proof is None else Cursor(seq, proof.h)
        write(b"".join(lines))
        count += len(lines)
        if answer.get("next_seq") is None:
            return last, count


def _head(log_id: str, last: Cursor | None, note: JsonValue) -> JsonObject:
    """The last line: where the export stands, and a signed note of a head that is no older."""
    if last is None:
        return {"log_id": log_id, "seq": -1, "h": "", "cursor": None, "checkpoint": note}
    return {"log_id": log_id, "seq": last.seq, "h": last.h, "cursor": last.spelled, "checkpoint": note}


def _told(event: JsonObject) -> JsonObject:
    return {name: value for name, value in event.items() if name not in {"seq", "log_id", "h", "epoch"}}


def _still_there(hashes: EventHashes, begun: Cursor) -> None:
    found = _asked(hashes, begun.seq)
    if found is None or found.h != begun.h:
        what = "is not there any more" if found is None else "is another one now"
        raise CliError(
            f"ROLLBACK: record {begun.seq}, the last one that was exported, {what}: the log was put back or replaced. "
            "Nothing was added. See: doorward audit verify",
            exit_code=EXIT_CODES[VerdictName.ROLLBACK],
            code="rollback",
        )


def _proof(hashes: EventHashes, seq: int, *, broken: bool) -> Proof | None:
    """None where the log is broken, which its line then says."""
    found = _asked(hashes, seq)
    if found is None and not broken:
        raise CliError(f"record {seq} is not in the log's files; see: doorward audit verify", code="damaged")
    return found


def _asked(hashes: EventHashes, seq: int) -> Proof | None:
    try:
        return hashes.of(seq)
    except AuditError as cause:
        raise CliError(str(cause), code="damaged") from None


def _where(line: JsonObject) -> Cursor | None:
    """Where the file's last line stands; None where it says that there was nothing yet."""
    seq, h = line.get("seq"), line.get("h")
    if seq == -1:
        return None
    try:
        return cursor(f"{seq}:{h}")
    except ValueError:
        raise CliError("the last line of the file names no record; nothing was added") from None


def _line(value: JsonObject) -> bytes:
    return visible_json(dump(value).decode()).encode() + b"\n"


def _to_stdout(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()
