"""An SSH server that fails before a command is taken, or runs it for real; it writes down what came.

asyncssh in a thread of its own. Runs are told apart by the user who logs in; the password of a run is its token. It
speaks the protocol alone: commands are given to /bin/sh in the run's own home, and live on when their connection is
lost, as they do under OpenSSH.
"""

import asyncio
import os
import shutil
import signal
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import asyncssh
from typing_extensions import override

from broker.matrix.far_programs import FarHost
from broker.matrix.faults import MatrixError
from broker.matrix.records import Seen

Process: TypeAlias = asyncssh.SSHServerProcess[bytes]
SHELL = shutil.which("bash") or "/bin/sh"  # bash becomes the one command that it is given, and its signal is told
CHUNK_BYTES = 1 << 16
START_S = 15.0
END_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPlan:
    """What a run meets: `refuses` is "" | login | channel."""

    password: str = field(repr=False)
    host: FarHost
    refuses: str = ""


class SshFaults:
    """Running from enter to close. `port` answers; at `silent_port` nobody speaks; at `closed_port` nobody listens."""

    def __init__(self) -> None:
        self.key = asyncssh.generate_private_key("ssh-ed25519")
        self.plans: dict[str, SshPlan] = {}
        self._seen: list[Seen] = []
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._silent = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.silent_port: int = self._silent.getsockname()[1]
        self._held = socket.socket()
        self._held.bind(("127.0.0.1", 0))
        self.closed_port: int = self._held.getsockname()[1]
        self.port = 0
        self._running: set[int] = set()  # process groups
        self._tasks: asyncio.TaskGroup | None = None
        self._started, self._stopping = threading.Event(), asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(START_S):
            raise MatrixError("the SSH server of the matrix did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(END_S)
        self._silent.close()
        self._held.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @property
    def public_key(self) -> str:
        """`type base64`, as in a known_hosts file."""
        return public_line(self.key)

    def arm(self, run: str, plan: SshPlan) -> None:
        self.plans[run] = plan

    def events(self, run: str) -> tuple[Seen, ...]:
        with self._lock:
            own = tuple(one for one in self._seen if one.case == run)
        return (*own, *(self.plans[run].host.events() if run in self.plans else ()))

    def note(self, run: str, what: str, detail: str = "", credential: str | None = None) -> None:
        with self._lock:
            self._seen.append(Seen(case=run, what=what, detail=detail, credential=credential))

    async def _serve(self) -> None:
        """Until it is stopped. Commands are tasks of the server and not of a connection, so that they outlive it."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            listener = await asyncssh.listen(
                "127.0.0.1",
                0,
                server_factory=lambda: _Login(self),
                server_host_keys=[self.key],
                encoding=None,
                line_editor=False,
                login_timeout=30,
            )
            self.port = listener.get_port()
            self._started.set()
            await self._stopping.wait()
            listener.close()
            for pid in tuple(self._running):
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    def run(self, process: Process) -> None:
        """Start what was asked for."""
        if self._tasks is not None:
            self._tasks.create_task(self._carried(process))

    async def _carried(self, process: Process) -> None:
        """A command to its end, whether anybody still listens or not."""
        run = str(process.get_extra_info("username"))
        self.note(run, "asked")
        plan = self.plans[run]
        child = await asyncio.create_subprocess_exec(
            SHELL,
            "-c",
            process.command or "",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environ(plan.host),
            cwd=plan.host.home,
            start_new_session=True,
        )
        self._running.add(child.pid)
        async with asyncio.TaskGroup() as streams:
            given = streams.create_task(_given(process, child))
            told = [
                streams.create_task(_told(source, sink))
                for source, sink in ((child.stdout, process.stdout), (child.stderr, process.stderr))
            ]
            await asyncio.wait(told)
            status = await child.wait()
            given.cancel()
        self._running.discard(child.pid)
        with suppress(OSError, asyncssh.Error):
            if status < 0:
                process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
            else:
                process.exit(status)


async def _given(process: Process, child: asyncio.subprocess.Process) -> None:
    if child.stdin is None:
        return
    with suppress(OSError, asyncssh.Error):
        while chunk := await process.stdin.read(CHUNK_BYTES):
            child.stdin.write(chunk)
            await child.stdin.drain()
    child.stdin.close()


async def _told(source: asyncio.StreamReader | None, sink: asyncssh.SSHWriter[bytes]) -> None:
    """All that is said; what nobody hears any more is read all the same."""
    is_heard = True
    while source is not None and (chunk := await source.read(CHUNK_BYTES)):
        if is_heard:
            try:
                sink.write(chunk)
                await sink.drain()
            except (OSError, asyncssh.Error):
                is_heard = False


class _Login(asyncssh.SSHServer):
    """Takes the password of the run, once."""

    def __init__(self, server: SshFaults) -> None:
        self._server = server
        self._run = ""

    @override
    def begin_auth(self, username: str) -> bool:
        self._run = username
        self._server.note(username, "connected")
        return True

    @override
    def password_auth_supported(self) -> bool:
        return True

    @override
    def validate_password(self, username: str, password: str) -> bool:
        self._server.note(username, "login", credential=password)
        plan = self._server.plans.get(username)
        return plan is not None and plan.refuses != "login" and password == plan.password

    @override
    def session_requested(self) -> Any:
        plan = self._server.plans.get(self._run)
        if plan is None or plan.refuses == "channel":
            return False
        return asyncssh.SSHServerProcess(self._server.run, None, 0, False)  # noqa: FBT003 - neither files nor scp


def public_line(key: asyncssh.SSHKey) -> str:
    return " ".join(key.export_public_key("openssh").decode("ascii").split()[:2])


def _environ(host: FarHost) -> Mapping[str, str]:
    return {"HOME": str(host.home), "PATH": host.path, "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
