"""The OS keyring, asked through a child process that may be killed: it never hangs or prompts the daemon.

Every call ends within `CALL_S`, whatever the service does; a child that gives no answer is killed and started once
more, and after a second silence nothing is asked for `REST_S`. What is put is read back and compared. Only the Secret
Service is used, only where its default collection is open: whatever the user's keyring configuration names is not
looked at. An open keyring can be read by every program of the same session; what is kept here must not be the only
thing that stands between them and a secret.
"""

import base64
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from broker.contract.wire import JsonObject, JsonValue, WireError, dump, parse_object
from broker.core.secret import Secret

CALL_S = 5.0
REST_S = 300.0
MAX_ANSWER_BYTES = 64 << 10
_ATTEMPTS = 2


class KeychainFault(StrEnum):
    """Why the keyring is not used. `doctor` and the status say it in these words."""

    ABSENT = "absent"  # no session bus, no service on it, or no default collection
    LOCKED = "locked"
    SILENT = "silent"  # it did not answer in time
    REFUSED = "refused"  # it answered with an error, or gave back something else than was put


class KeychainError(Exception):
    """The keyring could not be used; what it held is as it was, as far as can be told."""

    def __init__(self, fault: KeychainFault, message: str) -> None:
        super().__init__(f"the keyring is {fault.value}: {message}")
        self.fault = fault


@dataclass(slots=True)
class _Child:
    process: "subprocess.Popen[bytes]"
    buffered: bytes = b""


class _Silence(Exception):  # noqa: N818 - what happened
    """The child gave no answer, or none that can be read."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the child sees: the way to the session bus and no more."""
    chosen = {name: environ[name] for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR") if environ.get(name)}
    usual = Path(chosen.get("XDG_RUNTIME_DIR", "/nonexistent"), "bus")
    if "DBUS_SESSION_BUS_ADDRESS" not in chosen and usual.is_socket():
        chosen["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={usual}"
    return chosen


class Keychain:
    """One keyring and its child, which lives from the first call to `close`. May be called from any thread."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        call_s: float = CALL_S,
        rest_s: float = REST_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`command` runs `keychain_backend.serve` in a process of its own."""
        self._command = tuple(command)
        self._environ = environment(environ)
        self._call_s = call_s
        self._rest_s = rest_s
        self._monotonic_s = monotonic_s
        self._turn = threading.Lock()
        self._child: _Child | None = None
        self._not_before_s = 0.0

    def get(self, item: str) -> Secret | None:
        """What is kept under the name; None where nothing is. Raises KeychainError."""
        value = self._ask({"do": "get", "item": item})
        if value is None:
            return None
        try:
            return Secret(base64.b64decode(value.encode(), validate=True))
        except ValueError:
            raise KeychainError(
                KeychainFault.REFUSED, f"what it holds as {item} was not put there by this program"
            ) from None

    def put(self, item: str, value: Secret) -> None:
        """Keep it in place of what was there, and see that it is there. Raises KeychainError."""
        self._ask({"do": "put", "item": item, "value": base64.b64encode(value.reveal()).decode("ascii")})
        if self.get(item) != value:
            raise KeychainError(KeychainFault.REFUSED, f"it did not keep {item}")

    def get_public(self, item: str) -> bytes | None:
        """The same for what is no secret. Raises KeychainError."""
        value = self.get(item)
        return None if value is None else value.reveal()

    def remove(self, item: str) -> None:
        """Nothing is kept under the name any more. Raises KeychainError."""
        self._ask({"do": "remove", "item": item})

    def look(self) -> KeychainFault | None:
        """Why it can't be used now; None where it can."""
        try:
            self._ask({"do": "look"})
        except KeychainError as error:
            return error.fault
        return None

    def close(self) -> None:
        """End the child, also under a call of another thread: that one is told of silence."""
        self._not_before_s = float("inf")
        child = self._child
        if child is not None:
            child.process.kill()
        with self._turn:
            self._drop()

    def _ask(self, request: JsonObject) -> str | None:
        deadline_s = self._monotonic_s() + self._call_s
        with self._taking_turn(deadline_s):
            for attempt in range(_ATTEMPTS):
                self._refuse_resting()
                until_s = deadline_s - (_ATTEMPTS - 1 - attempt) * self._call_s / _ATTEMPTS
                with suppress(_Silence, OSError):
                    return _told(self._answer(request, until_s))
                self._drop()
            if self._not_before_s < float("inf"):
                self._not_before_s = self._monotonic_s() + self._rest_s
            raise KeychainError(KeychainFault.SILENT, f"no answer within {self._call_s:g} s")

    @contextmanager
    def _taking_turn(self, deadline_s: float) -> Iterator[None]:
        if not self._turn.acquire(timeout=max(0.0, deadline_s - self._monotonic_s())):
            raise KeychainError(KeychainFault.SILENT, "it is busy with another call")
        try:
            yield
        finally:
            self._turn.release()

    def _refuse_resting(self) -> None:
        if self._monotonic_s() < self._not_before_s:
            raise KeychainError(KeychainFault.SILENT, "it gave no answer before, and is not asked again yet")

    def _answer(self, request: JsonObject, until_s: float) -> JsonObject:
        child = self._running()
        if child.process.stdin is None or child.process.stdout is None:
            raise _Silence
        child.process.stdin.write(dump(request) + b"\n")
        child.process.stdin.flush()
        with selectors.DefaultSelector() as ready:
            ready.register(child.process.stdout, selectors.EVENT_READ)
            while b"\n" not in child.buffered:
                if not ready.select(max(0.0, until_s - self._monotonic_s())):
                    raise _Silence
                part = os.read(child.process.stdout.fileno(), MAX_ANSWER_BYTES)
                child.buffered += part
                if not part or len(child.buffered) > MAX_ANSWER_BYTES:
                    raise _Silence
        line, child.buffered = child.buffered.split(b"\n", 1)
        try:
            return parse_object(line)
        except WireError:
            raise _Silence from None

    def _running(self) -> _Child:
        if self._child is None:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environ,
                cwd="/",
                start_new_session=True,  # a signal from the terminal is for the daemon, which ends it in order
            )
            self._child = _Child(process)
        return self._child

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.process.kill()
        for pipe in (child.process.stdin, child.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not flushed went to nobody
                    pipe.close()
        child.process.wait()


def _told(answer: JsonObject) -> str | None:
    fault: JsonValue = answer.get("fault")
    if fault is not None:
        known = KeychainFault(fault) if fault in set(KeychainFault) else KeychainFault.REFUSED
        raise KeychainError(known, str(answer.get("why")))
    value = answer.get("value")
    return value if isinstance(value, str) else None
