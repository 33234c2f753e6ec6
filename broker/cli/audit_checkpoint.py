"""`doorward audit checkpoint`: a signed note of the log's head, printed, and put where nobody here can take it back.

The note holds no secret. Each target is tried whatever became of the others; what failed is told and fails the verb,
and the note is printed all the same. The network is used by this process alone, and only where --webhook names it.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

from broker.audit.checkpoint import parse_note
from broker.cli.checkpoint_targets import DEV_LOG, TargetError, append_to, send_to_syslog
from broker.cli.faults import CliError, UsageError
from broker.cli.output import show
from broker.cli.reach import places, running
from broker.contract.exits import FAULTS_FOUND
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject, JsonValue


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--to", metavar="FILE", help="append it to a file of checkpoints, made if it is not there")
    parser.add_argument("--syslog", action="store_true", help="send it to the system's log")
    parser.add_argument("--syslog-address", metavar="SOCKET", help=f"another socket than {DEV_LOG}")
    parser.add_argument("--webhook", metavar="URL", help="post it there: https, or http to this machine")


def run(options: Namespace) -> int:
    if options.webhook is not None:
        from broker.cli.webhook import check_url  # noqa: PLC0415 - 20 ms that the other verbs do not pay

        try:
            check_url(options.webhook)
        except TargetError as cause:
            raise UsageError(str(cause)) from None
    with running(places()) as control:
        answer = control.audit_checkpoint()
    note = str(answer.get("note", "")).encode()
    parsed = parse_note(note)
    if parsed is None:
        raise CliError("the daemon's answer holds no checkpoint: it may be of another version than this client")
    kept = [_kept(kind, target, put) for kind, target, put in _targets(options, note, parsed.size)]
    show({**answer, "kept": list(kept)}, [visible(line) for line in note.decode().splitlines()], as_json=options.json)
    failed = [row for row in kept if row["fault"] is not None]
    for row in kept:
        fault = row["fault"]
        said = "kept" if fault is None else f"NOT kept: {visible(str(fault))}"
        print(f"{row['kind']} {visible(str(row['target']))}: {said}", file=sys.stderr)
    return FAULTS_FOUND if failed else 0


def _targets(options: Namespace, note: bytes, size: int) -> list[tuple[str, str, Callable[[], None]]]:
    found: list[tuple[str, str, Callable[[], None]]] = []
    if options.to is not None:
        found.append(("file", options.to, lambda: append_to(Path(options.to), note)))
    if options.syslog or options.syslog_address is not None:
        address = options.syslog_address or DEV_LOG
        found.append(("syslog", address, lambda: send_to_syslog(address, note, size)))
    if options.webhook is not None:
        from broker.cli.webhook import post  # noqa: PLC0415 - likewise

        found.append(("webhook", options.webhook, lambda: post(options.webhook, note)))
    return found


def _kept(kind: str, target: str, put: Callable[[], None]) -> JsonObject:
    fault: JsonValue = None
    try:
        put()
    except TargetError as cause:
        fault = str(cause)
    return {"kind": kind, "target": target, "fault": fault}
