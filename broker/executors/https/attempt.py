"""One attempt on the wire and what is known of it, measured where the bytes pass.

`body_sent` means that the kernel took the last byte (over TLS up to one buffer may still be ours); only an answer
proves more. A connection that turns out closed before the first byte is written proves that nothing was sent.
A second dispatch of the same attempt is refused here, whatever the library wants.
"""

import asyncio
import time

import aiohttp
from aiohttp import ClientRequest, ClientResponse
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.payload import Payload
from typing_extensions import override

from broker.core.credential import HttpSecret
from broker.core.frozen import Deadlines
from broker.core.outcome import Fault, Phase, RawOutcome
from broker.core.secret import Secret
from broker.executors.https.faults import AttemptLostError, ExecutorError
from broker.executors.https.inject import inject

SLICE_BYTES = 65_536

_ORDER = {phase: position for position, phase in enumerate(Phase)}


class Attempt:
    """The evidence of one dispatch. Phases only go forward; each phase has its own deadline."""

    protocol: ResponseHandler | None
    derived: tuple[Secret, ...]

    def __init__(
        self, deadlines: Deadlines, secret: HttpSecret | None = None, *, body: bytes = b"", added_bytes: int = 0
    ) -> None:
        """`added_bytes` of the body stand in nothing that was decided, and count for nothing in the outcome."""
        self.deadlines = deadlines
        self.secret = secret
        self.signed_body = body
        self.added_bytes = added_bytes
        self.derived = ()
        self.protocol = None
        self.phase = Phase.APPROVED
        self.sent_bytes = 0
        self.status: int | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.body = b""
        self.handed_on_bytes: int | None = None
        self.body_complete = False
        self.body_provable = True
        self._dispatches = 0
        self._started_s = time.monotonic()
        self._marks: dict[str, int] = {}
        self._watch: asyncio.Timeout | None = None
        self._watched = Fault.CONNECT_TIMEOUT

    @property
    def deadline_fault(self) -> Fault:
        """What it means when the watched deadline passes now."""
        return self._watched

    def reach(self, phase: Phase) -> None:
        if _ORDER[phase] > _ORDER[self.phase]:
            self.phase = phase
            self._marks[phase.value] = self._elapsed_ms()

    def watch_by(self, watch: asyncio.Timeout) -> None:
        """Begin with the deadline for the connection: name, TCP and TLS together."""
        self._watch = watch
        self._watched = Fault.CONNECT_TIMEOUT
        self._rearm(self.deadlines.connect_s)

    def dispatch(self, protocol: ResponseHandler | None) -> None:
        """Claim the one dispatch. Raises ExecutorError on a second."""
        self._dispatches += 1
        if self._dispatches > 1:
            raise ExecutorError("a second dispatch of the same attempt")
        self.protocol = protocol
        self.reach(Phase.CONNECTED)
        self._progress()

    def writing(self) -> None:
        """Called right before the first byte is written."""
        self.reach(Phase.HEADERS_SENT)

    def sent(self, count: int) -> None:
        """The kernel took another slice of the body."""
        self.sent_bytes += count
        self._progress()

    def handed_over(self) -> None:
        """Nothing is left to write; the answer is waited for."""
        self.reach(Phase.BODY_SENT)
        if not self._answering():
            self._watched = Fault.FIRST_BYTE_TIMEOUT
            self._rearm(self.deadlines.first_byte_s)

    def answered(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        """The whole head of the final answer is in; from here on the total deadline alone counts."""
        self.status = status
        self.headers = headers
        self.reach(Phase.RESPONSE_STARTED)
        self._watched = Fault.TOTAL_TIMEOUT
        self._rearm(None)

    def outcome(self, fault: Fault | None) -> RawOutcome:
        return RawOutcome(
            phase=self.phase,
            fault=fault,
            status=self.status,
            headers=self.headers,
            body=self.body,
            body_complete=self.body_complete,
            body_provable=self.body_provable,
            sent_bytes=max(0, self.sent_bytes - self.added_bytes),
            elapsed_ms=self._elapsed_ms(),
            phase_ms=self._marks,
            handed_on_bytes=self.handed_on_bytes,
            derived=self.derived,
        )

    def _progress(self) -> None:
        if not self._answering():
            self._watched = Fault.WRITE_TIMEOUT
            self._rearm(self.deadlines.write_s)

    def _answering(self) -> bool:
        return _ORDER[self.phase] >= _ORDER[Phase.RESPONSE_STARTED]

    def _rearm(self, seconds: float | None) -> None:
        watch = self._watch
        if watch is not None and not watch.expired():
            watch.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    def _elapsed_ms(self) -> int:
        return round((time.monotonic() - self._started_s) * 1000)


class SlicedBody(Payload):
    """A request body that goes out in slices, each waited for until the kernel has it."""

    _autoclose = True

    def __init__(self, body: bytes, attempt: Attempt) -> None:
        super().__init__(body)
        self._size = len(body)
        self._attempt = attempt

    @override
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise TypeError("a body is sent, not shown")

    @override
    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    @override
    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if self._consumed:
            raise ExecutorError("a body is sent once")
        self._consumed = True
        view = memoryview(self._value)
        open_transport(getattr(writer, "transport", None))
        self._attempt.writing()
        for start in range(0, len(view), SLICE_BYTES):
            piece = view[start : start + SLICE_BYTES]
            await writer.write(piece)
            await writer.drain()
            self._attempt.sent(len(piece))
        self._attempt.handed_over()


class WatchedRequest(ClientRequest):
    """The library's request, which tells its attempt when it gets a connection and injects the credential there."""

    attempt: Attempt | None = None

    @override
    async def send(self, conn: Connection) -> ClientResponse:
        attempt = self.attempt
        if attempt is None:
            raise ExecutorError("a request without an attempt")
        attempt.dispatch(conn.protocol)
        transport = open_transport(conn.transport)
        if attempt.secret is not None:
            attempt.derived = inject(self, attempt.secret, attempt.signed_body)
            attempt.secret = None
        if self.body:
            transport.set_write_buffer_limits(high=1, low=0)  # so that a drained slice is one that the kernel took
            return await super().send(conn)
        attempt.writing()
        response = await super().send(conn)
        attempt.handed_over()
        return response


def open_transport(transport: asyncio.Transport | None) -> asyncio.Transport:
    """Raise before anything is written if the connection is gone: then nothing was sent."""
    if transport is None or transport.is_closing():
        raise AttemptLostError("the connection was closed before it was used")
    return transport


async def once(attempt: Attempt, request: ClientRequest, handler: aiohttp.ClientHandlerType) -> ClientResponse:
    """Middleware: tie the request to its attempt, and turn what the library would send again into what it won't."""
    if not isinstance(request, WatchedRequest):
        raise ExecutorError("the session makes requests of another kind")
    request.attempt = attempt
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as cause:
        raise AttemptLostError("the connection ended before an answer") from cause
