"""Real OpenSSH servers on loopback, with keys and accounts that are made for the run and removed after it.

    with open_lab() as lab:
        account = lab.account("bash")
        server = lab.start(NORMAL)

With root each account is a system user of its own with the login shell that was asked for. Without root the current
user alone can log in, with its own shell; `account("...")` of another shell then raises NotHere, which says so.
Every process is ended by its pid: the servers, what descends from them, and what the made users still run.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

START_S = 10.0
STOP_S = 10.0
SHELLS = {
    "bash": "/bin/bash",
    "dash": "/bin/dash",
    "ash": "busybox",
    "fish": "fish",
    "tcsh": "tcsh",
    "zsh": "zsh",
    "nologin": "/usr/sbin/nologin",
    "sh": "/bin/sh",
}
HOST_KEYS = ("ed25519", "ecdsa", "rsa")
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")


class NotHere(Exception):  # noqa: N818 - it names the state
    """What was asked for can't be had on this machine; the message says what then is not tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A configuration. `options` are lines of sshd_config; `host_keys` name keys of the lab (see Lab.host_key)."""

    options: Mapping[str, str] = field(default_factory=dict)
    host_keys: tuple[str, ...] = HOST_KEYS
    host_certificate: bool = False
    sftp: bool = True
    keys_accepted: bool = True  # of accounts by their plain key; without it a certificate is needed


