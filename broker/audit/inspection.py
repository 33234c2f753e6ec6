"""What an inspection of the log answers, and the asking: a child process with bounded time that may be killed.

An inspection is a verification with what only the daemon knows: damage that a human took over, and which closed files
have the bytes that were verified before. The child reads public knowledge alone and is given no secret. It is
spoken to through a socket, which no other process can open by way of /proc, as it could open a pipe.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from broker.audit.faults import AuditError
from broker.audit.ladder import HeldAnchor
from broker.audit.pin import AuditPaths
from broker.audit.verdict import Rung, Verdict, VerdictName
from broker.contract.wire import JsonObject, JsonValue, WireError, dump, parse_object
from broker.core.damage import KnownDamage

INSPECTION_S = 300.0
GLANCE_S = 0.05  # how soon an inspection notices that nobody wants it any more
MAX_LINE_BYTES = 1 << 20
SUSPECT = frozenset(
    {
        VerdictName.ALTERED,
        VerdictName.REORDERED,
        VerdictName.GAP,
        VerdictName.TRUNCATED,
        VerdictName.ROLLBACK,
        VerdictName.FORGED_SIGNATURE,
        VerdictName.WRONG_LOG,
        VerdictName.EMPTY_OR_MISSING,
    }
)
"""Verdicts that let nothing run until a human has looked. A log that can't be read is none of them, and is not used."""

