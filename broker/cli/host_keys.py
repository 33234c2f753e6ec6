"""`doorward host-keys`: keys of SSH hosts that a human accepted at the first contact: which there are, and forget one.

After a host got another key for a good reason its accepted one is forgotten, and the next contact is a first one again.
"""

import time
from argparse import Namespace

from broker.cli.arguments import Verbs
from broker.cli.faults import CliError
from broker.cli.output import number, show, table, text
from broker.cli.prompts import confirmed
from broker.cli.reach import Desk, desk
from broker.client.card_words import duration
from broker.client.hardening import harden
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject


def run(noun: str, arguments: list[str]) -> int:
    harden()
    verbs = Verbs(noun, "Keys of SSH hosts that were accepted at the first contact.")
    verbs.add("list", "hosts, fingerprints and ages")
    forgotten = verbs.add("forget", "the next contact is a first one again, with a card")
    forgotten.add_argument("host", metavar="HOST", help="the policy's name for it, or ADDRESS:PORT")
    options = verbs.parser.parse_args(arguments)
    return _list(options) if options.verb == "list" else _forget(options)


def _list(options: Namespace) -> int:
    with desk(options, transient=True, session=True) as reached:
        found = reached.control.host_keys()
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            key.get("host"),
            _place(key),
            key.get("fingerprint"),
            f"{duration(now_ms - number(key, 'accepted_at_ms'))} ago",
        )
        for key in found
    ]
    lines = table(("Host", "Address", "Key", "Accepted"), rows) if rows else ["no key was accepted at a first contact"]
    show({"host_keys": [*found]}, lines, as_json=options.json)
    return 0


def _forget(options: Namespace) -> int:
    with desk(options, transient=True, session=True) as reached:
        key = _named(reached, options.host)
        if not confirmed(f"Forget the key {text(key, 'fingerprint')} of {options.host}?", yes=options.yes):
            raise CliError("nothing was forgotten")
        answer = reached.control.forget_host_key(str(key["address"]), number(key, "port"), reached.key)
    show(answer, [f"forgotten: the next contact with {visible(options.host)} asks anew"], as_json=options.json)
    return 0


def _named(reached: Desk, name: str) -> JsonObject:
    found = [key for key in reached.control.host_keys() if name in {key.get("host"), _place(key)}]
    if len(found) != 1:
        raise CliError(
            f"no one accepted key is that of {name!r}; doorward host-keys list shows what there is", code="unknown"
        )
    return found[0]


def _place(key: JsonObject) -> str:
    return f"{key.get('address')}:{key.get('port')}"
