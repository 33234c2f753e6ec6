"""A host as a login shell sees it: lines run by `SHELL -c LINE` in a session and a home of their own, as by sshd."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from broker.core.ssh import lookup, wrapper
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.outcome import Finding, StoreSeen
from broker.core.ssh.preamble import Preamble

NONCE = "5e" * 16
DEADLINE_S = 20.0
SHELLS = ("bash", "dash", "ash", "zsh", "csh", "tcsh", "fish")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """`status` as sshd would send it: minus the number of a signal. `stderr` is without the preamble."""

    status: int
    stdout: bytes
    stderr: bytes
    preamble: Preamble


@dataclass(kw_only=True)
class Host:
    root: Path
    shell: Path
    sh: Path | None = None  # stands in for /bin/sh
    inside: tuple[str, ...] = ()  # how to get to where it lives
    store: StoreSeen | None = None
    more: dict[str, str] = field(default_factory=dict)  # of the environment
    home: Path = field(init=False)
    begun: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.home.mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        usual = {"HOME": str(self.home), "PATH": os.environ["PATH"], "SHELL": str(self.shell), "LANG": "C.UTF-8"}
        return usual | self.more

    def start(self, line: str | bytes, *, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        if self.sh is not None and isinstance(line, str):
            line = line.replace("exec /bin/sh -c", f"exec {self.sh} -c", 1)
        process = subprocess.Popen(
            [*self.inside, str(self.shell), "-c", line],
            env=self.environment,
            cwd=self.home,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.begun.append(process)
        return process

    def close(self) -> None:
        """End what a test left behind."""
        for process in self.begun:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate(timeout=DEADLINE_S)

    def run(self, line: str | bytes, *, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        process = self.start(line, stdin=subprocess.PIPE)
        stdout, stderr = process.communicate(stdin, timeout=DEADLINE_S)
        return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)

    def probe(self) -> StoreSeen:
        seen = wrapper.parse_probe(self.run(wrapper.probe()).stdout)
        assert isinstance(seen, StoreSeen), seen
        self.store = seen
        return seen

    def wrapped(self, command: bytes, operation_id: str, *, detach: bool = False, pty: bool = False) -> str:
        if self.store is None:
            self.probe()
        return wrapper.wrap(
            command,
            operation_id=operation_id,
            nonce=NONCE,
            pty=pty,
            mode=MarkerMode.REQUIRED,
            detach=detach,
            store=self.store,
        )

    def execute(self, command: bytes, operation_id: str, *, stdin: bytes = b"", detach: bool = False) -> Ran:
        return read(operation_id, self.run(self.wrapped(command, operation_id, detach=detach), stdin=stdin))

    def found(self, operation_id: str) -> Finding:
        answer = self.run(lookup.look_up(operation_id, since=self.store))
        assert answer.stderr == b""
        return lookup.parse(answer.stdout, operation_id=operation_id, since=self.store)

    def marker(self, operation_id: str) -> Path:
        return self.home / ".doorward/ops" / operation_id


def read(operation_id: str, ran: subprocess.CompletedProcess[bytes]) -> Ran:
    preamble = Preamble(operation_id, NONCE)
    stderr = preamble.feed(ran.stderr) + preamble.rest()
    return Ran(status=ran.returncode, stdout=ran.stdout, stderr=stderr, preamble=preamble)


def shell_named(name: str, folder: Path) -> Path:
    """The shell under the name that it goes by as a login shell."""
    program = shutil.which("busybox" if name == "ash" else name)
    assert program is not None, f"install {name}: packaging/setup-test-deps.sh"
    place = folder / name
    place.symlink_to(program)
    return place


@contextmanager
def other_root(home: Path, *mounts: str) -> Iterator[tuple[str, ...]]:
    """A view of the file system in which these commands were run first; yields how to get to the home in it."""
    mine = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    keeper = subprocess.Popen(
        [
            shutil.which("unshare") or "unshare",
            "--mount",
            *mine,
            "sh",
            "-ec",
            "; ".join([*mounts, "echo ready", "exec sleep 60"]),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"ready\n"
        into = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        yield ("nsenter", f"--target={keeper.pid}", "--mount", *into, "env", f"--chdir={home}")
    finally:
        keeper.kill()
        keeper.communicate()


def until(holds: Callable[[], bool]) -> None:
    """Wait for it, within a deadline."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.005)


def new_id(number: int) -> str:
    return f"op_{number:044x}"


def started(host: Host, command: bytes, operation_id: str) -> subprocess.Popen[bytes]:
    """A command that has begun."""
    (host.home / "begun").unlink(missing_ok=True)
    process = host.start(host.wrapped(command + b"; : >begun; sleep 600", operation_id))
    until((host.home / "begun").exists)
    return process


def kill_session(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)
