"""`doorward vault`: how the vault is opened (`methods`, `passphrase`), and taking a quarantined one over (`readopt`).

Methods and passphrase change at the approver's signed word. Another passphrase is put on both of its locks, the vault
and the approver key, so that a cut between them loses neither: what was begun is finished by saying it again.
"""

import os
from argparse import Namespace
from dataclasses import replace

from broker.cli.arguments import Verbs, add_cost
from broker.cli.faults import UsageError
from broker.cli.output import show
from broker.cli.prompts import new_passphrase
from broker.cli.reach import key_file, places, running, running_or_transient, unlocked_key
from broker.cli.readoption import readopt
from broker.client.approver import (
    calibrate,
    cost_of,
    derive,
    finish_rewrap,
    read_key_file,
    rewrapped_beside,
    stage_rewrap,
)
from broker.client.control import ControlClient
from broker.client.envelope_lines import part
from broker.client.faults import Refused
from broker.client.hardening import harden
from broker.contract.kdf import KdfError, KdfParams
from broker.contract.unlock_methods import UnlockMethod, keyring_alone_refused
from broker.contract.wire import JsonObject

SALT_BYTES = 16
_WORDS = {
    UnlockMethod.PASSPHRASE: "the passphrase",
    UnlockMethod.KEYRING: "the key share of the daemon's keyring, without a passphrase",
    UnlockMethod.BOTH: "the passphrase and the key share of the session's keyring together",
}


def run(noun: str, arguments: list[str]) -> int:
    harden()
    verbs = Verbs(noun, "The vault as a whole.")
    verbs.add("readopt", "take a quarantined vault over as it is, once restoring is out of the question")
    methods = verbs.add("methods", "list, add or remove what opens the vault; each opens it by itself")
    methods.add_argument("what", nargs="?", choices=("list", "add", "remove"), default="list")
    methods.add_argument("method", nargs="?", choices=[method.value for method in UnlockMethod], metavar="METHOD")
    change = verbs.add("passphrase", "another passphrase for vault and approver key; nothing else is written anew")
    change.add_argument("--new-passphrase-fd", type=int, metavar="M", help="read the new one's line from descriptor M")
    add_cost(change)
    options = verbs.parser.parse_args(arguments)
    match options.verb:
        case "readopt":
            return readopt(options)
        case "methods":
            return _methods(options)
        case _:
            return _passphrase(options)


def _methods(options: Namespace) -> int:
    if (options.method is None) is not (options.what == "list"):
        raise UsageError("doorward vault methods [list | add METHOD | remove METHOD]")
    if options.what == "list":
        with running(places()) as control:
            told = part(control.status(), "vault")
        return _shown({"methods": told.get("methods")}, options)
    method = UnlockMethod(options.method)
    if options.what == "add" and (why := keyring_alone_refused([method], os.geteuid())) is not None:
        raise UsageError(why)
    keys, key = unlocked_key(options)
    with key, running_or_transient(places()) as (control, transient):
        if transient:
            control.unlock(keys.vault_kek)
        if options.what == "add":
            answer = control.add_method(method.value, keys.vault_kek if method.takes_passphrase else None, key)
        else:
            answer = control.remove_method(method.value, key)
    return _shown(answer, options)


def _shown(answer: JsonObject, options: Namespace) -> int:
    named = answer.get("methods")
    known = [UnlockMethod(str(name)) for name in named if name in set(UnlockMethod)] if isinstance(named, list) else []
    lines = [f"{method.value:<20} {_WORDS[method]}" for method in known]
    if len(known) > 1:
        lines.append("Each of these opens the vault by itself: it is as strong as the weakest.")
    if options.what == "remove":
        lines.append("Copies of the vault that were made before still open as they did.")
    show({"methods": [method.value for method in known]}, lines, as_json=options.json)
    return 0


def _passphrase(options: Namespace) -> int:
    path = places().approver_key
    with running_or_transient(places()) as (control, transient):
        if _was_cut_off(control):
            finish_rewrap(path)
            lines = ["a change that was cut off is finished: from now on the new passphrase is the one"]
            show({"changed": True}, lines, as_json=options.json)
            return 0
        keys, key = unlocked_key(options)
        with key:
            if transient:
                control.unlock(keys.vault_kek)
            before = key_file().kdf
            chosen = new_passphrase(options.new_passphrase_fd)
            kdf = _dearer(before, options)
            new = derive(chosen, kdf)
            stage_rewrap(path, keys.approver_kek, new.approver_kek, kdf)
            try:
                control.change_passphrase(keys.vault_kek, new.vault_kek, kdf.to_json(), key)
            except Refused:
                rewrapped_beside(path).unlink(missing_ok=True)
                raise
            finish_rewrap(path)
    lines = [
        "the passphrase is changed, for the vault and the approver key",
        "Copies of both that were made before still open with the old one: destroy them if it may be known.",
    ]
    show({"changed": True}, lines, as_json=options.json)
    return 0


def _was_cut_off(control: ControlClient) -> bool:
    """Whether the vault has a passphrase already that the approver key is yet to get."""
    beside = rewrapped_beside(places().approver_key)
    if not beside.exists():
        return False
    try:
        kdf = KdfParams.from_json(part(control.status(), "vault").get("kdf"))
    except KdfError:
        return False
    return read_key_file(beside).kdf == kdf


def _dearer(before: KdfParams, options: Namespace) -> KdfParams:
    """With a fresh salt, and never cheaper than before: what an old copy costs to guess stays the least."""
    if options.kdf_cost == "least":
        return replace(before, salt=os.urandom(SALT_BYTES))
    return calibrate(floor=cost_of(before))
