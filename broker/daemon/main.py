"""The composition root: builds every object once, in reading order, and is the only place that knows them all.

Runs until told to stop; then it takes nothing new, ends what waits, lets work in flight finish, locks and leaves.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from aiohttp import web

from broker.approvals.desk import Desk
from broker.audit import AuditError
from broker.audit.pin import AuditPaths, Pin
from broker.audit.writer import AuditWriter
from broker.client.places import Places
from broker.contract.openapi import document
from broker.contract.schemas import UnknownSchemaError, schema
from broker.contract.wire import JsonObject
from broker.core.approval import Happening
from broker.core.events import AuditEvent, EventName
from broker.daemon import sockets, statehold
from broker.daemon.clocks import SystemClock
from broker.daemon.custody import Custody
from broker.daemon.engine import PipelineEngine
from broker.daemon.journal import Journal
from broker.daemon.office import DaemonOffice
from broker.daemon.premises import Premises
from broker.daemon.rulebook import Rulebook
from broker.daemon.statehold import StateError
from broker.executors.https.client import HttpsExecutor
from broker.operations.ledger import LedgerError, LedgerStore
from broker.operations.reconcile import Reconciler
from broker.pipeline import Pipeline
from broker.ports import AuditLog, AuditUnwritable, Executor, Ledger
from broker.server.agent_routes import AgentApi, envelopes
from broker.server.challenges import Challenges
from broker.server.connections import SWEEP_EVERY_S, Connections
from broker.server.control_routes import ControlApi, control_errors
from broker.server.events import EventHub
from broker.server.peer import boot_id
from broker.server.runs import RunTable
from broker.server.sessions import Ended, SessionRegistry
from broker.vault import Vault, VaultError, verify

LOG = logging.getLogger("doorward.daemon")
DRAIN_S = 30.0
CLIENT_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Hooks for tests that put something between the pipeline and its ports. Production uses none."""

    audit: Callable[[AuditLog], AuditLog] = lambda port: port
    ledger: Callable[[Ledger], Ledger] = lambda port: port
    executor: Callable[[Executor], Executor] = lambda port: port


def program_version() -> str:
    try:
        return version("doorward")
    except PackageNotFoundError:
        return "0.0.0"


async def serve(
    places: Places, environ: dict[str, str], *, transient: bool = False, wiring: Wiring | None = None
) -> int:
    """Run a daemon over the state in `places`; returns the exit code. Raises StateError where it can't start."""
    statehold.prepare(places)
    statehold.hold(places)
    if not places.vault.exists():
        raise StateError(f"there is no vault in {places.data} yet. Run: doorward setup NAME (or: doorward init)")
    passed = sockets.inherited(environ)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as tasks:
        premises, office, runners = await _build(places, tasks, wiring or Wiring(), transient=transient)
        agents, control = runners
        if not transient:
            await _listen(agents, passed.get("agent") or sockets.listen(places.agent_socket))
        await _listen(control, passed.get("control") or sockets.listen(places.control_socket))
        sweeping = [tasks.create_task(_sweep(runner)) for runner in runners]
        sockets.notify(environ, "READY=1\nSTATUS=serving")
        print("ready", flush=True)  # noqa: T201 - whoever started this daemon waits for the word
        LOG.info("serving", extra={"state": premises.vault.state.value, "seq": premises.writer.head[0]})
        await stop.wait()
        sockets.notify(environ, "STOPPING=1")
        LOG.info("stopping")
        for task in sweeping:
            task.cancel()
        await _stop(premises, office, runners)
    return 0


