"""First time: make the audit log, the vault and their pin in an empty state directory, and refuse a used one.

Takes keys that a client derived; never a passphrase. Talks JSON over standard input and output.
"""

import base64
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from broker.audit import AuditError
from broker.audit.create import create_log
from broker.audit.writer import AuditWriter
from broker.client.places import Places
from broker.contract.kdf import KdfError, KdfParams
from broker.contract.unlock_methods import UnlockMethod, keyring_alone_refused
from broker.contract.wire import JsonObject, WireError, dump, parse_object
from broker.core.events import AuditEvent, EventName
from broker.core.secret import Secret
from broker.daemon import statehold
from broker.daemon.clocks import SystemClock
from broker.daemon.keychain_process import command
from broker.daemon.log_parts import paths_of
from broker.daemon.log_watch import Notices
from broker.daemon.seed_home import Seeds
from broker.daemon.shares import KeyShares
from broker.daemon.statehold import StateError
from broker.server.faults import ControlError
from broker.vault import Vault, VaultError
from broker.vault.keychain import Keychain
from broker.vault.unlocking import new_share

FIELDS = {"kek_b64", "kdf", "approver_public_key_b64"}
OPTIONAL = {
    "audit_keyring",  # whether the log's seeds live in the OS keyring
    "methods",  # how the vault is opened; by the passphrase alone where nothing is said
}


class FirstError(Exception):
    """Nothing was made. `code` is stable."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def run(places: Places) -> int:
    """Read the request, make the state, print `{"log_id": ...}` or `{"error": ...}`."""
    try:
        answer: JsonObject = {"log_id": make(places, parse_object(sys.stdin.buffer.read(65_536)), os.environ)}
        code = 0
    except (FirstError, WireError, StateError, AuditError, VaultError) as error:
        kind = error.code if isinstance(error, FirstError) else "failed"
        answer, code = {"error": {"code": kind, "message": str(error)}}, 1
    sys.stdout.buffer.write(dump(answer) + b"\n")
    sys.stdout.buffer.flush()
    return code


def make(places: Places, request: JsonObject, environ: Mapping[str, str]) -> str:
    """The log id of the new state. Raises FirstError where there is one already."""
    if not FIELDS <= set(request) <= FIELDS | OPTIONAL:
        raise FirstError("schema", f"the request holds exactly: {', '.join(sorted(FIELDS))}")
    try:
        kdf = KdfParams.from_json(request["kdf"])
    except KdfError as error:
        raise FirstError("schema", str(error)) from None
    statehold.prepare(places)
    statehold.hold(places)
    if places.vault.exists():
        raise FirstError("exists", f"there is a vault in {places.data} already; it was left as it is")
    if places.pin.exists():
        raise FirstError(
            "exists",
            f"there is an audit log without a vault in {places.data}: an earlier attempt was cut off, or the vault "
            f"was lost. It was left as it is; restore the vault, or move {places.data} and {places.anchor} away",
        )
    in_keyring, methods = request.get("audit_keyring") is True, _methods(request)
    if in_keyring:
        _refuse_useless_keyring(environ, "--audit-keyring")
    if any(method.takes_share for method in methods):
        _refuse_useless_keyring(environ, f"--unlock {' '.join(methods)}")
    if in_keyring:
        places.audit_keyring.touch(mode=0o600)
    keychain, notices = Keychain(command(), environ) if in_keyring else None, Notices()
    try:
        return _make(places, request, kdf, keychain, notices, _Opening(methods=methods, environ=environ))
    finally:
        if keychain is not None:
            keychain.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """How the vault is opened, and where the keyring is."""

    methods: tuple[UnlockMethod, ...]
    environ: Mapping[str, str]

    def share(self, log_id: str) -> Secret | None:
        """A fresh one that the keyring keeps, where a method uses one."""
        if not any(method.takes_share for method in self.methods):
            return None
        shares, share = KeyShares.of_session(self.environ, log_id), new_share()
        try:
            shares.keep(share)
        except ControlError as error:
            raise FirstError("keyring", str(error)) from None
        finally:
            shares.close()
        return share


def _make(
    places: Places,
    request: JsonObject,
    kdf: KdfParams,
    keychain: Keychain | None,
    notices: Notices,
    opening: _Opening,
) -> str:
    clock = SystemClock()
    homes: dict[bytes, Seeds] = {}

    def seeds(log_id: bytes) -> Seeds:
        return homes.setdefault(log_id, Seeds(places.seeds, log_id, keychain=keychain, warn=notices))

    made = create_log(places.audit, places.anchor_head, places.pin, places.seeds, clock=clock.now_ms, seeds=seeds)
    Vault.create(
        places.vault,
        kek=Secret(_bytes(request, "kek_b64")),
        kdf=kdf,
        log_id=made.log_id,
        audit_sk=made.audit_sk,
        root_seed=made.root_seed,
        approver_public_key=_bytes(request, "approver_public_key_b64"),
        now_ms=clock.now_ms(),
        methods=opening.methods,
        share=opening.share(made.log_id),
    )
    writer = AuditWriter.open(paths_of(places), clock=clock.now_ms, seeds=seeds)
    try:
        about: JsonObject = {"audit_keyring": keychain is not None, "methods": list(opening.methods)}
        writer.append_blocking(AuditEvent(name=EventName.VAULT_CREATED, at_ms=clock.now_ms(), fields=about))
        writer.append_blocking(AuditEvent(name=EventName.APPROVER_ENROLLED, at_ms=clock.now_ms()))
    finally:
        writer.close()
    return made.log_id


def _methods(request: JsonObject) -> tuple[UnlockMethod, ...]:
    named = request.get("methods", [UnlockMethod.PASSPHRASE.value])
    try:
        methods = tuple(UnlockMethod(str(name)) for name in named) if isinstance(named, list) else ()
    except ValueError:
        methods = ()
    if not methods or len(methods) != len(set(methods)):
        raise FirstError("schema", f"methods is a list of some of: {', '.join(UnlockMethod)}")
    why = keyring_alone_refused(methods, os.geteuid())
    if why is not None:
        raise FirstError("refused", why)
    return methods


def _refuse_useless_keyring(environ: Mapping[str, str], asked: str) -> None:
    keychain = Keychain(command(), environ)
    try:
        fault = keychain.look()
    finally:
        keychain.close()
    if fault is not None:
        raise FirstError("keyring", f"the keyring of this session is {fault.value}: open it, or leave out {asked}")


def _bytes(request: JsonObject, name: str) -> bytes:
    value = request[name]
    try:
        return base64.b64decode(value if isinstance(value, str) else "", validate=True)
    except ValueError:
        raise FirstError("schema", f"{name} is not base64") from None
