"""Both sockets in the test's own event loop: real servers and doors, real sessions and runs, scripted parts behind.

The test's own process is the peer, and whatever it starts.
"""

import asyncio
import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typing_extensions import override

from broker.contract.key_id import key_id
from broker.contract.reasons import Category, LockReason, Retry
from broker.contract.result import GateReport
from broker.contract.statements import control_bytes, statement_bytes
from broker.contract.wire import JsonObject
from broker.core import reply
from broker.core.asks import Asked
from broker.core.identity import Caller
from broker.core.ledger import Attempt
from broker.core.refusals import Refusal
from broker.core.reply import Frame
from broker.core.resolve import HttpAsk
from broker.daemon import sockets
from broker.daemon.listeners import Listener, listener
from broker.server import faults
from broker.server.agent_routes import AgentApi, envelopes
from broker.server.challenges import Challenges
from broker.server.connections import Connections
from broker.server.control_routes import ControlApi, control_errors
from broker.server.credential_ask import CredentialAsk
from broker.server.door import DoorLimits
from broker.server.events import EventHub
from broker.server.floods import Floods
from broker.server.office import Refused
from broker.server.peer import boot_id
from broker.server.runs import RunTable
from broker.server.sessions import Ended, SessionRegistry
from broker.steps import Received
from broker.vault import verify
from tests.fakes import market
from tests.fakes.audit_log import MemoryAudit
from tests.fakes.clock import SetClock
from tests.fakes.policy_port import HeldPolicy
from tests.fakes.vault_ports import MemoryVault

LOG_ID = "log-of-a-face"
ROOMY = DoorLimits(connections=4096, per_process=4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an envelope, or of an error of control.sock."""
        found: str = self.value["error"]["code"] if "error" in self.value else self.value["code"]
        return found


class Wire:
    """One connection, as raw as it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, octets: bytes) -> None:
        self.writer.write(octets)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        octets = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: face", f"content-length: {len(octets)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode() + octets)

    async def answer(self, limit_s: float = 30.0) -> Told:
        async with asyncio.timeout(limit_s):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
            return Told(status=int(head[0].split()[1]), headers=headers, body=body)

    async def ended(self, limit_s: float = 30.0) -> bool:
        """True once the other side closed it."""
        async with asyncio.timeout(limit_s):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    def hang_up(self) -> None:
        self.writer.transport.abort()


class Face:
    """What both sockets have in common."""

    def __init__(self, directory: Path, *, limits: DoorLimits = ROOMY) -> None:
        self.path = str(directory / "sock")
        self.clock = SetClock()
        self.audit = MemoryAudit()
        self.policies = HeldPolicy(market.POLICY)
        self.vault = MemoryVault()
        self.ended: list[tuple[str, Ended]] = []
        self.changes: list[tuple[str, str]] = []
        self.sessions = SessionRegistry(
            audit=self.audit,
            clock=self.clock,
            policies=self.policies,
            ended=lambda session_id, why: self.ended.append((session_id, why)),
            changed=lambda session_id, state: self.changes.append((session_id, state)),
        )
        self.connections = Connections(boot=boot_id())
        self.tasks = asyncio.TaskGroup()
        self.runs = RunTable(tasks=self.tasks, monotonic_s=self.clock.monotonic_s)
        self.listener: Listener | None = None
        self._limits = limits
        self._serving: asyncio.Task[None] | None = None
        self._wires: list[Wire] = []

    async def build(self) -> Listener:
        raise NotImplementedError

    async def listen(self, middleware: object, routes: Any, turned_away: bytes) -> Listener:
        return await listener(middleware, routes, self.connections, self._limits, turned_away, self.clock.monotonic_s)

    async def __aenter__(self) -> Self:
        await self.tasks.__aenter__()
        self.listener = await self.build()
        self._endpoint = sockets.listen(self.path)
        self._serving = self.tasks.create_task(self.listener.door.serve(self._endpoint))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._serving is not None
        assert self.listener is not None
        self._serving.cancel()
        self.runs.abandon()
        for wire in self._wires:
            wire.hang_up()
        await self.listener.close()
        self.sessions.close()
        self._endpoint.close()
        await self.tasks.__aexit__(kind, error, at)

    async def wire(self) -> Wire:
        made = Wire(*await asyncio.open_unix_connection(self.path))
        self._wires.append(made)
        return made

    async def ask(self, method: str, path: str, body: object = None, **more: Any) -> Told:
        """One request on a connection of its own."""
        wire = await self.wire()
        wire.ask(method, path, body, **more)
        told = await wire.answer()
        wire.hang_up()
        return told

    async def until(self, true: Callable[[], bool], limit_s: float = 30.0) -> None:
        async with asyncio.timeout(limit_s):
            while not true():  # noqa: ASYNC110 - it waits for whatever a test names
                await asyncio.sleep(0.002)