FROM_OUTSIDE = frozenset({VerdictName.TRUNCATED, VerdictName.ROLLBACK, VerdictName.WRONG_LOG})
"""What knowledge from outside the log may say of one that is whole: its place moves on while the log grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """`verdict` is the truth about the whole log, `judged` what is to be acted on: behind known damage, the rest.

    `intact`: every byte of the damage that was given is as it was, whatever the verdict is now. `unendorsed`: what
    speaks against the log is the beginning of a stretch whose key nobody endorsed, and nothing before it.
    """

    verdict: Verdict
    judged: Verdict
    known: bool
    damage: KnownDamage | None
    intact: bool = False
    unendorsed: bool = False

    @property
    def suspect(self) -> bool:
        return self.judged.verdict in SUSPECT


def command() -> list[str]:
    """How the child is started: the same interpreter, isolated."""
    return [sys.executable, "-I", "-m", "broker.audit.inspector"]


class Inspector:
    """Inspects one log, one inspection at a time; who asks meanwhile waits. Remembers what need not be read again."""

    def __init__(self, paths: AuditPaths, *, limit_s: float = INSPECTION_S, argv: Sequence[str] | None = None) -> None:
        self._paths = paths
        self._limit_s = limit_s
        self._argv = list(argv or command())
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._verified: JsonValue = None
        self.percent: int | None = None
        """How far the inspection is that runs now; None while none does."""

    def inspect(
        self,
        anchors: Sequence[HeldAnchor] = (),
        *,
        known: KnownDamage | None = None,
        called_off: threading.Event | None = None,
    ) -> Inspection:
        """Waits for the disk. Raises AuditError where no answer came: too late, or the log or its pin can't be read.

        Setting `called_off` ends it soon, also while it waits for another one's end.
        """
        request: JsonObject = {
            "directory": str(self._paths.directory),
            "pin": str(self._paths.pin),
            "anchors": [{"rung": held.rung.value, "line": held.anchor.pack().decode()} for held in anchors],
            "known": None if known is None else known.to_json(),
            "verified": self._verified,
            "limit_s": int(self._limit_s) + 1,
        }
        with self._alone(called_off):
            self.percent = 0
            try:
                answer = self._ask(request, called_off)
            finally:
                self.percent = None
            self._verified = answer.get("verified")
        return inspection_of(answer)

    def stop(self) -> None:
        """End the inspection that runs, and begin none any more."""
        self._stopped.set()

    @contextmanager
    def _alone(self, called_off: threading.Event | None) -> Iterator[None]:
        while not self._turn.acquire(timeout=GLANCE_S):
            self._refuse_unwanted(called_off)
        try:
            yield
        finally:
            self._turn.release()

    def _refuse_unwanted(self, called_off: threading.Event | None) -> None:
        if self._stopped.is_set():
            raise AuditError("the audit log was not verified: the daemon stops")
        if called_off is not None and called_off.is_set():
            raise AuditError("the audit log was not verified: it was called off")

    def _ask(self, request: JsonObject, called_off: threading.Event | None) -> JsonObject:
        deadline_s = time.monotonic() + self._limit_s

        def go_on() -> None:
            self._refuse_unwanted(called_off)
            if time.monotonic() > deadline_s:
                raise AuditError(f"the audit log was not verified within {self._limit_s:g} s; try again")

        go_on()
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                end = theirs.fileno()
                child = subprocess.Popen(self._argv, stdin=end, stdout=end, stderr=subprocess.DEVNULL, env={}, cwd="/")
            with child:
                self._child = child
                try:
                    ours.settimeout(GLANCE_S)
                    with suppress(OSError):  # a child that is gone says so by its silence
                        _give(ours, request, go_on)
                    return self._told(ours, go_on)
                finally:
                    self._child = None
                    child.kill()

    def _told(self, channel: socket.socket, go_on: Callable[[], None]) -> JsonObject:
        buffered = b""
        while True:
            while b"\n" in buffered:
                line, buffered = buffered.split(b"\n", 1)
                answer = self._line(line)
                if answer is not None:
                    return answer
            part = _received(channel, go_on)
            buffered += part
            if not part or len(buffered) > MAX_LINE_BYTES:
                raise AuditError("the audit log was not verified: its verifier ended without a verdict")

    def _line(self, line: bytes) -> JsonObject | None:
        """The answer; None for a line that tells of progress."""
        try:
            answer = parse_object(line)
        except WireError as cause:
            raise AuditError("the audit log was not verified: its verifier's answer can't be read") from cause
        percent = answer.get("percent")
        if isinstance(percent, int):
            self.percent = percent
            return None
        if isinstance(answer.get("fault"), str):
            raise AuditError(f"the audit log was not verified: {answer['fault']}")
        return answer


def _give(channel: socket.socket, request: JsonObject, go_on: Callable[[], None]) -> None:
    left = memoryview(dump(request))
    while left:
        go_on()
        with suppress(TimeoutError):
            left = left[channel.send(left) :]
    channel.shutdown(socket.SHUT_WR)


def _received(channel: socket.socket, go_on: Callable[[], None]) -> bytes:
    """Nothing where the child is gone."""
    while True:
        go_on()
        try:
            return channel.recv(1 << 16)
        except TimeoutError:
            continue
        except OSError:  # it went without having read what it was given
            return b""


def inspection_of(answer: JsonObject) -> Inspection:
    """Raises AuditError where this is no answer of the child's."""
    try:
        damage = answer["damage"]
        return Inspection(
            verdict=_verdict(answer["verdict"]),
            judged=_verdict(answer["judged"]),
            known=answer["known"] is True,
            damage=KnownDamage.from_json(damage) if isinstance(damage, dict) else None,
            intact=answer["intact"] is True,
            unendorsed=answer["unendorsed"] is True,
        )
    except (KeyError, TypeError, ValueError) as cause:
        raise AuditError("the audit log was not verified: its verifier's answer makes no sense") from cause


def _verdict(value: JsonValue) -> Verdict:
    if not isinstance(value, dict):
        raise TypeError
    return Verdict(
        verdict=VerdictName(str(value["verdict"])),
        rung=Rung(str(value["rung"])),
        pinned=value["pinned"] is True,
        live=value["live"] is True,
        segment=None if value["segment"] is None else str(value["segment"]),
        offset=_count(value["offset"]),
        seq=_count(value["seq"]),
        proven_to=_count(value["proven_to"]),
        records=_count(value["records"]) or 0,
        note=str(value["note"]),
    )


def _count(value: JsonValue) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError
