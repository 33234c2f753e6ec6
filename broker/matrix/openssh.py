"""A real OpenSSH server for one run, with keys that are thrown away, a home of its own, and a relay before it.

It runs as whoever runs the matrix, lets that user in by one key, and leads every command to the run's home, so that
nothing is left in the user's own. Needs `sshd` on the machine; MatrixError says so where there is none.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncssh

from broker.matrix.far_programs import FarHost
from broker.matrix.faults import MatrixError
from broker.matrix.house import wait_until
from broker.matrix.ssh_proxy import CuttingProxy

START_S = 15.0
SBIN = ":/usr/sbin:/sbin:/usr/local/sbin"
RUN_DIRECTORY = Path("/run/sshd")  # where sshd of root wants to be confined before a login
SERVERS = ("sshd", "sshd-session", "sshd-auth")


class OpenSsh:
    """Started when it is made. `proxy.port` is where clients go; `close` ends all that it has started."""

    def __init__(self, home: Path, host: FarHost, token: str) -> None:
        self.host = host
        self.user = getpass.getuser()
        self._home = home
        self._program = shutil.which("sshd", path=os.environ.get("PATH", "") + SBIN)
        if self._program is None:
            raise MatrixError("there is no sshd on this machine: install openssh-server, or leave these cases out")
        self._host_key = asyncssh.generate_private_key("ssh-ed25519")
        key = asyncssh.generate_private_key("ssh-ed25519", comment=token)
        self.private_key = key.export_private_key("openssh").decode("ascii")
        self._port = _free_port()
        _write(home / "host_key", self._host_key.export_private_key("openssh").decode("ascii"))
        _write(home / "authorized", key.export_public_key("openssh").decode("ascii"))
        _write(home / "config", self._config())
        self._process: subprocess.Popen[bytes] | None = None
        self._met: set[int] = set()
        self.proxy = CuttingProxy(self._port).__enter__()
        self.start()

    @property
    def public_key(self) -> str:
        return " ".join(self._host_key.export_public_key("openssh").decode("ascii").split()[:2])

    def start(self) -> None:
        """Or start again, on the same port and with the same keys."""
        if os.geteuid() == 0:
            RUN_DIRECTORY.mkdir(mode=0o755, exist_ok=True)
        command = [str(self._program), "-D", "-e", "-f", str(self._home / "config"), "-E", str(self._home / "sshd.log")]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if not wait_until(self._listens, limit_s=START_S):
            raise MatrixError(f"sshd did not start; its log is {self._home / 'sshd.log'}")

    def kill_server(self) -> None:
        """The server and its sessions, as a crash of it would; what the sessions run lives on."""
        for pid in sorted(self._descendants()):
            if _name(pid) in SERVERS:
                _kill(pid)
        self._end()

    def kill_commands(self) -> None:
        """What the sessions run, whoever waits before what is waited for; the server lives on."""
        while left := [pid for pid in sorted(self._descendants()) if _name(pid) not in SERVERS]:
            for pid in left:
                _kill(pid)

    def close(self) -> None:
        self.proxy.close()
        self._descendants()
        self._end()
        for pid in sorted(self._met):
            if _is_below(pid, self._home):
                _kill(pid)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_S)
            self._process = None

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1.0):
            return True
        return False

    def _descendants(self) -> set[int]:
        """Now living; each is remembered, for its parent may end before it."""
        if self._process is None:
            return set()
        parents = dict(_parents())
        found, edge = set[int](), {self._process.pid}
        while edge := {pid for pid, parent in parents.items() if parent in edge and pid not in found}:
            found |= edge
        self._met |= found
        return found

    def _config(self) -> str:
        told = {
            "Port": str(self._port),
            "ListenAddress": "127.0.0.1",
            "HostKey": str(self._home / "host_key"),
            "AuthorizedKeysFile": str(self._home / "authorized"),
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "UseDNS": "no",
            "PrintMotd": "no",
            "PrintLastLog": "no",
            "LogLevel": "VERBOSE",
            "SetEnv": f'HOME="{self.host.home}" PATH="{self.host.path}"',
        }
        return "".join(f"{key} {value}\n" for key, value in told.items())


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="ascii")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                told = (entry / "stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
                if told[0] != "Z":
                    yield int(entry.name), int(told[1])


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _is_below(pid: int, home: Path) -> bool:
    """Whether it is still a process of ours, and not one that got its number since."""
    with suppress(OSError):
        return f"HOME={home}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
