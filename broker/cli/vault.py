"""`doorward unlock`, `lock`, `freeze`, `thaw`. Taking away needs no passphrase; opening and thawing do."""

from broker.cli.arguments import human_parser
from broker.cli.output import show, text
from broker.cli.prompts import passphrase
from broker.cli.reach import desk, places, running
from broker.client.approver import ApproverError, derive, read_key_file
from broker.client.control import ControlClient
from broker.client.faults import Broken
from broker.client.hardening import harden
from broker.client.places import Places
from broker.contract.kdf import KdfError, KdfParams
from broker.contract.wire import JsonValue

_ABOUT = {
    "unlock": "Open the vault: the daemon gets a key for that, not the passphrase.",
    "lock": "Close the vault: sessions end, waiting cards are void, work in flight finishes.",
    "freeze": "Stop everything at once: nothing new runs until a human thaws.",
    "thaw": "Let things run again after a freeze.",
}


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = human_parser(f"doorward {noun}", _ABOUT[noun]).parse_args(arguments)
    if noun == "thaw":
        with desk(options, transient=False) as reached:
            answer = reached.control.thaw(reached.key)
        show(answer, ["thawed: things run again"], as_json=options.json)
        return 0
    where = places()
    with running(where) as control:
        if noun == "unlock":
            answer = _unlock(control, where, options.passphrase_fd)
        else:
            answer = control.lock() if noun == "lock" else control.freeze()
    if noun == "freeze":
        lines = ["frozen: nothing new runs. To go on: doorward thaw"]
    else:
        lines = [f"the vault is {text(answer, 'state')}"]
    show(answer, lines, as_json=options.json)
    return 0


def _unlock(control: ControlClient, where: Places, passphrase_fd: int | None) -> dict[str, JsonValue]:
    """Derive and send. A daemon of another log than our approver key's gets nothing; a wrong passphrase is recorded."""
    status = control.status()
    vault = status.get("vault")
    try:
        kdf = KdfParams.from_json(vault.get("kdf") if isinstance(vault, dict) else None)
    except KdfError as cause:
        raise Broken(f"the daemon names a key derivation that can't be used: {cause}") from cause
    if where.approver_key.exists() and read_key_file(where.approver_key).log_id != status.get("log_id"):
        raise ApproverError("this daemon keeps another log than your approver key belongs to: nothing was sent")
    return control.unlock(derive(passphrase(passphrase_fd), kdf).vault_kek)
