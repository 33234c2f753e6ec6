"""The life of a daemon: take the state, build, serve, and at the end leave nothing half done.

Runs until told to stop; then it takes nothing new, ends what waits, lets work in flight finish, locks and leaves.
"""

import asyncio
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from broker.audit import AuditError
from broker.client.places import Places
from broker.contract.reasons import LockReason, VaultState
from broker.core.approval import Happening
from broker.core.events import AuditEvent, EventName
from broker.daemon import sockets, statehold
from broker.daemon.assembly import House, Wiring, build
from broker.daemon.desktop import NOTHING_WISHED, DesktopWishes
from broker.daemon.idle import lock_when_idle
from broker.daemon.logs import quiet_loop
from broker.daemon.statehold import StateError
from broker.daemon.upkeep import notice_dead_log, upkeep
from broker.operations.ledger import LedgerError
from broker.ports import AuditUnwritable
from broker.server.faults import ControlError
from broker.vault import VaultError

__all__ = ["DesktopWishes", "Wiring", "run", "serve"]

LOG = logging.getLogger("doorward.daemon")
DRAIN_S = 30.0
DESCRIPTORS_MAX = 65_536
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def serve(
    places: Places,
    environ: dict[str, str],
    *,
    transient: bool = False,
    wiring: Wiring | None = None,
    drain_s: float = DRAIN_S,
    wishes: DesktopWishes | None = None,
) -> int:
    """Run a daemon over the state in `places`; returns the exit code. Raises StateError where it can't start."""
    statehold.prepare(places)
    statehold.hold(places)
    if not places.vault.exists():
        raise StateError(f"there is no vault in {places.data} yet. Run: doorward setup NAME (or: doorward init)")
    passed = sockets.inherited(environ)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(quiet_loop)
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as tasks:
        limit = _raise_descriptor_limit()
        wished = NOTHING_WISHED if transient else wishes or DesktopWishes()
        house = await build(places, tasks, wiring or Wiring(), environ=environ, descriptors=limit, wishes=wished)
        await house.office.announce(transient=transient)
        serving, endpoints = _open_doors(house, tasks, places, passed, transient=transient)
        tasks.create_task(house.office.verify_at_start())
        serving.append(tasks.create_task(_upkeep(house)))
        serving.append(tasks.create_task(house.office.watch_policies()))
        serving.append(tasks.create_task(house.premises.desktop.run()))
        sockets.notify(environ, "READY=1\nSTATUS=serving")
        print("ready", flush=True)  # noqa: T201 - whoever started this daemon waits for the word
        LOG.info("serving", extra={"state": house.premises.vault.state.value, "seq": house.premises.writer.head[0]})
        await stop.wait()
        sockets.notify(environ, "STOPPING=1")
        LOG.info("stopping")
        for task in serving:
            task.cancel()
        await asyncio.wait(serving)
        for endpoint in endpoints:  # who comes now is refused, or waits where systemd listens on
            endpoint.close()
        await _stop(house, drain_s)
    return 0


def _open_doors(
    house: House, tasks: asyncio.TaskGroup, places: Places, passed: dict[str, socket.socket], *, transient: bool
) -> tuple[list[asyncio.Task[None]], list[socket.socket]]:
    serving: list[asyncio.Task[None]] = []
    endpoints: list[socket.socket] = []
    ways = [(house.control, "control", places.control_socket)]
    if not transient:
        ways.append((house.agents, "agent", places.agent_socket))
    for listener, name, path in ways:
        endpoint = passed.get(name) or sockets.listen(path)
        endpoints.append(endpoint)
        serving += [
            tasks.create_task(listener.door.serve(endpoint)),
            tasks.create_task(listener.door.sweeping()),
        ]
    return serving, endpoints


async def _upkeep(house: House) -> None:
    at = house.premises

    def died(why: str) -> None:
        LOG.error("%s", why)
        at.desk.void(Happening.STOPPING)
        at.changed()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(notice_dead_log(at.writer, died))
        tasks.create_task(
            lock_when_idle(at.idle, is_open=lambda: at.custody.state is VaultState.READY, lock=house.office.lock)
        )
        await upkeep(floods=at.floods, refusals=at.refusals, sessions=at.sessions, diagnostics=at.diagnostics)


async def _stop(house: House, drain_s: float) -> None:
    """Void what waits, finish what is under way, lock, record the end."""
    at = house.premises
    at.watch.stop()
    at.runs.stop_taking()
    at.desk.void(Happening.STOPPING)
    with suppress(TimeoutError):
        async with asyncio.timeout(drain_s):
            await at.runs.idle()
    abandoned = at.runs.abandon()
    if abandoned:
        LOG.warning("work was cut off; the next start finds it in doubt", extra={"count": abandoned})
        await at.runs.idle()
    at.hub.close()
    with suppress(Exception):  # whatever fails here, the daemon still has to end
        await house.office.lock(LockReason.STOP)
    for listener in (house.agents, house.control):
        await listener.close()
    at.sessions.close()
    at.challenges.close_all()
    at.refusals.summarise()
    at.floods.summarise()
    at.reading.shut()
    await at.executor.close()
    with suppress(AuditUnwritable):
        await at.journal.append(AuditEvent(name=EventName.DAEMON_STOPPED, at_ms=at.clock.now_ms()))
    await asyncio.to_thread(at.writer.close)
    await asyncio.to_thread(at.watch.close)
    await asyncio.to_thread(at.shares.close)
    at.diagnostics.close()
    at.ledger.close()
    at.evidence.close()
    with suppress(VaultError):
        await asyncio.to_thread(at.vault.close)


def _raise_descriptor_limit() -> int:
    """Each connection and session holds descriptors: take as many as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def run(
    places: Places,
    environ: dict[str, str],
    *,
    transient: bool = False,
    wiring: Wiring | None = None,
    wishes: DesktopWishes | None = None,
) -> int:
    """Run until stopped; prints one line and returns 1 where the daemon can't start."""
    code = 1
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(serve(places, environ, transient=transient, wiring=wiring, wishes=wishes))
    except* (StateError, AuditError, VaultError, LedgerError, ControlError) as group:
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
