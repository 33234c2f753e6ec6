"""Exactly one key is offered, the host is known before that, nothing is forwarded, and the remote runs nothing here."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from broker.core.ssh.frozen import Exec
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import SshFault, SshOutcome
from broker.executors.ssh import SshExecutor
from tests.fakes import odd_ssh_server as odd
from tests.fakes.odd_ssh_server import odd_server
from tests.fakes.ssh_calls import OneLogin, Trusting, bare, frozen, host, key_secret, permit
from tests.live.sshd import Account, Lab, Sshd, open_lab

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


@pytest.fixture(scope="module")
def account(lab: Lab) -> Account:
    return lab.account("bash")


@pytest.fixture
def server(lab: Lab) -> Sshd:
    """One of its own for each test, which reads its log."""
    return lab.start()


@pytest.fixture
async def executor(lab: Lab) -> AsyncIterator[SshExecutor]:
    made = SshExecutor(secrets=OneLogin(key_secret(lab.user_key)), trust=Trusting())
    yield made
    await made.close()


async def run(executor: SshExecutor, target: SshHost, command: str = "true") -> SshOutcome:
    return await executor.execute(permit(frozen(target, bare(command))))


class Listener:
    """An agent's socket that counts who connects to it."""

    def __init__(self, path: Path) -> None:
        self.visits = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(8)
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:
                return
            self.visits += 1
            visitor.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def ambient(tmp_path: Path, lab: Lab, server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Listener]]:
    """A user with everything in its home and environment that an SSH client could pick up."""
    touched = tmp_path / "touched"
    folder = tmp_path / ".ssh"
    folder.mkdir(mode=0o700)
    lines = [
        f'Match exec "touch {touched}-match"',
        "Host *",
        f"  ProxyCommand touch {touched}-proxy",
        "  ForwardAgent yes",
    ]
    lines += ["  User somebody-else", "  SendEnv CANARY", f"  IdentityFile {folder}/id_ed25519", "  ForwardX11 yes"]
    (folder / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "known_hosts").write_text(lab.known_hosts(server), encoding="utf-8")
    for name in ("id_ed25519", "id_rsa", "id_ecdsa"):
        (folder / name).write_bytes(lab.key(f"ambient-{name}").read_bytes())
    agent = Listener(tmp_path / "agent")
    for name, value in {"HOME": str(tmp_path), "SSH_AUTH_SOCK": str(tmp_path / "agent"), "DISPLAY": ":7"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SSH_ASKPASS", f"/usr/bin/touch {touched}-askpass")
    monkeypatch.setenv("CANARY", "canary-environment")
    yield tmp_path, agent
    agent.close()


async def test_nothing_of_the_user_s_is_used(
    executor: SshExecutor, lab: Lab, server: Sshd, account: Account, ambient: tuple[Path, Listener]
) -> None:
    home, agent = ambient
    known = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    seen = await run(executor, known, "env; id -un")
    unknown = await run(executor, host(server.port, account.name), "true")

    assert (0, SshFault.HOST_KEY_UNKNOWN) == (seen.exit_status, unknown.fault)
    assert account.name.encode() in seen.stdout
    assert b"canary-environment" not in seen.stdout
    assert [] == [entry.name for entry in home.iterdir() if entry.name.startswith("touched")]
    assert 0 == agent.visits


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
async def test_exactly_one_key_is_offered(
    lab: Lab, server: Sshd, account: Account, ambient: tuple[Path, Listener], kind: str
) -> None:
    del ambient
    key = lab.key(f"unwelcome-{kind}", kind=kind)
    executor = SshExecutor(secrets=OneLogin(key_secret(key)), trust=Trusting())
    seen = await run(executor, host(server.port, account.name, known_hosts=lab.known_hosts(server)))
    await executor.close()
    offers = [line for line in server.log().splitlines() if "userauth-request" in line and "publickey" in line]

    assert SshFault.LOGIN_REJECTED is seen.fault
    assert 1 == len(offers)


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
async def test_a_certificate_with_its_key_is_one_offer(lab: Lab, server: Sshd, account: Account, kind: str) -> None:
    key = lab.key(f"certified-{kind}", kind=kind)
    secret = key_secret(key, lab.certify(key, "somebody-else"))
    executor = SshExecutor(secrets=OneLogin(secret), trust=Trusting())
    seen = await run(executor, host(server.port, account.name, known_hosts=lab.known_hosts(server)))
    await executor.close()
    offers = [line for line in server.log().splitlines() if "userauth-request" in line and "publickey" in line]

    assert (SshFault.LOGIN_REJECTED, 1) == (seen.fault, len(offers))


async def test_a_host_that_is_not_known_sees_no_login(executor: SshExecutor, server: Sshd, account: Account) -> None:
    seen = await run(executor, host(server.port, account.name))

    assert SshFault.HOST_KEY_UNKNOWN is seen.fault
    assert "userauth-request" not in server.log()
    assert account.name not in server.log()


async def test_neither_agent_nor_x11_nor_environment_goes_along(
    executor: SshExecutor, lab: Lab, server: Sshd, account: Account, ambient: tuple[Path, Listener]
) -> None:
    _, agent = ambient
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    seen = await run(executor, target, 'echo "[$SSH_AUTH_SOCK][$DISPLAY][$CANARY]"')
    asked = [line for line in server.log().splitlines() if "server_input_channel_req" in line]

    assert b"[][][]\n" == seen.stdout
    assert ["exec"] == [line.split("request ")[1].split()[0] for line in asked]
    assert 0 == agent.visits


async def test_a_server_that_reaches_back_opens_nothing(executor: SshExecutor) -> None:
    async with odd_server(odd.ask_everything) as server:
        seen = await run(executor, host(server.port, "anybody", known_hosts=server.known_hosts))
        refusals = server.connections[0].refusals

    assert 0 == seen.exit_status
    assert 2 == len(refusals)
    assert "opened" not in refusals


async def test_no_key_material_is_in_the_environment_or_the_arguments_of_a_process(
    executor: SshExecutor, lab: Lab, server: Sshd, account: Account
) -> None:
    secret = lab.user_key.read_bytes().splitlines()[2]
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    action = Exec(command=b"cat /proc/self/environ; tr '\\0' ' ' </proc/self/cmdline; cat /proc/$PPID/environ")
    seen = await executor.execute(permit(frozen(target, action)))
    found = await asyncio.to_thread(processes_with, secret)

    assert secret not in seen.stdout + seen.stderr
    assert [] == found


def processes_with(needle: bytes) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            for part in ("cmdline", "environ"):
                try:
                    if needle in (entry / part).read_bytes():
                        found.append(f"{entry.name}/{part}")
                except OSError:
                    continue
    return found
