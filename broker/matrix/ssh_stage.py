"""The SSH channel: which far side a run meets, how the policy knows it, and what is cut or killed while it runs.

What breaks before a command is taken is broken by ssh_faults.py; what breaks once it runs, on a real OpenSSH server.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix.cases import AD_HOC, Case
from broker.matrix.far_programs import FarHost
from broker.matrix.house import House, wait_until
from broker.matrix.http_stage import Placing
from broker.matrix.openssh import OpenSsh
from broker.matrix.orders import orders
from broker.matrix.records import Seen
from broker.matrix.ssh_faults import SshFaults, SshPlan, public_line
from broker.matrix.stage import Furnished, Run

KNOWN_HOSTS = "matrix.known_hosts"
NOWHERE = "nowhere.invalid"
REAL = frozenset({"after_command_started", "killed_remotely"})
BEGINS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """A far side as the policy has to know it."""

    address: str
    port: int
    user: str
    key: str


class SshStage:
    """See stage.Stage."""

    def __init__(self) -> None:
        self.far = SshFaults().__enter__()
        self._home = Path(tempfile.mkdtemp(prefix="doorward-far-"))
        self._servers: dict[str, OpenSsh] = {}
        self._logs: dict[str, FarHost] = {}  # of runs whose server has ended

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self.far.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def furnish(self, run: Run) -> Furnished:
        case = run.case
        point = "" if case.fault is None else case.fault.point
        home = self._home / run.name
        host = FarHost(home, run.name)
        host.install(case)
        placing = Placing(run=run, origin="", services={})
        told = orders(case, placing.value, service=AD_HOC)
        if point in REAL:
            server = self._servers[run.name] = OpenSsh(home, host, run.token)
            where = _Where(address="127.0.0.1", port=server.proxy.port, user=server.user, key=server.public_key)
            kind, secret = "ssh_key", {"private_key": server.private_key}
        else:
            refuses = {"auth_failed": "login", "channel_refused": "channel"}.get(point, "")
            self.far.arm(run.name, SshPlan(password=run.token, host=host, refuses=refuses))
            where = self._where(point, run.name)
            kind, secret = "ssh_password", {"password": run.token}
        return Furnished(
            orders=told,
            services={name: _placed(table, run, where) for name, table in _used(case).items()},
            origins=(f"ssh://{where.user}@{where.address}:{where.port}",),
            kind=kind,
            secret=secret,
            files={KNOWN_HOSTS: _known(point, where)},
        )

    def meanwhile(self, run: Run, house: House) -> None:
        """Once the command has begun, cut or kill what the case names, and bring back what would come back."""
        server, fault = self._servers.get(run.name), run.case.fault
        if server is None or fault is None or not wait_until(server.host.has_begun, limit_s=BEGINS_WITHIN_S):
            return
        match fault.kind:
            case "transport_cut":
                server.proxy.cut(reset=fault.side == "before")
            case "server_killed":
                server.kill_server()
                server.start()
            case "daemon_killed":
                house.restart(killed=True)
            case _:
                server.kill_commands()

    def afterwards(self, run: Run, house: House) -> None:  # noqa: ARG002 - as every stage has it
        """The server of a run ends with it."""
        server = self._servers.pop(run.name, None)
        if server is not None:
            server.close()
            self._logs[run.name] = server.host

    def events(self, run: Run) -> tuple[Seen, ...]:
        host = self._logs.get(run.name)
        return self.far.events(run.name) if host is None else host.events()

    def _where(self, point: str, user: str) -> _Where:
        address, port = "127.0.0.1", self.far.port
        match point:
            case "dns":
                address = NOWHERE
            case "refused":
                port = self.far.closed_port
            case "banner_timeout":
                port = self.far.silent_port
            case _:
                pass
        return _Where(address=address, port=port, user=user, key=self.far.public_key)


def _used(case: Case) -> dict[str, JsonObject]:
    told = {case.service, *(str(one.fields.get("service") or "") for one in case.agent.uses.values())}
    named = {name: table for name, table in case.services.items() if name in told}
    return named or {AD_HOC: {"kind": "ssh", "ad_hoc": ["exec"], "hosts": {"far": {}}}}


def _placed(table: JsonObject, run: Run, where: _Where) -> JsonObject:
    hosts = table.get("hosts")
    named: Mapping[str, JsonValue] = hosts if isinstance(hosts, Mapping) else {"far": {}}
    at: JsonObject = {"address": where.address, "port": where.port}
    return {
        **table,
        "credential": run.credential,
        "user": where.user,
        "host_keys": table.get("host_keys", "strict"),
        "known_hosts": KNOWN_HOSTS,
        "hosts": {name: {**(told if isinstance(told, Mapping) else {}), **at} for name, told in named.items()},
    }


def _known(point: str, where: _Where) -> str:
    """Lines that know the host, know another key of it, or know another host alone."""
    other = public_line(asyncssh.generate_private_key("ssh-ed25519"))
    match point:
        case "host_key_changed":
            return f"[{where.address}]:{where.port} {other}\n"
        case "host_key_unknown":
            return f"other.invalid {other}\n"
        case _:
            return f"[{where.address}]:{where.port} {where.key}\n"