NORMAL = Shape()
ONE_SESSION = Shape(options={"MaxSessions": "1"})
NO_SESSION = Shape(options={"MaxSessions": "0"})
MANY_SESSIONS = Shape(options={"MaxSessions": "100", "MaxStartups": "200"})
FORCED = Shape(options={"ForceCommand": "echo only this"})
NO_SFTP = Shape(sftp=False)
CERTIFICATES = Shape(host_certificate=True, keys_accepted=False)
PASSWORD = Shape(
    options={"UsePAM": "yes", "PasswordAuthentication": "yes", "PubkeyAuthentication": "no", "MaxAuthTries": "6"}
)
KEYBOARD = Shape(
    options={"UsePAM": "yes", "KbdInteractiveAuthentication": "yes", "PubkeyAuthentication": "no", "MaxAuthTries": "6"}
)
RSA_ONLY = Shape(host_keys=("rsa",))
ED25519_ONLY = Shape(host_keys=("ed25519",))
SMALL_RSA = Shape(host_keys=("rsa1024",))
SHA1_ALLOWED = Shape(options={"PubkeyAcceptedAlgorithms": "+ssh-rsa,ssh-dss", "HostKeyAlgorithms": "+ssh-rsa,ssh-dss"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who can log in: by the lab's keys, and with a password where the lab has root."""

    name: str
    uid: int
    home: Path
    shell: str
    password: str = field(repr=False)


def program(name: str) -> str:
    """Its path; NotHere names what installs it."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise NotHere(f"{name} is missing; run packaging/setup-test-deps.sh")
    return found


def is_root() -> bool:
    return os.geteuid() == 0


@dataclass(slots=True, kw_only=True)
class Sshd:
    """A running server."""

    port: int
    home: Path
    shape: Shape
    process: subprocess.Popen[bytes]

    def log(self) -> str:
        return (self.home / "log").read_text(encoding="utf-8", errors="replace")

    def sessions(self) -> set[int]:
        """The processes that descend from the server: one or two for each connection, and what runs in them."""
        return descendants(self.process.pid)

    def stop(self) -> None:
        """End the server and every connection to it."""
        left = self.sessions()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        self.process.wait(timeout=STOP_S)
        kill(left)


class Lab:
    """Keys, accounts and servers of one run. Made by open_lab alone."""

    def __init__(self, home: Path, cleanup: ExitStack) -> None:
        self.home = home
        self.tag = secrets.token_hex(3)
        self._cleanup = cleanup
        self._accounts: dict[str, Account] = {}
        self._servers = 0
        for name in ("keys", "authorized", "home"):
            (home / name).mkdir(mode=0o755)
        self.user_key = self.key("user-ed25519")
        self.user_ca = self.key("user-ca")
        self.host_ca = self.key("host-ca")

    def key(self, name: str, *, kind: str = "ed25519", bits: int | None = None, passphrase: str = "") -> Path:
        """The private key file of that name, made when it is first asked for. Its public half is at `.pub`."""
        path = self.home / "keys" / name
        if not path.exists():
            size = [] if bits is None else ["-b", str(bits)]
            _run(["ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase, "-C", name, "-f", str(path)])
        return path

    def host_key(self, name: str) -> Path:
        """ed25519, ecdsa, rsa, dsa, rsa1024, or any other word for one more ed25519 key."""
        kinds: dict[str, tuple[str, int | None]] = {
            "ecdsa": ("ecdsa", 256),
            "rsa": ("rsa", 2048),
            "rsa1024": ("rsa", 1024),
            "dsa": ("dsa", None),
        }
        kind, bits = kinds.get(name, ("ed25519", None))
        return self.key(f"host-{name}", kind=kind, bits=bits)

    def public(self, key: Path) -> str:
        """Its `type base64`, without the comment."""
        return " ".join(key.with_name(f"{key.name}.pub").read_text(encoding="ascii").split()[:2])

    def certify(self, key: Path, *principals: str, ca: Path | None = None, host: bool = False, valid: str = "") -> Path:
        """A certificate over the public half of a key, as a file of its own beside it."""
        mark = secrets.token_hex(3)
        copy = key.with_name(f"{key.name}-{mark}.pub")
        shutil.copyfile(key.with_name(f"{key.name}.pub"), copy)
        signer = ca or (self.host_ca if host else self.user_ca)
        span = ["-V", valid] if valid else []
        kind = ["-h"] if host else []
        _run(["ssh-keygen", "-q", "-s", str(signer), "-I", mark, *kind, "-n", ",".join(principals), *span, str(copy)])
        copy.unlink()
        return key.with_name(f"{key.name}-{mark}-cert.pub")

    def account(self, shell: str = "bash", *, mark: str = "") -> Account:
        """The account with that login shell; `mark` tells several of one shell apart."""
        key = shell + mark
        if key not in self._accounts:
            self._accounts[key] = self._new_user(shell, mark) if is_root() else _myself(shell)
            self.authorize(self._accounts[key], self.user_key)
        return self._accounts[key]

    def authorize(self, account: Account, *keys: Path, options: str = "") -> None:
        """Let these keys, and no others, log in to the account."""
        lines = [f"{options} {self.public(key)}".strip() for key in keys]
        path = self.home / "authorized" / account.name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        path.chmod(0o644)

    def start(self, shape: Shape = NORMAL) -> Sshd:
        """A server of that shape. It ends with the lab, or by its own `stop`."""
        self._servers += 1
        home = self.home / f"sshd-{self._servers}"
        home.mkdir(mode=0o700)
        port = free_port()
        config = home / "config"
        config.write_text(self._config(shape, port, home), encoding="utf-8")
        command = [program("sshd"), "-D", "-e", "-f", str(config), "-E", str(home / "log")]
        if is_root():
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        server = Sshd(port=port, home=home, shape=shape, process=process)
        self._cleanup.callback(server.stop)
        _wait_for(port, server)
        return server

    def known_hosts(self, server: Sshd, *names: str, host: str = "127.0.0.1") -> str:
        """Lines of a known_hosts file for the server, with its host keys of these names (all where none is named)."""
        chosen = names or server.shape.host_keys
        return "".join(f"[{host}]:{server.port} {self.public(self.host_key(name))}\n" for name in chosen)

    def _config(self, shape: Shape, port: int, home: Path) -> str:
        lines = [f"{name} {value}" for name, value in shape.options.items()]
        named = {line.split()[0] for line in lines}
        for key in shape.host_keys:
            lines.append(f"HostKey {self.host_key(key)}")
            if shape.host_certificate:
                lines.append(f"HostCertificate {self.certify(self.host_key(key), '127.0.0.1', 'localhost', host=True)}")
        accepted = str(self.home / "authorized" / "%u") if shape.keys_accepted else "none"
        defaults = {
            "Port": str(port),
            "ListenAddress": "127.0.0.1",
            "PidFile": str(home / "pid"),
            "LogLevel": "DEBUG1",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "AuthorizedKeysFile": accepted,
            "TrustedUserCAKeys": str(self.user_ca.with_name("user-ca.pub")),
            "PermitRootLogin": "prohibit-password",
            "UseDNS": "no",
            "PrintMotd": "no",
            "PrintLastLog": "no",
        }
        lines += [f"{name} {value}" for name, value in defaults.items() if name not in named]
        if shape.sftp:
            lines.append(f"Subsystem sftp {_sftp_server()}")
        return "\n".join(lines) + "\n"

    def _new_user(self, shell: str, mark: str) -> Account:
        name = f"dw{self.tag}{shell}{mark}"
        home = self.home / "home" / name
        path = self._shell_path(shell)
        _until_unlocked(["useradd", "--create-home", "--home-dir", str(home), "--shell", path, "--no-log-init", name])
        entry = pwd.getpwnam(name)
        self._cleanup.callback(_remove_user, name, entry.pw_uid)
        password = secrets.token_urlsafe(12)
        # Without a usable password sshd takes the account for locked where PAM is off.
        _until_unlocked(["chpasswd"], given=f"{name}:{password}\n")
        return Account(name=name, uid=entry.pw_uid, home=home, shell=shell, password=password)

    def _shell_path(self, shell: str) -> str:
        if shell != "ash":
            named = SHELLS[shell]
            return named if named.startswith("/") else program(named)
        link = self.home / "ash"
        if not link.exists():
            link.symlink_to(program("busybox"))
        return str(link)


@contextmanager
def open_lab() -> Iterator[Lab]:
    """A lab in a directory of its own that other users can pass through. NotHere where there is no OpenSSH."""
    program("sshd")
    with ExitStack() as cleanup:
        home = Path(tempfile.mkdtemp(prefix="sshd-"))
        cleanup.callback(shutil.rmtree, home, ignore_errors=True)
        home.chmod(0o711)
        yield Lab(home, cleanup)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def descendants(pid: int) -> set[int]:
    """The processes below one, by /proc."""
    children: dict[int, set[int]] = {}
    for number, fields in _processes():
        children.setdefault(int(fields[1]), set()).add(number)
    found: set[int] = set()
    edge = {pid}
    while edge:
        edge = {child for parent in edge for child in children.get(parent, ())} - found
        found |= edge
    return found


def of_user(uid: int) -> set[int]:
    """The processes of a user."""
    found = set()
    for number, _ in _processes():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{number}").stat().st_uid == uid:
                found.add(number)
    return found


def kill(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(check: Callable[[], bool], what: str, *, within_s: float = START_S) -> None:
    """Poll; AssertionError names what did not come about."""
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline, f"did not happen in {within_s} s: {what}"
        time.sleep(0.01)


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Each process with the fields of its stat line that follow its name: state, parent, group, session."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text(encoding="ascii", errors="replace")
                yield int(entry.name), stat.rsplit(")", 1)[1].split()


def _wait_for(port: int, server: Sshd) -> None:
    def listens() -> bool:
        assert server.process.poll() is None, f"sshd did not start: {server.log()}"
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    wait_until(listens, "sshd listens")


def _myself(shell: str) -> Account:
    entry = pwd.getpwuid(os.geteuid())
    if Path(entry.pw_shell).name != shell:
        raise NotHere(f"not root: no account with {shell} can be made, so that login shell is not tested here")
    return Account(name=entry.pw_name, uid=entry.pw_uid, home=Path(entry.pw_dir), shell=shell, password="")


def _remove_user(name: str, uid: int) -> None:
    def gone() -> bool:
        left = of_user(uid)
        kill(left)
        return not left

    wait_until(gone, f"the processes of {name} end", within_s=STOP_S)
    _until_unlocked(["userdel", "--force", name])
    shutil.rmtree(f"/var/tmp/.doorward-{uid}", ignore_errors=True)  # noqa: S108 - where commands without a home go


def _until_unlocked(command: list[str], given: str = "") -> None:
    """Run it again while another process holds the lock of /etc/passwd."""
    deadline = time.monotonic() + START_S
    while True:
        done = subprocess.run(
            [program(command[0]), *command[1:]], input=given, capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode == 0 or (command[0] == "userdel" and "mail spool" in done.stderr):
            return
        assert "lock" in done.stderr, f"{command[0]}: {done.stderr}"
        assert time.monotonic() < deadline, f"{command[0]}: {done.stderr}"
        time.sleep(0.05)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        [program(command[0]), *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr.decode(errors='replace')}"


@cache
def _sftp_server() -> str:
    return next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")
