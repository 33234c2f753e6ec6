"""`doorward unlock`, `lock`, `freeze`, `thaw`. Taking away needs no passphrase; opening and thawing do."""

import os
import sys
import time
from argparse import Namespace

from broker.cli.arguments import human_parser
from broker.cli.output import show, text
from broker.cli.pinentry import PINENTRY, Dialog, ask, has_display
from broker.cli.prompts import ABOUT_PINENTRY, passphrase
from broker.cli.reach import desk, places, running
from broker.cli.terminal import has_terminal
from broker.client.approver import ApproverError, cost_of, derive, read_key_file
from broker.client.control import ControlClient
from broker.client.envelope_lines import part
from broker.client.faults import Broken, Refused
from broker.client.hardening import harden
from broker.client.places import Places
from broker.contract.kdf import KdfError, KdfParams
from broker.contract.neutralise import visible
from broker.contract.unlock_methods import UnlockMethod
from broker.contract.wire import JsonObject, JsonValue

DIALOGS = 3
LONGEST_PAUSE_S = 5.0  # between them; the daemon says how long it looks at no other passphrase

_ABOUT = {
    "unlock": "Open the vault: the daemon gets a key for that, not the passphrase.",
    "lock": "Close the vault: sessions end, waiting cards are void, work in flight finishes.",
    "freeze": "Stop everything at once: nothing new runs until a human thaws.",
    "thaw": "Let things run again after a freeze.",
}


def run(noun: str, arguments: list[str]) -> int:
    harden()
    parser = human_parser(f"doorward {noun}", _ABOUT[noun])
    if noun == "unlock":
        parser.add_argument(
            "--pinentry",
            nargs="?",
            const=PINENTRY,
            metavar="PATH",
            help=f"ask by a pinentry program ({PINENTRY}) also where there is a terminal",
        )
    options = parser.parse_args(arguments)
    if noun == "thaw":
        with desk(options, transient=False) as reached:
            answer = reached.control.thaw(reached.key)
        show(answer, ["thawed: things run again"], as_json=options.json)
        return 0
    where = places()
    with running(where) as control:
        if noun == "unlock":
            answer = unlock(control, where, options)
        else:
            answer = control.lock() if noun == "lock" else control.freeze()
    if noun == "freeze":
        lines = ["frozen: nothing new runs. To go on: doorward thaw"]
    else:
        lines = [f"the vault is {text(answer, 'state')}"]
    show(answer, lines, as_json=options.json)
    return 0


def unlock(control: ControlClient, where: Places, options: Namespace) -> dict[str, JsonValue]:
    """By the keyring where that alone is enough; else derive and send, and ask again where a dialog can say why.

    A daemon of another log than our approver key's gets nothing, nor one that names a cheaper derivation than its file
    does; a wrong passphrase is recorded.
    """
    status = control.status()
    vault = part(status, "vault")
    kdf = _kdf(vault, status, where)
    named = vault.get("methods")
    if isinstance(named, list) and UnlockMethod.KEYRING in named:
        try:
            return control.unlock(None)
        except Refused as refused:
            if refused.code != "keyring" or len(named) == 1:
                raise
            print(f"! {visible(str(refused))}", file=sys.stderr)
    program = options.pinentry or (None if has_terminal() or not has_display(os.environ) else PINENTRY)
    if options.passphrase_fd is None and program is not None:
        return _by_pinentry(control, kdf, program)
    return control.unlock(derive(passphrase(options.passphrase_fd), kdf).vault_kek)


def _by_pinentry(control: ControlClient, kdf: KdfParams, program: str) -> dict[str, JsonValue]:
    def tried(problem: str) -> dict[str, JsonValue]:
        given = ask(Dialog(about=ABOUT_PINENTRY, problem=problem), os.environ, program=program)
        return control.unlock(derive(given, kdf).vault_kek)

    problem = ""
    for _ in range(DIALOGS - 1):
        try:
            return tried(problem)
        except Refused as refused:
            if refused.code != "wrong_passphrase":
                raise
            problem = str(refused)
            time.sleep(min(refused.retry_after_s or 0.0, LONGEST_PAUSE_S))
    return tried(problem)


def _kdf(vault: JsonObject, status: JsonObject, where: Places) -> KdfParams:
    try:
        kdf = KdfParams.from_json(vault.get("kdf"))
    except KdfError as cause:
        raise Broken(f"the daemon names a key derivation that can't be used: {cause}") from cause
    if where.approver_key.exists():
        file = read_key_file(where.approver_key)
        if file.log_id != status.get("log_id"):
            raise ApproverError("this daemon keeps another log than your approver key belongs to: nothing was sent")
        if not kdf.meets(cost_of(file.kdf)):
            raise ApproverError("this daemon names a cheaper key derivation than your approver key's: nothing was sent")
    return kdf