def fine(correlation_id: str) -> JsonObject:
    """An envelope like any other."""
    refusal = Refusal(category=Category.POLICY_DENIED, code="no_rule", retry=Retry.NEVER, message="No.")
    return reply.refused(Frame(correlation_id=correlation_id), refusal, GateReport()).to_json()


class ScriptedEngine:
    """Implements agent_routes.Engine: takes what comes, and ends it when it may."""

    def __init__(self, runs: RunTable) -> None:
        self.actions: list[Received] = []
        self.reconciled: list[str] = []
        self.wanted: list[CredentialAsk] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.asks_a_human = False
        self.sends = False
        self.withdrawn: set[str] = set()
        self.fault: Exception | None = None
        self.attempts: dict[str, Attempt] = {}
        self._runs = runs

    async def perform(self, action: Received) -> JsonObject:
        self.actions.append(action)
        if isinstance(action.ask, Refusal):
            return reply.refused(Frame(correlation_id=action.correlation_id), action.ask, GateReport()).to_json()
        return await self._work(action.correlation_id)

    async def reconcile(self, correlation_id: str, target: str, caller: Caller) -> JsonObject:  # noqa: ARG002 - the port's
        self.reconciled.append(target)
        return await self._work(correlation_id)

    async def want(self, ask: CredentialAsk) -> JsonObject:
        self.wanted.append(ask)
        return await self._work(ask.correlation_id)

    async def _work(self, correlation_id: str) -> JsonObject:
        await self.may_begin.wait()
        if self.asks_a_human:
            self._runs.waits(
                correlation_id, {**fine(correlation_id), "category": "approval_pending", "code": "waiting"}
            )
            self._runs.asked(correlation_id)
        if self.sends:
            self._runs.dispatched(correlation_id, is_write=True)
        while not self.may_end.is_set() and correlation_id not in self.withdrawn:  # noqa: ASYNC110 - either of two
            await asyncio.sleep(0.001)
        if self.fault is not None:
            raise self.fault
        return fine(correlation_id)

    async def explain(self, caller: Caller, ask: Asked) -> JsonObject:
        service = ask.service if isinstance(ask, HttpAsk) else None
        return {"decision": "allow", "agent": caller.agent, "service": service}

    async def recorded(self, correlation_id: str, caller: Caller) -> Attempt | None:
        attempt = self.attempts.get(correlation_id)
        return attempt if attempt is not None and attempt.anchor_id == caller.anchor.id else None

    def withdraw(self, correlation_id: str) -> bool:
        if self.sends:
            return False
        self.withdrawn.add(correlation_id)
        return True


class AgentFace(Face):
    """agent.sock over a scripted engine."""

    def __init__(self, directory: Path, *, limits: DoorLimits = ROOMY, read_s: float = 30.0) -> None:
        super().__init__(directory, limits=limits)
        self.engine = ScriptedEngine(self.runs)
        self._read_s = read_s

    @override
    async def build(self) -> Listener:
        api = AgentApi(
            engine=self.engine,
            connections=self.connections,
            sessions=self.sessions,
            runs=self.runs,
            floods=Floods(audit=self.audit, clock=self.clock),
            policies=self.policies,
            vault=self.vault,
            clock=self.clock,
            version="1.2.3",
            openapi=lambda: {"openapi": "3.1.0"},
            schema=lambda name: {"title": name} if name == "result" else None,
            read_s=self._read_s,
        )
        return await self.listen(envelopes, api.routes(), faults.TOO_MANY_AGENTS)

    async def act(self, **request: Any) -> Told:
        return await self.ask("POST", "/v1/http", {"service": "market", "method": "GET", "path": "/x", **request})


