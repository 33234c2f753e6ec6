"""A load on one HTTP server, from a process of its own: so many connections, each asking again when it is answered.

    python tests/bench/load.py (unix:PATH | tcp:PORT) CONNECTIONS SECONDS < REQUEST

Prints the number of answers, those that were no 200, and the latencies' median and 99th percentile, as JSON. It is
Python, so what it measures of the fastest servers is a lower bound.
"""

import asyncio
import json
import statistics
import sys
import time
from typing import cast

import uvloop
from typing_extensions import override


class Connection(asyncio.Protocol):
    """Sends the request over and over; counts answers by their length or by their chunks."""

    def __init__(self, request: bytes, ends_at: float, took_ms: list[float], faults: list[bytes]) -> None:
        self._request = request
        self._ends_at = ends_at
        self._took_ms = took_ms
        self._faults = faults
        self._buffer = bytearray()
        self._left = -1  # bytes of the body, or of the chunk
        self._is_chunked = False
        self._began = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self._ask()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._faults.append(b"lost")
            self.done.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._step():
            pass

    def _ask(self) -> None:
        self._left, self._began = -1, time.perf_counter()
        self._transport.write(self._request)

    def _step(self) -> bool:
        """Take what is there; whether there may be more to take."""
        if self._left < 0:
            return self._head()
        if self._is_chunked and self._left == 0:
            return self._chunk()
        taken = min(self._left, len(self._buffer))
        del self._buffer[:taken]
        self._left -= taken
        if self._left == 0 and not self._is_chunked:
            self._answered()
        return taken > 0 and bool(self._buffer)

    def _head(self) -> bool:
        head, end, _ = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        del self._buffer[: len(head) + 4]
        lower = bytes(head).lower()
        if b" 200 " not in lower[:14]:
            self._faults.append(bytes(head[:40]))
        self._is_chunked = b"transfer-encoding: chunked" in lower
        self._left = 0 if self._is_chunked else int(lower.partition(b"content-length:")[2].split()[0])
        return True

    def _chunk(self) -> bool:
        line, end, _ = (
            self._buffer.partition(b"\r\n") if len(self._buffer) < 32 else self._buffer[:32].partition(b"\r\n")
        )
        if not end or (line == b"0" and len(self._buffer) < 5):
            return False
        size = int(line, 16)
        if size == 0:
            del self._buffer[:5]
            self._answered()
            return False
        del self._buffer[: len(line) + 2]
        self._left = size + 2
        return True

    def _answered(self) -> None:
        now = time.perf_counter()
        self._took_ms.append((now - self._began) * 1000)
        if now < self._ends_at:
            self._ask()
        elif not self.done.done():
            self.done.set_result(None)
            self._transport.close()


async def load(place: str, connections: int, seconds: float, request: bytes) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    took_ms: list[float] = []
    faults: list[bytes] = []
    began = time.perf_counter()
    protocols = []
    for _ in range(connections):
        kind, _, where = place.partition(":")

        def make() -> Connection:
            return Connection(request, began + seconds, took_ms, faults)

        if kind == "unix":
            _, protocol = await loop.create_unix_connection(make, where)
        else:
            _, protocol = await loop.create_connection(make, "127.0.0.1", int(where))
        protocols.append(protocol)
    async with asyncio.timeout(seconds + 60):
        await asyncio.gather(*(one.done for one in protocols))
    lasted_s = time.perf_counter() - began
    ordered = sorted(took_ms)
    return {
        "answers": len(took_ms),
        "per_s": len(took_ms) / lasted_s,
        "faults": len(faults),
        "p50_ms": statistics.median(ordered),
        "p99_ms": ordered[int(len(ordered) * 0.99)],
    }


if __name__ == "__main__":
    uvloop.install()
    print(json.dumps(asyncio.run(load(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.stdin.buffer.read()))))
