"""D-Bus messages as values of ours, and back to bytes: the one place that knows the library.

A message over the limit, or one that can't be read, raises DesktopError; the connection is of no use then. Descriptors
that came along are the receiver's to close.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

try:
    import jeepney  # type: ignore[import-untyped]  # it has no annotations
except ImportError:  # it is for Linux alone, and so are the services that are asked here
    jeepney = None

from broker.desktop.faults import DesktopError, Trouble

MESSAGE_MOST_BYTES = 1 << 20
DESCRIPTORS_MOST = 16


def is_spoken() -> bool:
    """Whether this installation knows D-Bus at all."""
    return jeepney is not None


class Kind(Enum):
    ANSWER = auto()
    ERROR = auto()
    SIGNAL = auto()
    CALL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A method call. `signature` and `body` as the specification of D-Bus has them."""

    to: str
    path: str
    interface: str
    member: str
    signature: str = ""
    body: tuple[object, ...] = ()

    def encode(self, serial: int, *, answered: bool = True) -> bytes:
        address = jeepney.DBusAddress(self.path, bus_name=self.to, interface=self.interface)
        message = jeepney.new_method_call(address, self.member, self.signature or None, self.body)
        if not answered:
            message.header.flags |= jeepney.MessageFlag.no_reply_expected
        encoded: bytes = message.serialise(serial)
        return encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What came from the bus. `sender` is the bus's own word: nobody can write another's name there."""

    kind: Kind
    sender: str
    path: str
    interface: str
    member: str
    answers: int | None  # the serial of the call that this is the answer to
    error: str
    signature: str
    body: tuple[Any, ...]
    descriptors: tuple[int, ...]


class Reader:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._parser = jeepney.Parser()

    def feed(self, data: bytes, descriptors: Sequence[int] = ()) -> Iterator[Incoming]:
        """What is complete by now. Raises DesktopError."""
        self._parser.add_data(data, descriptors)
        while (message := self._next()) is not None:
            yield message

    def leave(self) -> tuple[int, ...]:
        """Descriptors of messages that will never be complete."""
        left, self._parser.fds = tuple(self._parser.fds), []
        return left

    def _next(self) -> Incoming | None:
        waiting = list(self._parser.fds)
        try:
            message = self._parser.get_next_message()
        except Exception as cause:  # whatever the library makes of bytes that are no message
            raise DesktopError(Trouble.ODD, "the bus sent what is no message") from cause
        if message is None:
            if (self._parser.next_msg_size or 0) > MESSAGE_MOST_BYTES or len(waiting) > DESCRIPTORS_MOST:
                raise DesktopError(Trouble.ODD, "the bus sent a message that is too large")
            return None
        return _incoming(message, tuple(waiting[: len(waiting) - len(self._parser.fds)]))


def _incoming(message: Any, descriptors: tuple[int, ...]) -> Incoming:
    kinds = {
        jeepney.MessageType.method_return: Kind.ANSWER,
        jeepney.MessageType.error: Kind.ERROR,
        jeepney.MessageType.signal: Kind.SIGNAL,
    }
    fields, names = message.header.fields, jeepney.HeaderFields
    return Incoming(
        kind=kinds.get(message.header.message_type, Kind.CALL),
        sender=fields.get(names.sender, ""),
        path=fields.get(names.path, ""),
        interface=fields.get(names.interface, ""),
        member=fields.get(names.member, ""),
        answers=fields.get(names.reply_serial),
        error=fields.get(names.error_name, ""),
        signature=fields.get(names.signature, ""),
        body=tuple(message.body),
        descriptors=descriptors,
    )
