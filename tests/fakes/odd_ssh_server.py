"""An SSH server that misbehaves within the protocol, as told: statuses, refusals, silences and orders of events.

Each behaviour is a function of the server's channel, called with the command that was asked for.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import asyncssh
from asyncssh.packet import Boolean, String, UInt32
from typing_extensions import override

from tests.live.sshd import free_port

Behaviour: TypeAlias = Callable[[Any, str], bool | None]


def status(number: int) -> Behaviour:
    """Accept, and end with this exit status, all 32 bits of it."""

    def behave(channel: Any, command: str) -> bool:
        del command
        asyncio.get_running_loop().call_soon(_exit, channel, number)
        return True

    return behave


def refuse(channel: Any, command: str) -> bool:
    """Say no to the command, and keep the connection."""
    del channel, command
    return False


def say_nothing(channel: Any, command: str) -> None:
    """Neither yes nor no."""
    del channel, command


def close_unanswered(channel: Any, command: str) -> None:
    """Close the channel without an answer."""
    del command
    channel.abort()


def close_without_status(channel: Any, command: str) -> bool:
    del command
    asyncio.get_running_loop().call_soon(channel.close)
    return True


def status_before_answer(channel: Any, command: str) -> bool:
    """The exit status, output and all, before the command is said to be taken."""
    del command
    channel._send_request(b"exit-status", UInt32(6))
    asyncio.get_running_loop().call_soon(channel.close)
    return True


def reset_after_eof(channel: Any, command: str) -> bool:
    """Close both streams, and then cut the connection with a reset."""
    del command

    def cut() -> None:
        channel.write_eof()
        transport = channel.get_connection()._transport
        asyncio.get_running_loop().call_later(0.1, transport.abort)

    asyncio.get_running_loop().call_soon(cut)
    return True


def cut_unanswered(channel: Any, command: str) -> None:
    """Cut the connection where the answer to the command is due: it may have run."""
    del command
    channel.get_connection()._transport.abort()


def two_statuses(channel: Any, command: str) -> bool:
    del command

    def twice() -> None:
        channel._send_request(b"exit-status", UInt32(1))
        channel._send_request(b"exit-status", UInt32(0))

    asyncio.get_running_loop().call_soon(twice)
    return True


def signal_called(name: str) -> Behaviour:
    """Accept, and end by a signal of this name."""

    def behave(channel: Any, command: str) -> bool:
        del command
        words = (String(name), Boolean(value=False), String("gone"), String(""))
        asyncio.get_running_loop().call_soon(lambda: channel._send_request(b"exit-signal", *words))
        asyncio.get_running_loop().call_later(0.05, channel.close)
        return True

    return behave


def ask_everything(channel: Any, command: str) -> bool:
    """Try to open channels and forwardings towards the client."""
    del command
    connection = channel.get_connection()

    async def reach_back() -> None:
        for attempt in (connection.open_connection("127.0.0.1", 22), connection.open_agent_connection()):
            try:
                await attempt
            except Exception as refused:  # noqa: BLE001 - whatever refuses it
                connection.refusals.append(type(refused).__name__)
            else:
                connection.refusals.append("opened")
        _exit(channel, 0)

    connection.refusals = []
    connection.create_task(reach_back())
    return True


def _exit(channel: Any, number: int) -> None:
    channel._send_request(b"exit-status", UInt32(number))
    channel.close()


class Session(asyncssh.SSHServerSession[bytes]):
    def __init__(self, server: "OddServer") -> None:
        self._server = server
        self._channel: Any = None

    @override
    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    @override
    def exec_requested(self, command: str) -> bool:
        self._server.commands.append(command)
        self._server.connections.append(self._channel.get_connection())
        answer = self._server.behaviour(self._channel, command)
        return answer if answer is not None else bool(self._silence())

    def _silence(self) -> bool:
        """No answer at all: the request stays at the head of the queue."""
        self._channel._report_response = lambda _: None
        return False


@dataclass(slots=True)
class OddServer:
    """Running on `port`. `answers` are the passwords that were tried, over whichever method."""

    port: int
    key: asyncssh.SSHKey
    behaviour: Behaviour
    commands: list[str] = field(default_factory=list)
    connections: list[Any] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    accepts_keys: bool = True
    methods: tuple[str, ...] = ("publickey",)
    prompts: tuple[tuple[str, bool], ...] = (("Password: ", False),)

    @property
    def known_hosts(self) -> str:
        public = self.key.export_public_key("openssh").decode("ascii")
        return f"[127.0.0.1]:{self.port} {public}"


class Gate(asyncssh.SSHServer):
    """Logs in as it is told, and counts what is offered to it."""

    def __init__(self, server: OddServer) -> None:
        self._server = server

    @override
    def begin_auth(self, username: str) -> bool:
        return True

    @override
    def public_key_auth_supported(self) -> bool:
        return "publickey" in self._server.methods

    @override
    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._server.offered.append(key.get_fingerprint())
        return self._server.accepts_keys

    @override
    def password_auth_supported(self) -> bool:
        return "password" in self._server.methods

    @override
    def validate_password(self, username: str, password: str) -> bool:
        self._server.answers.append(password)
        return False

    @override
    def kbdint_auth_supported(self) -> bool:
        return "keyboard-interactive" in self._server.methods

    @override
    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        return "", "", "en", list(self._server.prompts)

    @override
    def validate_kbdint_response(self, username: str, responses: Any) -> Any:
        self._server.answers += responses
        return "", "", "en", list(self._server.prompts)  # for ever

    @override
    def session_requested(self) -> Session:
        return Session(self._server)


@asynccontextmanager
async def odd_server(
    behaviour: Behaviour, *, kind: str = "ssh-ed25519", bits: int | None = None
) -> AsyncIterator[OddServer]:
    """A server with a key of its own of that kind."""
    key = asyncssh.generate_private_key(kind) if bits is None else asyncssh.generate_private_key(kind, key_size=bits)
    server = OddServer(port=free_port(), key=key, behaviour=behaviour)
    listener = await asyncssh.listen(
        "127.0.0.1",
        server.port,
        server_factory=lambda: Gate(server),
        server_host_keys=[key],
        encoding=None,
        line_editor=False,
        login_timeout=10,
        signature_algs=["ssh-dss", "ssh-rsa", "rsa-sha2-256", "rsa-sha2-512", "ssh-ed25519"]
        if kind == "ssh-dss"
        else (),
    )
    try:
        yield server
    finally:
        listener.close()
        await listener.wait_closed()
        for connection in server.connections:
            connection.abort()
