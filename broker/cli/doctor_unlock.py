"""Checks of how the vault is opened, as a running daemon tells of it, and of the dialog that may ask for it here."""

import os
from collections.abc import Iterator, Mapping

from broker.cli.doctor_finding import Finding, fine, warning
from broker.cli.faults import CliError
from broker.cli.pinentry import PINENTRY, has_display, refuse_untrusted
from broker.client.envelope_lines import part
from broker.contract.unlock_methods import UnlockMethod, keyring_alone_refused
from broker.contract.wire import JsonObject


def opening(status: JsonObject, environ: Mapping[str, str], *, program: str = PINENTRY) -> Iterator[Finding]:
    named = part(status, "vault").get("methods")
    methods = (
        [UnlockMethod(str(name)) for name in named if name in set(UnlockMethod)] if isinstance(named, list) else []
    )
    if not methods:
        return
    yield _methods(methods)
    if has_display(environ):
        yield _dialog(program)


def _methods(methods: list[UnlockMethod]) -> Finding:
    words = ", ".join(method.value for method in methods)
    if keyring_alone_refused(methods, os.geteuid()) is not None:
        return warning(
            "unlock",
            f"opened by {words}: any program of this session that reads the open keyring opens the vault",
            "doorward vault methods add passphrase+keyring, then methods remove keyring",
        )
    if {UnlockMethod.PASSPHRASE, UnlockMethod.BOTH} <= set(methods):
        return warning(
            "unlock",
            f"opened by {words}: the passphrase opens it alone, so the keyring's share guards no copy of the directory",
            "doorward vault methods remove passphrase, once the other way has opened it",
        )
    if methods == [UnlockMethod.BOTH]:
        return fine("unlock", f"opened by {words}: a vault whose keyring is lost is lost")
    return fine("unlock", f"opened by {words}")


def _dialog(program: str) -> Finding:
    try:
        refuse_untrusted(program)
    except CliError as cause:
        return warning("pinentry", f"{cause}: without a terminal nobody can be asked", "install a pinentry")
    return fine("pinentry", f"{program} asks for the passphrase where there is no terminal")
