"""A TCP proxy on loopback that cuts, resets, swallows or delays a connection, at a byte count or on command.

It knows nothing of what it carries. Threads of its own, so that blocking and asyncio tests alike can use it.
"""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

CHUNK_BYTES = 16_384
POLL_S = 0.02
RESET = struct.pack("ii", 1, 0)


class How(StrEnum):
    """fin: both ends are closed in order. rst: both ends are reset. blackhole: nothing passes any more."""

    FIN = "fin"
    RST = "rst"
    BLACKHOLE = "blackhole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """`up` and `down` are byte counts per connection, towards the server and back; whichever is met first cuts.

    The byte that meets the count still passes. `delay_s` holds up each chunk in both directions.
    """

    how: How = How.RST
    up: int | None = None
    down: int | None = None
    delay_s: float = 0.0


@dataclass(slots=True)
class Passed:
    """Bytes that one connection carried so far."""

    up: int = 0
    down: int = 0
    cut: How | None = None
    wake: threading.Event = field(default_factory=threading.Event)


class CutProxy:
    """Listens on `port` and forwards to the target. `plan` applies to connections accepted from then on."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.plan = Cut()
        self.links: list[Passed] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]

    @property
    def accepted(self) -> int:
        return len(self.links)

    def cut_now(self, how: How = How.RST) -> None:
        """Cut every connection there is; the plan for later ones stays."""
        for link in self.links:
            link.cut = link.cut or how
            link.wake.set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                if not select.select([self._listener], [], [], POLL_S)[0]:
                    continue
                near, _ = self._listener.accept()
            except (OSError, ValueError):
                return
            link = Passed()
            self.links.append(link)
            self._start(self._carry, near, link, self.plan)

    def _carry(self, near: socket.socket, link: Passed, plan: Cut) -> None:
        try:
            far = socket.create_connection(self.target, timeout=5)
        except OSError:
            near.close()
            return
        with near, far:
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                self._shuttle(near, far, link, plan)
            if link.cut is How.RST:
                for end in (near, far):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    def _shuttle(self, near: socket.socket, far: socket.socket, link: Passed, plan: Cut) -> None:
        open_ends = {near: far, far: near}
        while open_ends and not self._closing.is_set():
            if link.cut is How.BLACKHOLE:
                self._closing.wait(POLL_S)
                continue
            if link.cut is not None:
                return
            for end in select.select(list(open_ends), [], [], POLL_S)[0]:
                chunk = end.recv(_room(end is near, link, plan))
                if not chunk:
                    open_ends.pop(end).shutdown(socket.SHUT_WR)
                    continue
                if plan.delay_s:
                    link.wake.wait(plan.delay_s)
                self._pass(chunk, near, far, link, plan, up=end is near)

    def _pass(
        self, chunk: bytes, near: socket.socket, far: socket.socket, link: Passed, plan: Cut, *, up: bool
    ) -> None:
        (far if up else near).sendall(chunk)
        if up:
            link.up += len(chunk)
        else:
            link.down += len(chunk)
        if link.up == plan.up or link.down == plan.down:
            link.cut = link.cut or plan.how


def _room(up: bool, link: Passed, plan: Cut) -> int:  # noqa: FBT001 - a direction
    limit = plan.up if up else plan.down
    left = CHUNK_BYTES if limit is None else limit - (link.up if up else link.down)
    return max(1, min(CHUNK_BYTES, left))


@contextmanager
def cutting(port: int) -> Iterator[CutProxy]:
    """A proxy before a server on loopback."""
    with CutProxy(("127.0.0.1", port)) as proxy:
        yield proxy
