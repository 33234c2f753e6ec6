"""A policy over SSH hosts, requests for them, and what hosts said."""

from dataclasses import replace

from broker.contract.wire import JsonValue
from broker.core.asks import resolved
from broker.core.policy.model import Policy
from broker.core.ssh.frozen import Exec, FrozenSsh
from broker.core.ssh.outcome import HostKeySeen, MarkerState, SshFault, SshOutcome, SshPhase, StoreSeen
from broker.core.ssh.resolve import PutAsk, SshAsk
from broker.policyfiles.files import PolicyFile
from broker.policyfiles.load import load_policy

KEY_LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJVOWEPxPxcVcXoVh2S8Pk7Ssvt4BqJ9MxgyjkLsQd2O"
PIN = "SHA256:" + "A" * 43
KNOWN_HOSTS = f"web-1.example {KEY_LINE}\n"
SEEN = HostKeySeen(algorithm="ssh-ed25519", fingerprint=PIN, public=KEY_LINE)
STORE = StoreSeen(path="/home/deploy/.doorward", id="store-1", boot="boot-1")

SERVICES = """
version = 1

[services.web]
kind = "ssh"
credential = "deploy"
user = "deploy"
host_keys = "strict"
known_hosts = "web.known_hosts"
ad_hoc = ["exec", "put", "get"]

[services.web.hosts.web-1]
address = "web-1.example"

[services.web.hosts.web-2]
address = "10.0.4.14"
port = 2222
user = "root"
host_keys = "pinned:SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
jump = "bastion"
marker = "preferred"

[services.web.hosts.bastion]
address = "bastion.example"

[services.web.hosts.new-1]
address = "new-1.example"
host_keys = "accept-new"

[services.web.defaults]
max_bytes = 4096

[services.web.operations.restart]
command = ["systemctl", "restart", "{unit}"]
effect = "exec"
change_key = ["unit"]
title = "{unit} anew"
targets = ["unit"]

[services.web.operations.status]
command = "systemctl status {unit}"
effect = "read"

[services.web.operations.nginx]
command = ["systemctl", "restart", "nginx"]
effect = "exec"

[services.web.operations.wipe]
command = ["rm", "-rf", "/srv/{site}"]
effect = "write"
destructive = true
hosts = ["web-1"]
detach = true
marker = "required"
reconcile_command = ["test", "-d", "/srv/{site}"]

[services.web.operations.wait]
command = ["apt-get", "install", "{package}"]
effect = "exec"
success_when = "exit_code==`0` && stderr==''"
never_provable = true

[[services.web.operations.wait.exit_map]]
when = "exit_code==`100` && contains(stderr || '', 'Could not get lock')"
category = "confirmed_failure"
retry = "after_delay"
remote_effect = "none"
delay_s = 60
incomplete = ["SOURCE_UNAVAILABLE"]
examples.match = [{ exit_code = 100, stderr = "E: Could not get lock /var/lib/dpkg" }]
examples.no_match = [{ exit_code = 100, stderr = "E: Broken" }, { exit_code = 0 }]

[services.lab]
kind = "ssh"
hosts = { "web-1" = { address = "lab.example", user = "lab", host_keys = "accept-new" } }
marker = "off"
"""
RULES = """
[[rules]]
id = "look"
services = ["web"]
operations = ["status", "get"]
approval = "none"

[[rules]]
id = "restart"
services = ["web"]
operations = ["restart", "nginx", "wipe", "wait"]
approval = "per_call"

[[rules]]
id = "plain"
services = ["web"]
operations = ["exec"]
commands = ["uptime", "tail -n * **", "touch *"]
hosts = ["web-*", "new-1"]
users = ["deploy"]
approval = "session"

[[rules]]
id = "texts"
services = ["web"]
operations = ["exec"]
commands = ["echo a; echo b"]
shell = true
approval = "none"

[[rules]]
id = "confs"
services = ["web"]
operations = ["put"]
paths = ["/etc/nginx/**", "/~/notes/*"]
approval = "per_call"

[[rules]]
id = "never"
services = ["web"]
operations = ["exec"]
commands = ["touch /forbidden"]
approval = "deny"
"""


def ssh_policy(text: str = SERVICES + RULES, known_hosts: str = KNOWN_HOSTS) -> Policy:
    """The policy of this text, with the known_hosts file beside it."""
    return load_policy(
        [
            PolicyFile(name="web.toml", raw=text.encode()),
            PolicyFile(name="web.known_hosts", raw=known_hosts.encode()),
        ]
    )


POLICY = ssh_policy()


def command(text: str, *, host: str = "web/web-1", stdin: bytes = b"") -> SshAsk:
    return SshAsk(host=host, command=text.encode(), stdin=stdin)


def words(*argv: str, host: str = "web/web-1") -> SshAsk:
    return SshAsk(host=host, argv=argv)


def operation(name: str, *, host: str = "web/web-1", **args: JsonValue) -> SshAsk:
    return SshAsk(host=host, operation=name, args=args)


def put(path: str, content: bytes = b"x\n", *, mode: int | None = None, host: str = "web/web-1") -> SshAsk:
    return SshAsk(host=host, put=PutAsk(path=path, content=content, mode=mode))


def get(path: str, *, host: str = "web/web-1") -> SshAsk:
    return SshAsk(host=host, get=path)


def frozen(ask: SshAsk, policy: Policy = POLICY) -> FrozenSsh:
    found = resolved(policy, ask)
    assert isinstance(found, FrozenSsh), found
    return found


def run_of(ask: SshAsk) -> Exec:
    action = frozen(ask).action
    assert isinstance(action, Exec)
    return action


def ended(status: int = 0, stdout: bytes = b"", stderr: bytes = b"", **more: object) -> SshOutcome:
    """A command that came to its end, with its marker."""
    outcome = SshOutcome(
        phase=SshPhase.CLOSED,
        exit_status=status,
        stdout=stdout,
        stderr=stderr,
        stdout_bytes=len(stdout),
        stderr_bytes=len(stderr),
        output_complete=True,
        marker=MarkerState.STARTED,
        store=STORE,
        host_key=SEEN,
    )
    return replace(outcome, **more)  # type: ignore[arg-type]  # the names are the outcome's own


LOST = SshOutcome(phase=SshPhase.OUTPUT, fault=SshFault.CONNECTION_LOST, marker=MarkerState.STARTED, store=STORE)
REFUSED = SshOutcome(phase=SshPhase.CONNECTING, fault=SshFault.CONNECT_REFUSED)
TIMED_OUT = SshOutcome(phase=SshPhase.OUTPUT, fault=SshFault.TOTAL_TIMEOUT, marker=MarkerState.STARTED)
