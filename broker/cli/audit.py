"""`doorward audit`: verify the log from public knowledge alone, and read its events with the vault open."""

import sys
import time
from argparse import Namespace
from pathlib import Path

from broker.cli.arguments import Verbs, positive_number, whole_number
from broker.cli.faults import UsageError
from broker.cli.output import number, part, parts, show, text
from broker.cli.reach import desk, places
from broker.client.control import ControlClient
from broker.client.hardening import harden
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject, JsonValue, dump

MOST_NOTE_BYTES = 64 << 10
DEFAULT_EVENTS = 50
MOST_EVENTS = 1000  # the daemon gives no more at a time
RECORDS_PER_EVENT = 4


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = _verbs(noun).parser.parse_args(arguments)
    return _verify(options) if options.verb == "verify" else _show(options)


def _verbs(noun: str) -> Verbs:
    verbs = Verbs(noun, "The sealed log of what was asked, decided and done.")
    checked = verbs.add("verify", "one verdict on a log; needs no daemon, no vault and no network")
    checked.add_argument("paths", nargs="*", metavar="DIR|FILE", help="default: this state's own log, anchor and pin")
    checked.add_argument("--pin", metavar="FILE", help="the public pin of the log")
    checked.add_argument("--anchor", metavar="FILE", help="a copy of the log's head kept elsewhere")
    checked.add_argument("--checkpoint", metavar="FILE", help="a signed note of the log's head")
    shown = verbs.add("show", "its events, opened with the vault's key")
    shown.add_argument("--correlation-id", metavar="ID", help="of one request")
    shown.add_argument("--event", metavar="NAME", help="of one kind")
    shown.add_argument("--after-seq", type=whole_number, metavar="N", help="those after record N")
    shown.add_argument("--limit", type=positive_number, metavar="N", help=f"at most N; default {DEFAULT_EVENTS}")
    return verbs


def _verify(options: Namespace) -> int:
    from broker.audit import AuditError  # noqa: PLC0415 - the verifier is for this verb alone
    from broker.audit.pin import Anchor, Pin  # noqa: PLC0415 - likewise
    from broker.audit.verify import verify  # noqa: PLC0415 - likewise

    where = places()
    own = not options.paths
    pin_path = Path(options.pin) if options.pin else where.pin if own else None
    anchor_path = Path(options.anchor) if options.anchor else where.anchor_head if own else None
    try:
        pin = None if pin_path is None or _missing(pin_path, named=bool(options.pin)) else Pin.load(pin_path)
        anchor = (
            None
            if anchor_path is None or _missing(anchor_path, named=bool(options.anchor))
            else Anchor.load(anchor_path)
        )
    except AuditError as cause:
        raise UsageError(str(cause)) from None
    paths = [Path(path) for path in options.paths]
    verdict = verify(
        where.audit if own else paths[0] if len(paths) == 1 and paths[0].is_dir() else paths,
        pin=pin,
        anchor=anchor,
        checkpoint=_note(options.checkpoint),
        progress=_progress if sys.stderr.isatty() and not options.json else None,
    )
    show(dict(verdict.to_json()), _verdict(verdict.to_json()), as_json=options.json)
    return verdict.exit_code


def _missing(path: Path, *, named: bool) -> bool:
    """Whether a file of the state is not there; one that was named has to be."""
    if path.exists() or path.is_symlink():
        return False
    if named:
        raise UsageError(f"there is no {path}")
    return True


def _note(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_NOTE_BYTES)
    except OSError as cause:
        raise UsageError(f"{path} can't be read: {cause.strerror}") from None


def _verdict(verdict: JsonObject) -> list[str]:
    good = verdict.get("verdict") in {"OK", "OK_UNANCHORED"}
    place = ""
    if verdict.get("segment") is not None:
        word = "ends" if good else "first bad record"
        place = f"{word}: {text(verdict, 'segment')} offset {text(verdict, 'offset')} record {text(verdict, 'seq')}"
    known = "pinned" if verdict.get("pinned") else "NOT pinned: held against no key from outside"
    return [
        f"{'+' if good else 'x'} {text(verdict, 'verdict')}: {text(verdict, 'note')}",
        f"  anchored: {text(verdict, 'rung')}; {known}" + ("; a writer is at work" if verdict.get("live") else ""),
        f"  proven: {text(verdict, 'records')} records, to number {text(verdict, 'proven_to')}",
        *([f"  {place}"] if place else []),
    ]


def _progress(done: int, whole: int) -> None:
    line = "" if done >= whole else f"checking {done * 100 // max(whole, 1)} %"
    print(f"\r{line:<14}\r{line}", end="", file=sys.stderr, flush=True)


def _show(options: Namespace) -> int:
    """Without a filter the last events, else the first that fit after --after-seq."""
    limit = options.limit or DEFAULT_EVENTS
    filtered = any(value is not None for value in (options.after_seq, options.correlation_id, options.event))
    with desk(options, transient=True, session=True) as reached:
        if filtered:
            answer = reached.control.audit_events(
                after_seq=options.after_seq,
                limit=limit,
                correlation_id=options.correlation_id,
                event=options.event,
            )
        else:
            answer = _last(reached.control, limit)
    events = parts(answer, "events")
    lines = [_event(event) for event in events] or ["no such event"]
    if filtered and len(events) == limit:
        lines.append(f"there may be more: --after-seq {text(events[-1], 'seq')}")
    show(answer, lines, as_json=options.json)
    return 0


def _last(control: ControlClient, limit: int) -> dict[str, JsonValue]:
    """The last events; their numbers have gaps, for signatures and other records stand between them."""
    head = number(part(control.status(), "audit"), "seq")
    reach = limit * RECORDS_PER_EVENT
    answer = control.audit_events(after_seq=max(head - reach, 0), limit=min(reach, MOST_EVENTS))
    return {**answer, "events": parts(answer, "events")[-limit:]}


def _event(event: JsonObject) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(number(event, "at_ms") / 1000))
    about = "" if event.get("correlation_id") is None else f" {text(event, 'correlation_id')}"
    fields = event.get("fields")
    told = visible(dump(fields).decode()) if fields else ""
    return f"{text(event, 'seq'):>7} {at} {text(event, 'event')}{about} {told}".rstrip()
