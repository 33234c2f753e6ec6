"""`doorward vault readopt`: take a quarantined vault over as it is, and the audit log with it.

Shows what was found, what is lost and what stays proven before anything is asked; the word is typed in full, and the
statement that is signed names what was shown. Restoring what is missing is always better, and is said first.
"""

import sys
from argparse import Namespace

from broker.cli.faults import CliError
from broker.cli.output import show, text
from broker.cli.prompts import word
from broker.cli.reach import places, running_or_transient, unlocked_key
from broker.client.envelope_lines import part
from broker.contract.wire import JsonObject


def readopt(options: Namespace) -> int:
    """Show, ask, sign."""
    with running_or_transient(places()) as (control, transient):
        told = control.quarantine()
        if told.get("reason") is None:
            show(told, ["the vault is not quarantined: there is nothing to take over"], as_json=options.json)
            return 0
        print("\n".join(_about(told)), file=sys.stderr if options.json else sys.stdout, flush=True)
        if told.get("adoptable") is not True:
            raise CliError(f"it can't be taken over: {text(told, 'remedy')}", code="damaged")
        _confirm(told, yes=options.yes)
        keys, key = unlocked_key(options)
        with key:
            answer = control.readopt(part(told, "statement"), keys.vault_kek, key)
    show(answer, _done(answer, stopped=transient), as_json=options.json)
    return 0


def _about(told: JsonObject) -> list[str]:
    found = part(told, "found")
    lines = [f"x the vault is quarantined ({text(told, 'reason')}): {text(told, 'words')}"]
    if found:
        place = ""
        if found.get("segment") is not None:
            place = f", {text(found, 'segment')} offset {text(found, 'offset')} record {text(found, 'seq')}"
        lines.append(f"  log     {text(found, 'verdict')}{place}: {text(found, 'note')}")
    return [
        *lines,
        f"  lost    {text(told, 'lost')}",
        f"  proven  {text(told, 'proven')}",
        f"  mend    {text(told, 'remedy')}",
    ]


def _confirm(told: JsonObject, *, yes: bool) -> None:
    reason = text(told, "reason")
    if not yes and word(f"To take it over as it is, type {reason}:") != reason:
        raise CliError("that is not the word; nothing was changed")


def _done(answer: JsonObject, *, stopped: bool) -> list[str]:
    state = "usable again; no daemon runs now: doorward up" if stopped else text(answer, "state")
    lines = [f"taken over: the vault is {state}"]
    if answer.get("known") is True:
        lines.append("  the damage stays, and is known from now on; any further damage quarantines again")
    if answer.get("frozen") is True:
        lines.append("! frozen: what was in doubt may be forgotten. See: doorward operations list, doorward thaw")
    return [*lines, "  keep the head elsewhere: doorward audit checkpoint --to FILE"]
