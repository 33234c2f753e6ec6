"""One command's channel: events as they come, in any order, and the exit status as it was sent, all 32 bits of it.

From the moment the request is written the command may have started, whatever is heard of it: the phase is
`channel_open` from then on. A refusal is proven by the answer that says so, and by nothing else.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Final, Protocol

import asyncssh
from asyncssh.channel import SSHClientChannel
from asyncssh.constants import EXTENDED_DATA_STDERR, MSG_CHANNEL_FAILURE, MSG_CHANNEL_SUCCESS
from asyncssh.packet import Byte, SSHPacket, String, UInt32
from typing_extensions import override

from broker.core.ssh.outcome import SshPhase
from broker.executors.ssh.connection import CheckedConnection
from broker.executors.ssh.faults import SshExecutorError

WINDOW_BYTES = 262_144
PACKET_BYTES = 32_768
TERMINAL = "dumb"
COLUMNS, ROWS = 80, 24

UNNAMED = "unnamed"  # of a signal whose name is none
_SIGNAL = re.compile(r"[A-Za-z0-9@._+-]{1,64}")
_NO_MODES = 0
_NEEDED: Final = ("_open", "_make_request", "_process_response", "_process_exit_status_request", "_start_reading")


def assert_known_channel() -> None:
    """Raise SshExecutorError unless the library's channel still has what is overridden here."""
    missing = [name for name in _NEEDED if not hasattr(SSHClientChannel, name)]
    if missing or MSG_CHANNEL_FAILURE not in SSHClientChannel._packet_handlers:  # noqa: SLF001 - no public hook
        raise SshExecutorError(f"this version of asyncssh can't be used: its channel has no {', '.join(missing)}")


class Cleaner(Protocol):
    """Takes our own words out of a stream, piece by piece; `rest` is what it held back."""

    def feed(self, chunk: bytes) -> bytes: ...
    def rest(self) -> bytes: ...


class Stream:
    """One direction of output: what is kept of it, and how much was seen. `clean` takes out what is ours."""

    def __init__(self, keep_bytes: int, clean: Cleaner | None = None) -> None:
        self.kept = bytearray()
        self.seen_bytes = 0
        self._keep_bytes = keep_bytes
        self._clean = clean

    @property
    def is_whole(self) -> bool:
        return len(self.kept) == self.seen_bytes

    def take(self, octets: bytes) -> bytes:
        """Keep what there is room for; give back what the command wrote of it."""
        return self._keep(octets if self._clean is None else self._clean.feed(octets))

    def finish(self) -> bytes:
        """The stream has ended: what was held back is output too."""
        return b"" if self._clean is None else self._keep(self._clean.rest())

    def _keep(self, written: bytes) -> bytes:
        self.seen_bytes += len(written)
        room = self._keep_bytes - len(self.kept)
        if room > 0:
            self.kept += written[:room]
        return written


class Events(asyncssh.SSHClientSession[bytes]):
    """What was heard of the command. `news` is set with each ending: of the command, of the channel, of our patience.

    `ended` tells that nothing more is to be waited for.
    """

    def __init__(
        self,
        *,
        stdout: Stream,
        stderr: Stream,
        ceiling_bytes: int,
        reach: Callable[[SshPhase], None],
        forward: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.status: int | None = None
        self.signal: str | None = None
        self.at_eof = False
        self.overflowed = False
        self.closed = False
        self.loss: Exception | None = None
        self.news = asyncio.Event()
        self._ceiling_bytes = ceiling_bytes
        self._taken_bytes = 0
        self._reach = reach
        self._forward = forward
        self._clock = asyncio.get_running_loop().time
        self.last_heard_s = self._clock()

    @property
    def has_exited(self) -> bool:
        return self.status is not None or self.signal is not None

    @property
    def ended(self) -> bool:
        return self.closed or self.overflowed

    def heard(self) -> None:
        self.last_heard_s = self._clock()

    @override
    def session_started(self) -> None:
        self.heard()
        self._reach(SshPhase.EXEC_ACCEPTED)

    @override
    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.heard()
        self._taken_bytes += len(data)
        if self._taken_bytes > self._ceiling_bytes:
            self.overflowed = True
            self.news.set()
            return
        self._reach(SshPhase.OUTPUT)
        if datatype == EXTENDED_DATA_STDERR:
            self._hand_on("stderr", self.stderr.take(data))
        else:
            self._hand_on("stdout", self.stdout.take(data))

    @override
    def eof_received(self) -> bool:
        self.at_eof = True
        return True

    @override
    def exit_status_received(self, status: int) -> None:
        self.status = status
        self._exit()

    @override
    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.signal = signal if _SIGNAL.fullmatch(signal) else UNNAMED  # it goes into envelope, log and ledger
        self._exit()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.loss = exc
        for name, stream in (("stdout", self.stdout), ("stderr", self.stderr)):
            self._hand_on(name, stream.finish())
        self.closed = True
        self.news.set()

    def _hand_on(self, stream: str, written: bytes) -> None:
        if self._forward is not None and written:
            self._forward(stream, written)

    def _exit(self) -> None:
        self.heard()
        self._reach(SshPhase.EXITED)
        self.news.set()


class CommandChannel(SSHClientChannel[bytes]):
    """`was_refused` is true once the far side has said no to a request."""

    def __init__(self, connection: CheckedConnection) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(connection, loop, "strict", None, "strict", WINDOW_BYTES, PACKET_BYTES)
        self.was_refused = False

    async def open(self) -> None:
        """Raises asyncssh.ChannelOpenError where there is no channel to be had; nothing was asked to run then."""
        packet = await self._open(b"session")
        packet.check_end()

    async def start(self, events: Events, command: bytes, *, pty: bool, written: Callable[[], None]) -> bool:
        """Ask for the command; whether the answer was yes. Raises what ended the connection instead.

        The answer is waited for before anything is given to the command: it may be no.
        """
        self._session = events
        events.connection_made(self)
        if pty and not await self._make_request(b"pty-req", *_terminal()):
            return False
        written()
        if not await self._make_request(b"exec", String(command)):
            return False
        events.session_started()
        await self._start_reading()
        return True

    def give(self, stdin: bytes) -> None:
        """All of stdin and its end. A command that has ended already needs none."""
        if self._send_state == "open":
            self.write(stdin)
            self.write_eof()

    def _process_answer(self, kind: int, number: int, packet: SSHPacket) -> None:
        self.was_refused = kind == MSG_CHANNEL_FAILURE
        super()._process_response(kind, number, packet)

    @override
    def _process_exit_status_request(self, packet: SSHPacket) -> bool:
        """As it was sent. The library keeps eight bits of it, by which 0x100 is a success."""
        status = packet.get_uint32()
        packet.check_end()
        if self._exit_status is not None or self._exit_signal is not None:
            raise asyncssh.ProtocolError("a second exit status")
        self._exit_status = status
        self._session.exit_status_received(status)
        return True

    _packet_handlers = {  # noqa: RUF012 - as the library has it
        **SSHClientChannel._packet_handlers,  # noqa: SLF001 - the table is how a subclass is told of messages
        MSG_CHANNEL_SUCCESS: _process_answer,
        MSG_CHANNEL_FAILURE: _process_answer,
    }


def _terminal() -> tuple[bytes, ...]:
    size = (UInt32(COLUMNS), UInt32(ROWS), UInt32(0), UInt32(0))
    return (String(TERMINAL), *size, String(Byte(_NO_MODES)))
