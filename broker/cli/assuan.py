"""The client's side of the Assuan protocol, as far as a dialog for one secret goes.

Lines over two pipes. What the other side says is bounded in length, number and time; an answer that is none of the
protocol's ends the conversation. Data lines are never shown, logged or part of a message.
"""

import os
import re
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

LINE_BYTES = 1000  # the protocol's own limit, without the line's end
CONVERSATION_BYTES = 64 << 10
_ERROR_CODE = 0xFFFF  # the rest of the number says which program it came from
_NUMBER_DIGITS = 10
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class AssuanError(Exception):
    """The other side hung, died or said what is none of the protocol. Holds nothing of what it said."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """OK, with the data that came before it; or an error by its code."""

    data: bytes = b""
    code: int = 0

    @property
    def ok(self) -> bool:
        return self.code == 0


@dataclass(slots=True, kw_only=True, repr=False)
class Conversation:
    """`deadline_s` is on the clock `monotonic_s` and holds for all of it."""

    reading: int
    writing: int
    deadline_s: float
    monotonic_s: Callable[[], float] = time.monotonic
    _held: bytearray = field(default_factory=bytearray)
    _heard_bytes: int = 0

    def greeted(self) -> None:
        """It speaks first."""
        if not self._reply().ok:
            raise AssuanError("it refuses to talk")

    def say(self, command: str, text: str = "") -> Answer:
        """One command and its answer. Raises AssuanError."""
        line = f"{command} {escaped(text)}".rstrip(" ").encode("utf-8")
        if len(line) > LINE_BYTES:
            raise AssuanError("a line for it is too long")
        self._send(line + b"\n")
        return self._reply()

    def wipe(self) -> None:
        """Overwrite what was read; copies are beyond reach."""
        self._held[:] = bytes(len(self._held))
        self._held.clear()

    def _send(self, line: bytes) -> None:
        try:
            os.write(self.writing, line)  # a pipe takes a line of this size whole
        except OSError:
            raise AssuanError("it ended") from None

    def _reply(self) -> Answer:
        data = bytearray()
        while True:
            word, _, rest = self._line().partition(b" ")
            match word:
                case b"OK":
                    return Answer(data=bytes(data))
                case b"ERR":
                    return Answer(code=_code(rest))
                case b"D":
                    data += unescaped(rest)
                case b"S" | b"#":
                    continue
                case _ if word.startswith(b"#"):
                    continue
                case _:
                    raise AssuanError("it said what is none of the protocol")

    def _line(self) -> bytes:
        while (end := self._held.find(b"\n")) < 0:
            if len(self._held) > LINE_BYTES:
                raise AssuanError("it said a line that is too long")
            self._hear()
        line = bytes(self._held[:end])
        if end > LINE_BYTES:
            raise AssuanError("it said a line that is too long")
        self._held[: end + 1] = bytes(end + 1)
        del self._held[: end + 1]
        return line.removesuffix(b"\r")

    def _hear(self) -> None:
        left_s = self.deadline_s - self.monotonic_s()
        if left_s <= 0 or not select.select([self.reading], [], [], left_s)[0]:
            raise AssuanError("it took too long")
        part = os.read(self.reading, 4096)
        if not part:
            raise AssuanError("it ended")
        self._heard_bytes += len(part)
        if self._heard_bytes > CONVERSATION_BYTES:
            raise AssuanError("it said far too much")
        self._held += part


def escaped(text: str) -> str:
    """As a line carries it: percent signs and whatever would end or break the line are spelled out."""
    return "".join(f"%{ord(one):02X}" if one == "%" or ord(one) < 0x20 or ord(one) == 0x7F else one for one in text)


def unescaped(octets: bytes) -> bytes:
    """Raises AssuanError where a percent sign is followed by no two hexadecimal digits."""
    if _BROKEN_ESCAPE.search(octets):
        raise AssuanError("it said data that can't be read")
    return unquote_to_bytes(octets)


def _code(rest: bytes) -> int:
    number = rest.partition(b" ")[0]
    if not number.isdigit() or len(number) > _NUMBER_DIGITS:
        raise AssuanError("it said an error without its number")
    return int(number) & _ERROR_CODE or _ERROR_CODE
