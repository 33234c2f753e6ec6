"""`doorward audit`: what there is to be done with the log. What each verb does lies beside, in a module of its own."""

from broker.cli import audit_checkpoint, audit_export, audit_repair, audit_show, audit_verify
from broker.cli.arguments import Verbs
from broker.client.hardening import harden


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = _verbs(noun).parser.parse_args(arguments)
    verbs = {
        "verify": audit_verify.run,
        "checkpoint": audit_checkpoint.run,
        "repair": audit_repair.run,
        "show": audit_show.run,
        "export": audit_export.run,
    }
    return verbs[options.verb](options)


def _verbs(noun: str) -> Verbs:
    verbs = Verbs(noun, "The sealed log of what was asked, decided and done.")
    checked = verbs.add("verify", "one verdict on a log; needs no daemon, no vault and no network")
    audit_verify.add_options(checked)
    given = verbs.add("checkpoint", "a signed note of the log's head, to be kept where nobody here can change it")
    audit_checkpoint.add_options(given)
    verbs.add("repair", "cut an unfinished write off the end; needs the daemon to be stopped")
    audit_show.add_options(verbs.add("show", "its events, opened with the vault's key: the newest, or as they come"))
    audit_export.add_options(
        verbs.add("export", "its events as JSON lines, with hashes and the signed head; resumable")
    )
    return verbs
