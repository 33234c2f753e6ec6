"""SFTP servers over a directory that drop an answer, damage what is written, or can do less than OpenSSH's."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh.sftp import SFTPServerHandler
from typing_extensions import override

from tests.live.sshd import free_port


class Gate(asyncssh.SSHServer):
    """Lets anybody in."""

    connections: list[Any] = []  # noqa: RUF012 - of the one server that runs

    @override
    def connection_made(self, conn: Any) -> None:
        self.connections.append(conn)

    @override
    def begin_auth(self, username: str) -> bool:
        return False


@asynccontextmanager
async def sftp_server(
    root: Path,
    *,
    drops_rename: bool = False,
    renames: bool = True,
    corrupts: bool = False,
    gap_at: int | None = None,
    babbles: bool = False,
    serves: int | None = None,
) -> AsyncIterator[tuple[int, str]]:
    """Its port, and a line of known_hosts. drops_rename: the connection is cut where a rename is to be answered.

    gap_at: no byte is read from there, though there are some behind it. babbles: more comes than was asked for.
    """

    class Served(asyncssh.SFTPServer):
        def __init__(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
            super().__init__(chan, chroot=os.fsencode(root))
            self._channel: Any = chan

        @override
        def write(self, file_obj: object, offset: int, data: bytes) -> Any:
            return super().write(file_obj, offset, b"?" + data[1:] if corrupts else data)

        @override
        def read(self, file_obj: object, offset: int, size: int) -> Any:
            if gap_at is not None and offset <= gap_at < offset + size:
                return super().read(file_obj, offset, gap_at - offset)
            content: Any = super().read(file_obj, offset, size)
            return content + b"more" if babbles else content

        @override
        async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
            if renames:
                super().posix_rename(oldpath, newpath)
            if drops_rename:
                self._channel.get_connection()._transport.abort()
                await asyncio.sleep(5)

    def admit() -> Gate:
        if serves is not None and len(Gate.connections) >= serves:
            raise ConnectionRefusedError
        return Gate()

    Gate.connections = []
    key = asyncssh.generate_private_key("ssh-ed25519")
    port = free_port()
    listener = await asyncssh.listen(
        "127.0.0.1", port, server_factory=admit, server_host_keys=[key], sftp_factory=Served
    )
    try:
        yield port, f"[127.0.0.1]:{port} {key.export_public_key('openssh').decode('ascii')}"
    finally:
        listener.close()
        await listener.wait_closed()
        for connection in Gate.connections:
            connection.abort()
            await connection.wait_closed()


@contextmanager
def less_able(*, posix_rename: bool) -> Iterator[None]:
    """The library's server announces fewer extensions, as servers of other makers do."""
    assert not posix_rename
    before = SFTPServerHandler._extensions
    SFTPServerHandler._extensions = [entry for entry in before if entry[0] != b"posix-rename@openssh.com"]
    yield
    SFTPServerHandler._extensions = before
