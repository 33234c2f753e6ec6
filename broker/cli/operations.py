"""`doorward operations`: changes whose outcome is unknown, and closing them by a human's signed word."""

import sys
import time
from argparse import Namespace

from broker.cli.arguments import Verbs
from broker.cli.envelope_text import show as show_envelope
from broker.cli.faults import CliError
from broker.cli.output import number, show, text
from broker.cli.prompts import confirmed
from broker.cli.reach import desk
from broker.cli.result import correlation_id
from broker.client.card_words import clock_time, duration
from broker.client.hardening import harden
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject


def run(noun: str, arguments: list[str]) -> int:
    harden()
    verbs = Verbs(noun, "Changes that were sent and whose outcome is unknown.")
    listed = verbs.add("list", "what is known of them")
    listed.add_argument("--in-doubt", action="store_true", help="only those that are not settled")
    settled = verbs.add("settle", "your signed word on what became of one; no byte is sent")
    settled.add_argument("id", metavar="ID")
    settled.add_argument("--as", dest="outcome", choices=("applied", "not_applied"), required=True)
    settled.add_argument("--reason", default="", metavar="TEXT", help="how you know; kept in the audit log")
    read_back = verbs.add("reconcile", "read back what became of one, where its operation declares how")
    read_back.add_argument("id", metavar="ID")
    options = verbs.parser.parse_args(arguments)
    match options.verb:
        case "list":
            return _list(options)
        case "reconcile":
            return _reconcile(options)
        case _:
            return _settle(options)


def _list(options: Namespace) -> int:
    with desk(options, transient=False, session=True) as reached:
        found = reached.control.operations(state="in_doubt" if options.in_doubt else None)
    lines = [line for item in found for line in _operation(item)] or ["nothing is in doubt"]
    show({"operations": found}, lines, as_json=options.json)
    return 0


def _operation(item: JsonObject) -> list[str]:
    sent_ms = number(item, "sent_at_ms")
    ago = duration(time.time_ns() // 1_000_000 - sent_ms)
    read_back = item.get("read_back")
    sign = "?" if item.get("state") == "in_doubt" else " "
    name = text(item, "correlation_id")
    settle = f"doorward operations settle {name} --as applied|not_applied"
    look = [] if read_back is None else [f"    doorward operations reconcile {name}"]
    return [
        f"{sign} {name}  {text(item, 'state')}",
        f"    {text(item, 'operation')}: {text(item, 'summary')}",
        f"    sent {clock_time(sent_ms)}, {ago} ago, by {text(item, 'agent')}; got to: {text(item, 'phase')}",
        "    read-back: " + ("none; only you can settle it" if read_back is None else text(item, "read_back")),
        *([*look, f"    {settle}"] if item.get("state") == "in_doubt" else []),
    ]


def _reconcile(options: Namespace) -> int:
    """The same read-back that the agent may ask for. Where the policy asks a human about it, that human is asked."""
    name = correlation_id(options.id)
    with desk(options, transient=False, session=True) as reached:
        print("reading back; where the policy asks a human about that, a card waits for you", file=sys.stderr)
        answer = reached.control.reconcile(name)
    return show_envelope(answer, as_json=options.json)


def _settle(options: Namespace) -> int:
    name = correlation_id(options.id)
    said = "was applied" if options.outcome == "applied" else "was NOT applied"
    if not confirmed(f"Settle {name}: it {said}?", yes=options.yes):
        raise CliError("nothing was settled")
    with desk(options, transient=False) as reached:
        answer = reached.control.settle(name, options.outcome, options.reason, reached.key)
    show(answer, [f"settled {visible(name)}: it {said}"], as_json=options.json)
    return 0
