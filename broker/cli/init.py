"""`doorward init`: a new vault, audit log and approver key under one passphrase.

The daemon's program makes the state and never sees passphrase or approver key; the key file is written here. Refuses
where state exists, and says what to do about a half-made one.
"""

import base64
import hashlib
import os
import subprocess
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

from broker.cli.arguments import Parser, add_cost, human_parser
from broker.cli.environment import for_daemon
from broker.cli.faults import CliError
from broker.cli.output import on, show
from broker.cli.prompts import new_passphrase
from broker.cli.reach import START_S, daemon_command, places
from broker.client.approver import ApproverKey, Keys, calibrate, derive, save_key_file
from broker.client.handover import key_text
from broker.client.hardening import harden
from broker.client.places import Places
from broker.contract.kdf import STANDARD_FLOOR, KdfParams
from broker.contract.neutralise import visible
from broker.contract.unlock_methods import UnlockMethod, keyring_alone_refused
from broker.contract.wire import JsonValue, WireError, dump, parse_object
from broker.core.secret import Secret

SEED_BYTES = 32


def run(noun: str, arguments: list[str]) -> int:
    harden()
    parser = human_parser(f"doorward {noun}", "Make the vault, the audit log and the approver key.")
    add_making(parser)
    options = parser.parse_args(arguments)
    where = places()
    refuse_existing(where)
    refuse_methods(options)
    made = initialise(where, new_passphrase(options.passphrase_fd), options)
    lines = [
        *made_lines(where, made),
        "Nobody can recover a forgotten passphrase. Next: doorward setup github, or doorward policy add NAME",
    ]
    show({"log_id": made.log_id, "key_id": made.key.key_id}, [on(sys.stdout, lines)], as_json=options.json)
    made.key.wipe()
    return 0


def made_lines(where: Places, made: "Made") -> list[str]:
    return [
        f"made the vault, the audit log and the approver key; log {visible(made.log_id)}",
        f"Keep a copy of {visible(str(where.pin))} elsewhere: with it anyone can check the log.",
        f"  its fingerprint, to write down: sha256 {fingerprint(where.pin)}",
    ]


def fingerprint(pin: Path) -> str:
    """Of the file's bytes, as `sha256sum` gives it, in groups of eight."""
    try:
        digest = hashlib.sha256(pin.read_bytes()).hexdigest()
    except OSError as cause:
        raise CliError(f"{pin} can't be read: {cause.strerror}") from None
    return " ".join(digest[at : at + 8] for at in range(0, len(digest), 8))


class Made:
    """A new state: its log, and the keys that the passphrase opens."""

    def __init__(self, log_id: str, keys: Keys, key: ApproverKey) -> None:
        self.log_id = log_id
        self.keys = keys
        self.key = key


def add_making(parser: Parser) -> None:
    """How the state is made."""
    parser.add_argument(
        "--audit-keyring",
        action="store_true",
        help="keep the audit log's signing seeds and a copy of its head in this session's keyring",
    )
    parser.add_argument(
        "--unlock",
        action="append",
        choices=[method.value for method in UnlockMethod],
        help="what opens the vault: the passphrase (the default), a share that the keyring keeps, or both together; "
        "may be given more than once, and each method then opens it by itself",
    )
    add_cost(parser)


def refuse_methods(options: Namespace) -> None:
    """Raises CliError for unlock methods that this user's daemon must not have, before anybody types in vain."""
    why = keyring_alone_refused(options.unlock or (), os.geteuid())
    if why is not None:
        raise CliError(why, code="refused")


def refuse_existing(where: Places) -> None:
    """Raises CliError where there is any state: nothing is ever made over it."""
    found = [path for path in (where.vault, where.approver_key, where.pin) if path.exists()]
    if found:
        named = ", ".join(str(path) for path in found)
        raise CliError(f"there is state already ({named}); it was left as it is", code="exists")


def initialise(where: Places, chosen: Secret, options: Namespace) -> Made:
    """Make everything. The approver key is made in memory, enrolled, and only then bound to its log and written."""
    kdf = calibrate() if options.kdf_cost == "calibrated" else _least()
    keys = derive(chosen, kdf)
    seed = os.urandom(SEED_BYTES)
    with ApproverKey(log_id="", seed=seed) as unbound:
        public_key = unbound.public_key
    log_id = _make_state(keys, kdf, public_key, options)
    key = ApproverKey(log_id=log_id, seed=seed)
    save_key_file(where.approver_key, key, kdf, keys.approver_kek)
    return Made(log_id, keys, key)


def _least() -> KdfParams:
    floor = STANDARD_FLOOR
    return KdfParams(memory_kib=floor.memory_kib, iterations=floor.iterations, lanes=4, salt=os.urandom(16))


def _make_state(keys: Keys, kdf: KdfParams, public_key: bytes, options: Namespace) -> str:
    request = dump(
        {
            "kek_b64": key_text(keys.vault_kek),
            "kdf": kdf.to_json(),
            "approver_public_key_b64": base64.b64encode(public_key).decode("ascii"),
            "audit_keyring": options.audit_keyring,
            "methods": list(dict.fromkeys(options.unlock or [UnlockMethod.PASSPHRASE.value])),
        }
    )
    try:
        done = subprocess.run(
            daemon_command("--init"),
            input=request,
            capture_output=True,
            timeout=START_S,
            check=False,
            env=for_daemon(os.environ),
        )
    except subprocess.TimeoutExpired:
        raise CliError(f"making the state took more than {START_S:.0f} s; look with doorward doctor") from None
    answer: dict[str, JsonValue] = {}
    with suppress(WireError):
        answer = parse_object(done.stdout.strip())
    error, log_id = answer.get("error"), answer.get("log_id")
    if isinstance(error, dict):
        raise CliError(str(error.get("message")), code=str(error.get("code")))
    if not isinstance(log_id, str):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CliError(f"the state could not be made: {said[-1] if said else 'no reason was given'}")
    return log_id