@dataclass
class ScriptedOffice:
    """Implements server.office.Office: remembers what it was told to do."""

    approver: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    log_id: str = LOG_ID
    term: int = 7
    done: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    refusals: list[Refused] = field(default_factory=list)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    moves_term: bool = False

    def key_of(self, message: bytes, signature: bytes) -> str | None:
        return verify((self.approver.public_key().public_bytes_raw(),), message, signature)

    def refused(self, refused: Refused) -> None:
        self.refusals.append(refused)

    def openapi(self) -> JsonObject:
        return {"openapi": "3.1.0"}

    async def session_opened(self, key_id: str, pid: int) -> None:
        self.done.append(("session_opened", (key_id, pid)))
        self.term += self.moves_term

    def approvals(self, *given: Any) -> JsonObject:
        return self._did("approvals", given)

    def approval(self, *given: Any) -> JsonObject:
        return self._did("approval", given)

    async def lock(self, reason: LockReason = LockReason.ASKED) -> JsonObject:
        """Half of it at once, the other half when it may."""
        self._did("lock_begun", ())
        await self.may_end.wait()
        return self._did("lock", (reason,))

    def __getattr__(self, name: str) -> Callable[..., Awaitable[JsonObject]]:
        """Every other verb does nothing but to be remembered."""

        async def verb(*given: Any, **named: Any) -> JsonObject:
            return self._did(name, (*given, *named.values()))

        return verb

    def names(self) -> list[str]:
        return [name for name, _ in self.done]

    def _did(self, name: str, what: tuple[Any, ...]) -> JsonObject:
        self.done.append((name, what))
        return {"did": name}


class ControlFace(Face):
    """control.sock over a scripted Office."""

    def __init__(self, directory: Path, *, limits: DoorLimits = ROOMY, read_s: float = 30.0) -> None:
        super().__init__(directory, limits=limits)
        self.office: Any = ScriptedOffice()
        self.hub = EventHub()
        self.challenges = Challenges(monotonic_s=self.clock.monotonic_s)
        self._read_s = read_s
        self.api: ControlApi | None = None

    @override
    async def build(self) -> Listener:
        self.api = ControlApi(
            office=self.office,
            connections=self.connections,
            sessions=self.sessions,
            policies=self.policies,
            challenges=self.challenges,
            hub=self.hub,
            tasks=self.tasks,
            now_ms=self.clock.now_ms,
            read_s=self._read_s,
        )
        return await self.listen(control_errors, self.api.routes(), faults.TOO_MANY_HUMANS)

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.hub.close()
        self.challenges.close_all()
        self.office.may_end.set()
        await super().__aexit__(kind, error, at)

    @property
    def key_id(self) -> str:
        return key_id(self.office.approver.public_key().public_bytes_raw())

    async def nonce(self) -> str:
        found: str = (await self.ask("GET", "/v1/nonce")).value["nonce"]
        return found

    def sign(self, message: bytes, key: Ed25519PrivateKey | None = None) -> str:
        return base64.b64encode((key or self.office.approver).sign(message)).decode()

    async def open_session(self, *, pid: int, **changed: Any) -> Told:
        """Answer a challenge; `changed` parts of it are signed as given."""
        nonce = await self.nonce()
        values = {"nonce": nonce, "pid": pid, "log_id": LOG_ID, **changed}
        return await self.ask(
            "POST", "/v1/control-session", {"nonce": nonce, "signature": self.sign(control_bytes(values))}
        )

    async def statement(self, verb: str, params: Mapping[str, Any], **changed: Any) -> dict[str, Any]:
        return {
            "verb": verb,
            "params": params,
            "nonce": await self.nonce(),
            "log_id": LOG_ID,
            "vault_term": self.office.term,
            **changed,
        }

    def signed(self, statement: dict[str, Any], key: Ed25519PrivateKey | None = None, **more: Any) -> dict[str, Any]:
        return {"statement": statement, "signature": self.sign(statement_bytes(statement), key), **more}


def fresh_nonce() -> str:
    return secrets.token_hex(16)
