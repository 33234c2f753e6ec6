"""A small daemon on a Unix socket: answers from a table, remembers what it was asked. One thread per connection."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

Reply = tuple[int, Any]
Handler = Callable[["Asked"], Reply]


class Asked:
    """One request as it arrived."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.target = target
        self.path = target.partition("?")[0]
        self.headers = headers
        self.body = body

    @property
    def value(self) -> Any:
        return json.loads(self.body)


class UnixDaemon:
    """Serves until closed. `replies` maps "METHOD /path" to (status, JSON value) or to a function that gives it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replies: dict[str, Reply | Handler] = {}
        self.asked: list[Asked] = []
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(16)
        self._links: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        _end(self._listener)
        self._thread.join(timeout=5)  # first: no connection may be accepted behind our back
        for link in self._links:
            _end(link)
        self.path.unlink(missing_ok=True)

    def bodies(self, line: str) -> list[Any]:
        """The JSON bodies that came for "METHOD /path", in order."""
        return [asked.value for asked in self.asked if f"{asked.method} {asked.path}" == line]

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self._links.append(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link, link.makefile("rb") as stream:
            while True:
                try:
                    asked = _read(stream)
                except (OSError, ValueError):
                    return
                if asked is None:
                    return
                self.asked.append(asked)
                reply = self.replies.get(
                    f"{asked.method} {asked.path}", (404, {"error": {"code": "unknown", "message": "no such route"}})
                )
                status, value = reply(asked) if callable(reply) else reply
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                head = (
                    f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
                )
                try:
                    link.sendall(head.encode() + content)
                except OSError:
                    return


class RawServer:
    """Answers each connection with fixed bytes after the first bytes came, then closes (or holds the line)."""

    def __init__(self, path: Path, answer: bytes, *, hold: bool = False) -> None:
        self.path = path
        self.received: list[bytes] = []
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(16)
        self._answer = answer
        self._hold = hold
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._listener)
        self._thread.join(timeout=5)  # first: no connection may be accepted behind our back
        for link in self._held:
            _end(link)

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
                self._held.append(link)
                link.settimeout(5)
                self.received.append(link.recv(1 << 20))
                link.sendall(self._answer)
                if not self._hold:
                    _end(link)
            except OSError:
                return


def _end(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
    link.close()


def _read(stream: Any) -> Asked | None:
    line = stream.readline().decode()
    if not line:
        return None
    method, target, _ = line.split()
    headers: dict[str, str] = {}
    while (head := stream.readline().decode().strip()) != "":
        name, _, value = head.partition(":")
        headers[name.lower()] = value.strip()
    return Asked(method, target, headers, stream.read(int(headers.get("content-length", "0"))))
