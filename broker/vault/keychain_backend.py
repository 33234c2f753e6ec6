"""The child's side of the keyring: one request a line, one answer a line, until standard input ends.

Looks first, so that nothing ever prompts: a collection that is locked or missing is told as such. The backend is the
Secret Service's by name; a configured one is never loaded, for it may keep values in a plain file, or nowhere.
A request that takes longer than `ALARM_S` ends the process: the parent stopped waiting long before.
"""

import signal
from contextlib import closing
from typing import BinaryIO

import secretstorage
from keyring.backend import KeyringBackend
from keyring.backends.SecretService import Keyring
from keyring.errors import PasswordDeleteError
from secretstorage.exceptions import ItemNotFoundException, SecretServiceNotAvailableException

from broker.contract.wire import JsonObject, dump, parse_object

SERVICE = "doorward"
ALARM_S = 10.0
_TRUSTED = ("keyring.backends.SecretService", "Keyring")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    for line in requests:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)  # no handler: the default action ends the process
        answers.write(dump(answer(line)) + b"\n")
        answers.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def answer(line: bytes) -> JsonObject:
    """`{"value": ...}`, or `{"fault": ..., "why": ...}` in words that hold nothing of what is kept."""
    try:
        request = parse_object(line)
        fault = _look()
        return _perform(request) if fault is None else fault
    except (SecretServiceNotAvailableException, OSError):  # OSError: the bus's socket leads nowhere
        return {"fault": "absent", "why": "there is no session bus, or no Secret Service on it"}
    except Exception as cause:  # noqa: BLE001 - bus, service and library fail in many ways; the parent needs one word
        return {"fault": "refused", "why": type(cause).__name__}


def refuse_untrusted(backend: KeyringBackend) -> KeyringBackend:
    """Raises ValueError for anything but the Secret Service itself: plain files, chains of backends, none at all."""
    kind = type(backend)
    if (kind.__module__, kind.__qualname__) != _TRUSTED:
        raise ValueError(f"{kind.__module__}.{kind.__qualname__} is no keyring that is used here")
    return backend


def _look() -> JsonObject | None:
    """Why the default collection can't be used without a prompt."""
    with closing(secretstorage.dbus_init()) as bus:
        if not secretstorage.check_service_availability(bus):
            return {"fault": "absent", "why": "no Secret Service runs in this session"}
        try:
            collection = secretstorage.Collection(bus)
        except ItemNotFoundException:
            return {"fault": "absent", "why": "the Secret Service has no default collection"}
        if collection.is_locked():
            return {"fault": "locked", "why": "open it by logging in to the desktop session"}
    return None


def _perform(request: JsonObject) -> JsonObject:
    backend = refuse_untrusted(Keyring())  # type: ignore[no-untyped-call]  # its base class has an untyped __init__
    item = str(request.get("item", ""))
    match request.get("do"):
        case "get":
            return {"value": backend.get_password(SERVICE, item)}
        case "put":
            backend.set_password(SERVICE, item, str(request["value"]))
        case "remove":
            _remove(backend, item)
        case "look":
            pass
        case _:
            return {"fault": "refused", "why": "it was asked for what it does not do"}
    return {"value": None}


def _remove(backend: KeyringBackend, item: str) -> None:
    try:
        while backend.get_password(SERVICE, item) is not None:
            backend.delete_password(SERVICE, item)
    except PasswordDeleteError:
        return