async def _build(
    places: Places, tasks: asyncio.TaskGroup, wiring: Wiring, *, transient: bool
) -> tuple[Premises, DaemonOffice, tuple["Listener", "Listener"]]:
    clock = SystemClock()
    audit_paths = AuditPaths(directory=places.audit, pin=places.pin, anchor=places.anchor_head, seeds=places.seeds)
    writer = await asyncio.to_thread(AuditWriter.open, audit_paths, clock=clock.now_ms)
    journal = Journal(writer)
    vault = await asyncio.to_thread(Vault.open, places.vault)
    custody = Custody(vault)
    rulebook = Rulebook(places)
    ledger = await asyncio.to_thread(LedgerStore, places.ledger, now_ms=clock.now_ms)
    hub = EventHub()
    runs = RunTable(tasks=tasks, monotonic_s=clock.monotonic_s)
    challenges = Challenges(monotonic_s=clock.monotonic_s)
    executor = HttpsExecutor(
        secrets=custody,
        body_limit_bytes=lambda: rulebook.current().limits.body_bytes,
        version=program_version(),
    )
    at_agents, at_control = (Connections(boot=boot_id(), monotonic_s=clock.monotonic_s) for _ in range(2))

    def on_session_end(session_id: str, why: Ended) -> None:
        happening = {
            Ended.LOCKED: Happening.LOCKED,
            Ended.FROZEN: Happening.FROZEN,
            Ended.STOPPED: Happening.STOPPING,
        }.get(why, Happening.SESSION_ENDED)
        desk.void(happening, session_id=session_id)

    sessions = SessionRegistry(
        audit=journal,
        clock=clock,
        policies=rulebook,
        ended=on_session_end,
        changed=lambda session_id, state: hub.publish("session", {"id": session_id, "state": state}),
    )
    desk = Desk(
        audit=journal,
        clock=clock,
        log_id=vault.log_id,
        verify=lambda message, signature: verify(vault.approver_keys(), message, signature),
        present=lambda: hub.listeners > 0 or len(challenges) > 0,
        changed=lambda card_id, state: hub.publish("approval", {"id": card_id, "state": state}),
        mute=sessions.mute,
    )
    pipeline = Pipeline(
        policies=rulebook,
        vault=custody,
        sessions=sessions,
        desk=desk,
        executor=wiring.executor(executor),
        audit=wiring.audit(journal),
        ledger=wiring.ledger(ledger),
        runs=runs,
        clock=clock,
    )
    engine = PipelineEngine(
        pipeline=pipeline,
        reconciler=Reconciler(ledger=ledger, policies=rulebook, audit=journal, clock=clock),
        ledger=ledger,
        runs=runs,
        desk=desk,
        sessions=sessions,
        policies=rulebook,
        vault=custody,
        clock=clock,
    )
    premises = Premises(
        places=places,
        audit_paths=audit_paths,
        pin=Pin.load(places.pin),
        writer=writer,
        journal=journal,
        vault=vault,
        custody=custody,
        rulebook=rulebook,
        ledger=ledger,
        executor=executor,
        sessions=sessions,
        desk=desk,
        runs=runs,
        hub=hub,
        challenges=challenges,
        engine=engine,
        clock=clock,
        version=program_version(),
    )
    office = DaemonOffice(premises)
    agent_api = AgentApi(
        engine=engine,
        connections=at_agents,
        sessions=sessions,
        runs=runs,
        policies=rulebook,
        vault=custody,
        clock=clock,
        version=program_version(),
        openapi=lambda: document("agent"),
        schema=_schema,
    )
    control_api = ControlApi(
        office=office,
        connections=at_control,
        sessions=sessions,
        policies=rulebook,
        challenges=challenges,
        hub=hub,
        now_ms=clock.now_ms,
    )
    await _announce(premises, transient=transient)
    return (
        premises,
        office,
        (
            await _listener(envelopes, agent_api.routes(), at_agents),
            await _listener(control_errors, control_api.routes(), at_control),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One socket's server and the connections behind it."""

    runner: web.AppRunner
    connections: Connections


async def _listener(middleware: object, routes: list[web.RouteDef], connections: Connections) -> Listener:
    app = web.Application(client_max_size=CLIENT_MAX, middlewares=[middleware])  # type: ignore[list-item]  # aiohttp's own type is narrower than what it takes
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=2.0, keepalive_timeout=75)
    await runner.setup()
    return Listener(runner=runner, connections=connections)


async def _listen(listener: Listener, endpoint: object) -> None:
    await web.SockSite(listener.runner, endpoint).start()  # type: ignore[arg-type]  # a socket.socket


async def _sweep(listener: Listener) -> None:
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        server = listener.runner.server
        if server is not None:
            listener.connections.sweep(server.connections)


async def _announce(premises: Premises, *, transient: bool) -> None:
    """The first records of this run: that it started, what it recovered, and what it found in doubt."""
    at = premises
    await at.record(
        EventName.DAEMON_STARTED, version=at.version, transient=transient, recovered=str(at.writer.recovered or "")
    )
    for correlation_id in await asyncio.to_thread(at.ledger.interrupted):
        at.journal.post(
            AuditEvent(
                name=EventName.OPERATION_IN_DOUBT,
                at_ms=at.clock.now_ms(),
                correlation_id=correlation_id,
                fields={"why": "the daemon ended before the outcome was recorded"},
            )
        )


async def _stop(premises: Premises, office: DaemonOffice, runners: tuple[Listener, Listener]) -> None:
    """Void what waits, finish what is under way, lock, record the end."""
    at = premises
    at.desk.void(Happening.STOPPING)
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            await at.runs.idle()
    at.hub.close()
    with suppress(Exception):  # whatever fails here, the daemon still has to end
        await office.lock()
    for listener in runners:
        await listener.runner.cleanup()
        listener.connections.close()
    at.sessions.close()
    await at.executor.close()
    with suppress(AuditUnwritable):
        await at.journal.append(AuditEvent(name=EventName.DAEMON_STOPPED, at_ms=at.clock.now_ms()))
    await asyncio.to_thread(at.writer.close)
    at.ledger.close()
    with suppress(VaultError):
        await asyncio.to_thread(at.vault.close)


def _schema(name: str) -> JsonObject | None:
    try:
        return schema(name)
    except UnknownSchemaError:
        return None


def run(places: Places, environ: dict[str, str], *, transient: bool = False, wiring: Wiring | None = None) -> int:
    """Run until stopped; prints one line and returns 1 where the daemon can't start."""
    code = 1
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(serve(places, environ, transient=transient, wiring=wiring))
    except* (StateError, AuditError, VaultError, LedgerError) as group:
        for error in group.exceptions:
            print(f"doorward: {error}", file=sys.stderr)  # noqa: T201 - the one line that says why
    return code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster event loop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - an extra; costs 40 ms to load, wanted only here
    except ImportError:
        return None
    return uvloop.new_event_loop
