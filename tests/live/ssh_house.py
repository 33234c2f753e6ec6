"""A real daemon and real sshd together: a policy over the lab's servers, a key in the vault, an agent, a human."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.house import Agent, House, until
from tests.live.sshd import Account, Lab, Sshd, wait_until

POLICY = """
version = 1

[[rules]]
id = "look"
services = ["web"]
operations = ["uptime", "get", "job"]
approval = "none"

[[rules]]
id = "restart"
services = ["web"]
operations = ["note"]
approval = "per_call"
reason = "Notes on the web hosts"

[[rules]]
id = "scripts"
services = ["web"]
operations = ["exec"]
users = ["{user}"]
hosts = ["web-*"]
commands = ["sh *", "sleep *", "touch *", "echo **", "cat **"]
approval = "session"

[[rules]]
id = "texts"
services = ["web"]
operations = ["exec"]
commands = {texts}
shell = true
input = true
approval = "none"

[[rules]]
id = "files"
services = ["web"]
operations = ["put"]
approval = "none"

[[rules]]
id = "never"
services = ["web"]
commands = ["touch /forbidden"]
approval = "deny"

[services.web]
kind = "ssh"
credential = "deploy"
user = "{user}"
{trust}
ad_hoc = ["exec", "put", "get"]

[services.web.hosts.web-1]
address = "127.0.0.1"
port = {port}

[services.web.operations.uptime]
command = ["uptime"]
effect = "read"

[services.web.operations.note]
command = ["touch", "{{name}}"]
effect = "write"
change_key = ["name"]

[services.web.operations.job]
command = ["sh", "{{script}}"]
effect = "exec"
detach = true
"""


@dataclass(frozen=True, kw_only=True)
class SshHouse:
    house: House
    lab: Lab
    server: Sshd
    account: Account

    def agent(self) -> Agent:
        return self.house.agent()

    def here(self, name: str) -> Path:
        """A path on the host, which is this machine."""
        return self.account.home / name

    def text(self, name: str) -> str:
        wait_until(self.here(name).exists, f"{name} is written")
        return self.here(name).read_text(encoding="utf-8")

    def logins(self) -> int:
        """How many logins the server has taken so far."""
        return self.server.log().count("Accepted publickey")

    def connections(self) -> int:
        return self.server.log().count("Connection from")


def run(agent: Agent, **request: Any) -> dict[str, Any]:
    """The envelope of a command."""
    value: dict[str, Any] = agent.ask("POST", "/v1/ssh", {"host": "web-1", **request})["value"]
    return value


def begin(agent: Agent, **request: Any) -> int:
    return agent.begin("POST", "/v1/ssh", {"host": "web-1", **request})


def gist(envelope: dict[str, Any]) -> tuple[str, str, str, str]:
    return (envelope["category"], envelope["code"], envelope["retry"], envelope["remote_effect"])


def reconcile(agent: Agent, correlation_id: str) -> dict[str, Any]:
    value: dict[str, Any] = agent.ask("POST", "/v1/reconcile", {"correlation_id": correlation_id})["value"]
    return value


def look_up_all(at: SshHouse) -> None:
    """A human has everything in doubt looked up."""
    for doubt in at.house.human.client.operations(state="in_doubt"):
        at.house.human.client.reconcile(str(doubt["correlation_id"]))


def settled(agent: Agent, correlation_id: str, *, limit_s: float = 60.0) -> dict[str, Any]:
    """Reconcile until it does not run any more."""

    def over() -> dict[str, Any]:
        told = reconcile(agent, correlation_id)
        return {} if told["code"] == "still_running" else told

    return until(over, limit_s=limit_s, every_s=0.2)


@contextmanager
def open_ssh_house(
    home: Path,
    lab: Lab,
    server: Sshd,
    account: Account,
    *,
    trust: str = "",
    texts: tuple[str, ...] = ("true; true",),
    port: int = 0,
) -> Iterator[SshHouse]:
    """`trust` are policy lines about host keys; left out, the server's own keys are in a known_hosts file.

    `port` is dialled in the server's stead.
    """
    port = port or server.port
    with ExitStack() as stack:
        house = stack.enter_context(House(home))
        house.init()
        if not trust:
            trust = 'host_keys = "strict"\nknown_hosts = "lab.known_hosts"'
            lines = lab.known_hosts(server).replace(f":{server.port} ", f":{port} ")
            house.human.write_policy("lab.known_hosts", lines)
        house.open()
        add_key(house, lab, f"ssh://{account.name}@127.0.0.1:{port}")
        spelled = "[" + ", ".join(_toml(text) for text in texts) + "]"
        house.human.write_policy("web.toml", POLICY.format(user=account.name, port=port, trust=trust, texts=spelled))
        house.human.trust()
        yield SshHouse(house=house, lab=lab, server=server, account=account)


def add_key(house: House, lab: Lab, *origins: str, name: str = "deploy") -> None:
    house.human.client.add_credential(
        {"name": name, "kind": "ssh_key", "origins": list(origins)},
        {"private_key": lab.user_key.read_text(encoding="ascii")},
        house.key,
    )


def readable_by_all_of(pid: int) -> Iterator[tuple[Path, bytes]]:
    """What another process of the user could read of a process: arguments, environment, its files."""
    at = Path(f"/proc/{pid}")
    for name in ("cmdline", "environ"):
        try:
            yield at / name, (at / name).read_bytes()
        except OSError:
            continue


def slept(seconds: float) -> None:
    """Give the far side time; used where nothing may happen."""
    time.sleep(seconds)


def processes() -> list[int]:
    return [int(at.name) for at in Path("/proc").iterdir() if at.name.isdigit()]


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
