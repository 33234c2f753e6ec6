"""`doorward audit`: what there is to be done with the log; what `verify`, `checkpoint` and `repair` do lies beside."""

import time
from argparse import Namespace

from broker.cli import audit_checkpoint, audit_repair, audit_verify
from broker.cli.arguments import Verbs, positive_number, whole_number
from broker.cli.output import number, part, parts, show, text
from broker.cli.reach import desk
from broker.client.control import ControlClient
from broker.client.hardening import harden
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject, JsonValue, dump

DEFAULT_EVENTS = 50
MOST_EVENTS = 1000  # the daemon gives no more at a time
RECORDS_PER_EVENT = 4


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = _verbs(noun).parser.parse_args(arguments)
    verbs = {
        "verify": audit_verify.run,
        "checkpoint": audit_checkpoint.run,
        "repair": audit_repair.run,
        "show": _show,
    }
    return verbs[options.verb](options)


def _verbs(noun: str) -> Verbs:
    verbs = Verbs(noun, "The sealed log of what was asked, decided and done.")
    checked = verbs.add("verify", "one verdict on a log; needs no daemon, no vault and no network")
    audit_verify.add_options(checked)
    given = verbs.add("checkpoint", "a signed note of the log's head, to be kept where nobody here can change it")
    audit_checkpoint.add_options(given)
    verbs.add("repair", "cut an unfinished write off the end; needs the daemon to be stopped")
    shown = verbs.add("show", "its events, opened with the vault's key")
    shown.add_argument("--correlation-id", metavar="ID", help="of one request")
    shown.add_argument("--event", metavar="NAME", help="of one kind")
    shown.add_argument("--after-seq", type=whole_number, metavar="N", help="those after record N")
    shown.add_argument("--limit", type=positive_number, metavar="N", help=f"at most N; default {DEFAULT_EVENTS}")
    return verbs


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
