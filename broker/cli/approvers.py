"""`doorward approvers`: whose yes counts. One that is enrolled signs for the next; the last one stays.

Each approver has a key of their own, wrapped by a passphrase of their own, in a file that never leaves them. What is
handed over is the public key. Opening the vault is another matter: that takes what opens the vault.
"""

import os
import time
from argparse import Namespace
from pathlib import Path

from broker.cli.arguments import Verbs, add_cost
from broker.cli.faults import CliError, UsageError
from broker.cli.output import number, show, table, text
from broker.cli.prompts import confirmed, new_passphrase, word
from broker.cli.reach import desk, places, running
from broker.client.approver import calibrate, create_key_file, derive
from broker.client.card_words import duration
from broker.client.control_people import People
from broker.client.hardening import harden
from broker.contract.kdf import STANDARD_FLOOR, KdfParams
from broker.contract.key_id import key_id

PUBLIC_KEY_BYTES = 32
TYPED_DIGITS = 4
LANES = 4
SALT_BYTES = 16


def run(noun: str, arguments: list[str]) -> int:
    harden()
    verbs = Verbs(noun, "Whose yes counts.")
    verbs.add("list", "the enrolled keys")
    made = verbs.add("new", "make an approver key of your own; another approver then enrols it")
    made.add_argument("file", metavar="FILE", nargs="?", help="where to keep it; the usual place if not given")
    add_cost(made)
    enrolled = verbs.add("enrol", "let the yes of one more key count; signed by yours")
    enrolled.add_argument("public_key", metavar="PUBLIC-KEY", help="64 hexadecimal digits, as `approvers new` prints")
    removed = verbs.add("remove", "let a key decide nothing any more; signed by yours")
    removed.add_argument("key_id", metavar="KEY-ID")
    options = verbs.parser.parse_args(arguments)
    match options.verb:
        case "list":
            return _list(options)
        case "new":
            return _new(options)
        case "enrol":
            return _enrol(options)
        case _:
            return _remove(options)


def _list(options: Namespace) -> int:
    with desk(options, transient=True, session=True) as reached:
        found = People(reached.control).approvers()
        own = reached.key.key_id
    now_ms = time.time_ns() // 1_000_000
    rows = [
        (
            one.get("key_id"),
            "you" if one.get("key_id") == own else "",
            f"{duration(now_ms - number(one, 'enrolled_at_ms'))} ago",
        )
        for one in found
    ]
    show({"approvers": [*found]}, table(("Key", "", "Enrolled"), rows), as_json=options.json)
    return 0


def _new(options: Namespace) -> int:
    where = places().approver_key if options.file is None else Path(options.file)
    if where.exists():
        raise CliError(f"there is an approver key already at {where}; it is left as it is", code="exists")
    with running(places()) as control:
        log_id = str(control.status().get("log_id"))
    kdf = _kdf(options)
    keys = derive(new_passphrase(options.passphrase_fd), kdf)
    where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    public_key = create_key_file(where, log_id, kdf, keys.approver_kek)
    lines = [
        f"kept in {where}, wrapped by your passphrase; it decides nothing yet",
        f"key     {key_id(public_key)}",
        f"an approver runs:  doorward approvers enrol {public_key.hex()}",
        f"and compares the key's first {TYPED_DIGITS} digits with you: {key_id(public_key)[:TYPED_DIGITS]}",
    ]
    show(
        {"file": str(where), "public_key": public_key.hex(), "key_id": key_id(public_key)}, lines, as_json=options.json
    )
    return 0


def _enrol(options: Namespace) -> int:
    public_key = _octets(options.public_key)
    name = key_id(public_key)
    if not options.yes and word(f"Type the first {TYPED_DIGITS} digits of their key, as they read it out:") != name[:4]:
        raise CliError(f"that is not how key {name} begins; nothing was enrolled", code="wrong_confirm")
    with desk(options, transient=True) as reached:
        answer = People(reached.control).enrol(public_key.hex(), reached.key)
    show(answer, [f"enrolled: what key {text(answer, 'key_id')} signs counts from now on"], as_json=options.json)
    return 0


def _remove(options: Namespace) -> int:
    if not confirmed(f"Let key {options.key_id} decide nothing any more?", yes=options.yes):
        raise CliError("nothing was removed")
    with desk(options, transient=True) as reached:
        answer = People(reached.control).remove(options.key_id, reached.key)
    show(answer, [f"removed: key {text(answer, 'key_id')} decides nothing any more"], as_json=options.json)
    return 0


def _octets(spelled: str) -> bytes:
    try:
        octets = bytes.fromhex(spelled)
    except ValueError:
        octets = b""
    if len(octets) != PUBLIC_KEY_BYTES or octets.hex() != spelled:
        raise UsageError("a public key has 64 hexadecimal digits, as `doorward approvers new` prints it")
    return octets


def _kdf(options: Namespace) -> KdfParams:
    if options.kdf_cost == "calibrated":
        return calibrate()
    floor = STANDARD_FLOOR
    return KdfParams(memory_kib=floor.memory_kib, iterations=floor.iterations, lanes=LANES, salt=os.urandom(SALT_BYTES))
