"""A TCP relay before a real SSH server, which cuts all that it carries when it is told to. It knows nothing of SSH.

Every connection has a thread; later connections are carried as before. Close it and no thread is left.
"""

import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

CHUNK_BYTES = 1 << 16
LOOK_S = 0.02
JOIN_S = 5.0
RESET = struct.pack("ii", 1, 0)  # as SO_LINGER has it: closing sends a reset


class CuttingProxy:
    """Listens on a free port of loopback and carries to `target`, a port there, which may come and go."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self._closing = threading.Event()
        self._carried: list[tuple[socket.socket, socket.socket, threading.Event]] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(JOIN_S)
        self._listener.close()

    def cut(self, *, reset: bool = True) -> int:
        """End every connection there is, by a reset or in order; how many there were."""
        cut = 0
        for near, far, is_over in self._carried:
            if is_over.is_set():
                continue
            cut += 1
            for end in (near, far):
                with suppress(OSError):
                    if reset:
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            is_over.set()
        return cut

    def _begin(self, work: object, *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            if not select.select([self._listener], [], [], LOOK_S)[0]:
                continue
            near, _ = self._listener.accept()
            self.accepted += 1
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=JOIN_S)
            except OSError:
                near.close()
                continue
            is_over = threading.Event()
            self._carried.append((near, far, is_over))
            self._begin(self._carry, near, far, is_over)

    def _carry(self, near: socket.socket, far: socket.socket, is_over: threading.Event) -> None:
        """Both ways until either end has nothing more to say, or it is cut."""
        with near, far, suppress(OSError):
            while not (is_over.is_set() or self._closing.is_set()):
                for end in select.select([near, far], [], [], LOOK_S)[0]:
                    chunk = end.recv(CHUNK_BYTES)
                    if not chunk:
                        is_over.set()
                        break
                    (far if end is near else near).sendall(chunk)
        is_over.set()
