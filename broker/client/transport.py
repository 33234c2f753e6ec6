"""HTTP/1.1 over a Unix socket, as little of it as the daemon speaks: one request at a time, bounded in time and size.

Before a byte goes out the socket must be one that only this user or root could have put there, and the peer must run
as one of them: no variable of the environment makes another daemon trusted. Every failure is a ClientError.
On the agent's path: no asyncio, no http.client, no dataclass.
"""

import os
import socket
import stat
import struct
import time
from collections.abc import Iterator

from broker.client.faults import Broken, NotRunning

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from typing import Self

CONNECT_S = 5.0
ANSWER_S = 30.0
MAX_ANSWER_BYTES = 16 << 20
LONGEST_PATH_BYTES = 107  # sockaddr_un, without its NUL
_MAX_LINE_BYTES = 64 << 10
_MAX_HEADERS = 100
_MAX_EVENT_BYTES = 1 << 20
_CHUNK_BYTES = 64 << 10


class Answer:
    """Status, lower-case headers and the whole body of one answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Connection:
    """One checked connection. Not for use by two threads at once; dead after any failure."""

    def __init__(self, path: str, *, connect_s: float = CONNECT_S, user_agent: str = "") -> None:
        check_place(path)
        self._said = (("User-Agent", user_agent),) if user_agent else ()
        self._socket = _connect(path, connect_s)
        try:
            _check_peer(self._socket, path)
        except BaseException:
            self._socket.close()
            raise
        self._buffer = b""
        self._sent = False
        self._ends_at = 0.0
        self.usable = True

    def close(self) -> None:
        self.usable = False
        self._socket.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def alive(self) -> bool:
        """Whether a request may be sent on it: a daemon that hung up meanwhile is noticed before anything is sent."""
        if not self.usable or self._buffer:
            return False
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        self.close()  # it ended, or says what nobody asked for
        return False

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        answer_s: float = ANSWER_S,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Answer:
        """Send and read the whole answer. After a Broken the connection is dead, and `sent` tells if bytes went out."""
        status, headers = self._exchange(method, target, body, answer_s, ())
        try:
            content = self._body(headers, max_bytes)
        except BaseException:
            self.close()
            raise
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(status, headers, content)

    def opened(
        self, target: str, body: bytes, answer_s: float, extra: tuple[tuple[str, str], ...]
    ) -> tuple[int, dict[str, str]]:
        """Send, and read the head of the answer; who asks reads its body."""
        return self._exchange("POST", target, body, answer_s, extra)

    def body(self, headers: dict[str, str]) -> bytes:
        """The rest of an answer that was opened."""
        return self._body(headers, MAX_ANSWER_BYTES)

    def events(self, target: str, *, last_id: str | None = None, silence_s: float = 45.0) -> "EventStream":
        """Open a stream of server-sent events. Another thread may end it by `EventStream.close`."""
        extra = () if last_id is None else (("Last-Event-ID", last_id),)
        status, headers = self._exchange("GET", target, None, silence_s, extra)
        if status != 200 or headers.get("content-type", "").partition(";")[0] != "text/event-stream":
            self.close()
            raise Broken(f"the daemon answered {status} to {target}, not a stream of events")
        return EventStream(self, silence_s, chunked="transfer-encoding" in headers)

    def _exchange(
        self, method: str, target: str, body: bytes | None, answer_s: float, extra: tuple[tuple[str, str], ...]
    ) -> tuple[int, dict[str, str]]:
        if not self.usable:
            raise Broken("the connection to the daemon is closed")
        head = _head(method, target, body, (*self._said, *extra))
        self._sent = False
        self._ends_at = time.monotonic() + answer_s
        try:
            self._send(head + (body or b""))
            while True:
                status, headers = self._read_head()
                if status >= 200:
                    return status, headers
        except BaseException:
            self.close()
            raise

    def _send(self, octets: bytes) -> None:
        self._sent = True
        self._arm()
        try:
            self._socket.sendall(octets)
        except TimeoutError:
            raise Broken("the daemon does not take the request: it hangs or is overloaded", sent=True) from None
        except (BrokenPipeError, ConnectionResetError):
            return  # an early refusal may be there to be read
        except OSError as cause:
            raise Broken(f"the request could not be handed to the daemon: {cause.strerror}", sent=True) from cause

    def _read_head(self) -> tuple[int, dict[str, str]]:
        words = self.line().split(b" ", 2)
        if len(words) < 2 or words[0] != b"HTTP/1.1" or not words[1].isdigit() or len(words[1]) != 3:
            raise self._broken("it does not answer in HTTP/1.1")
        headers: dict[str, str] = {}
        for _ in range(_MAX_HEADERS):
            line = self.line()
            if not line:
                return int(words[1]), headers
            name, colon, value = line.decode("latin-1").partition(":")
            name = name.lower()
            if not colon or name in headers:
                raise self._broken("a header line is malformed or repeated")
            headers[name] = value.strip(" \t")
        raise self._broken(f"more than {_MAX_HEADERS} headers")

    def _body(self, headers: dict[str, str], max_bytes: int) -> bytes:
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked" or "content-length" in headers:
                raise self._broken("the length of its answer is ambiguous")
            return self._chunked(max_bytes)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise self._broken("the length of its answer is not a number")
        if len(length) > 12 or int(length) > max_bytes:
            raise self._broken(f"its answer has more than {max_bytes} bytes")
        return self.exactly(int(length))

    def _chunked(self, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        total = 0
        while True:
            size = self.chunk_size()
            total += size
            if total > max_bytes:
                raise self._broken(f"its answer has more than {max_bytes} bytes")
            if size == 0:
                return b"".join(parts)
            parts.append(self.exactly(size))
            if self.line():
                raise self._broken("a chunk does not end where it should")

    def chunk_size(self) -> int:
        """The size of the next chunk; the trailer of the last one is read away."""
        text = self.line().partition(b";")[0].strip()
        if not 0 < len(text) <= 8 or text.strip(b"0123456789abcdefABCDEF"):
            raise self._broken("a chunk has no size")
        size = int(text, 16)
        if size == 0:
            while self.line():
                pass
        return size

    def line(self) -> bytes:
        """Up to the next line end, which is taken off."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > _MAX_LINE_BYTES:
                raise self._broken("a line of its answer has no end")
            self._fill()
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return line.removesuffix(b"\r")

    def exactly(self, size: int) -> bytes:
        parts = [self._buffer[:size]]
        self._buffer = self._buffer[size:]
        missing = size - len(parts[0])
        while missing:
            part = self._receive(min(missing, _CHUNK_BYTES))
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def extend(self, seconds: float) -> None:
        """Allow the answer that much more time from now on."""
        self._ends_at = time.monotonic() + seconds

    def interrupt(self) -> None:
        """Wake a reader in another thread; it sees the end of the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already

    def _fill(self) -> None:
        self._buffer += self._receive(_CHUNK_BYTES)

    def _receive(self, size: int) -> bytes:
        self._arm()
        try:
            part = self._socket.recv(size)
        except TimeoutError:
            raise Broken("the daemon did not answer in time", sent=self._sent) from None
        except OSError as cause:
            raise Broken(f"the connection to the daemon broke: {cause.strerror}", sent=self._sent) from cause
        if not part:
            raise Broken("the daemon closed the connection before it had answered", sent=self._sent)
        return part

    def _arm(self) -> None:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise Broken("the daemon did not answer in time", sent=self._sent)
        self._socket.settimeout(left)

    def _broken(self, why: str) -> Broken:
        return Broken(f"the daemon's answer is not usable: {why}", sent=self._sent)


class Event:
    """One server-sent event. `data` is its text as it came."""

    __slots__ = ("data", "id", "name")

    def __init__(self, name: str, data: str, identifier: str | None) -> None:
        self.name = name
        self.data = data
        self.id = identifier


class EventStream:
    """Iterate to receive; None is a sign of life. Raises Broken when the daemon falls silent or goes.

    The connection is its own and ends with the iteration, or with the `with` block around it.
    """

    def __init__(self, connection: Connection, silence_s: float, *, chunked: bool) -> None:
        self._connection = connection
        self._silence_s = silence_s
        self._chunked = chunked
        self._pending = b""

    def close(self) -> None:
        """End the stream, from any thread: the one that iterates sees a Broken."""
        self._connection.interrupt()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[Event | None]:
        try:
            yield from self._events()
        finally:
            self._connection.close()

    def _events(self) -> Iterator[Event | None]:
        data: list[str] = []
        name, identifier, size = "message", None, 0
        while True:
            line = self._line()
            size += len(line)
            if size > _MAX_EVENT_BYTES:
                raise Broken("an event of the daemon has no end")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield Event(name, "\n".join(data), identifier)
                name, data, size = "message", [], 0
            elif not field:
                yield None
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "id":
                identifier = value

    def _line(self) -> str:
        self._connection.extend(self._silence_s)
        if not self._chunked:
            return self._connection.line().decode("utf-8", "replace")
        while (end := self._pending.find(b"\n")) < 0:
            size = self._connection.chunk_size()
            if size == 0:
                raise Broken("the daemon ended the stream of events")
            if size + len(self._pending) > _MAX_EVENT_BYTES:
                raise Broken("an event of the daemon has no end")
            self._pending += self._connection.exactly(size)
            self._connection.line()
        line, self._pending = self._pending[:end], self._pending[end + 1 :]
        return line.removesuffix(b"\r").decode("utf-8", "replace")


def check_place(path: str) -> None:
    """Refuse a socket that others than this user or root could have put there. Raises NotRunning or Broken."""
    if len(os.fsencode(path)) > LONGEST_PATH_BYTES:
        raise Broken(
            f"the socket's path has more than {LONGEST_PATH_BYTES} bytes, the most that the kernel takes: "
            f"choose a shorter DOORWARD_HOME or XDG_RUNTIME_DIR ({path})"
        )
    directory = os.path.dirname(path)  # noqa: PTH120 - pathlib costs the agent's path 3 ms
    for place, is_kind, kind in ((directory, stat.S_ISDIR, "directory"), (path, stat.S_ISSOCK, "socket")):
        try:
            facts = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            raise NotRunning(f"no daemon is running: there is no {path}. A human starts it by: doorward up") from None
        except OSError as cause:
            raise Broken(f"{place} can't be looked at: {cause.strerror}") from cause
        if not is_kind(facts.st_mode):
            raise Broken(f"{place} is no {kind}: not using it")
        if facts.st_uid not in {os.getuid(), 0}:
            raise Broken(f"{place} belongs to user {facts.st_uid}, neither to you nor to root: not using it")
        shared_by_root = facts.st_uid == 0 and os.getuid() != 0  # system mode: root gives it to a group on purpose
        writable = stat.S_IWOTH if shared_by_root else stat.S_IWOTH | stat.S_IWGRP
        if facts.st_mode & writable:
            raise Broken(f"{place} can be written by others (mode {stat.S_IMODE(facts.st_mode):04o}): not using it")


def _connect(path: str, connect_s: float) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The kernel waits for a place in the queue; a timeout of Python's own would have it fail at once.
        link.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(connect_s), int(connect_s % 1 * 1e6))
        )
        link.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        link.close()
        raise NotRunning(f"no daemon is running: nobody listens on {path}. A human starts it by: doorward up") from None
    except (TimeoutError, BlockingIOError):
        link.close()
        raise Broken("the daemon takes no new connection: it hangs or is overloaded") from None
    except OSError as cause:
        link.close()
        raise Broken(f"{path} can't be opened: {cause.strerror}") from cause
    return link


def _check_peer(link: socket.socket, path: str) -> None:
    if not hasattr(socket, "SO_PEERCRED"):  # macOS: owner and mode of the path are what there is
        return
    _, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid not in {os.getuid(), 0}:
        raise Broken(f"user {uid} listens on {path}, neither you nor root: not using it")


def _head(method: str, target: str, body: bytes | None, extra: tuple[tuple[str, str], ...]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: doorward"]
    lines += [f"{name}: {value}" for name, value in extra]
    if body is not None:
        kind = [] if any(name == "Content-Type" for name, _ in extra) else ["Content-Type: application/json"]
        lines += [*kind, f"Content-Length: {len(body)}"]
    for line in lines:
        if not line.isascii() or not line.isprintable():
            raise Broken("the request line holds characters that do not belong there")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
