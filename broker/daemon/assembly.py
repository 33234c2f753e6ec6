"""Builds every object of the daemon once, in reading order; the only place that knows them all."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.approvals.desk import Desk
from broker.audit.diagnostics import DiagnosticsStore
from broker.audit.disk import Disk, LocalDisk
from broker.audit.pin import Pin
from broker.client.places import Places
from broker.contract.openapi import document
from broker.contract.version import VERSION
from broker.core.identity import identify
from broker.daemon.clocks import SystemClock
from broker.daemon.credential_wants import CredentialWants
from broker.daemon.custody import Custody
from broker.daemon.desktop import Desktop, DesktopWishes
from broker.daemon.endings import happening
from broker.daemon.engine import PipelineEngine
from broker.daemon.follow_ups import FollowUpRuns
from broker.daemon.host_markers import HostMarkers
from broker.daemon.idle import IdleWatch
from broker.daemon.journal import Journal
from broker.daemon.listeners import Listener, listener
from broker.daemon.log_parts import LogParts, open_log
from broker.daemon.noticed_log import NoticedLog
from broker.daemon.premises import Premises
from broker.daemon.reading import AuditReading
from broker.daemon.repeated_refusals import RepeatedRefusals
from broker.daemon.rulebook import Rulebook
from broker.daemon.shares import KeyShares
from broker.daemon.ssh_hosts import SshHosts
from broker.daemon.told_ledger import ToldLedger
from broker.daemon.watched_office import WatchedOffice
from broker.executors.by_channel import ByChannel
from broker.executors.https.client import HttpsExecutor
from broker.executors.ssh.client import SshExecutor
from broker.operations.evidence_store import EvidenceStoreFile
from broker.operations.reconcile import Reconciler
from broker.operations.walks import WalkTable
from broker.pipeline import Pipeline
from broker.ports import AuditLog, Executor, Ledger
from broker.proof import Proofs
from broker.server import faults
from broker.server.agent_routes import AgentApi, envelopes
from broker.server.challenges import Challenges
from broker.server.connections import Connections
from broker.server.control_routes import ControlApi, control_errors
from broker.server.door import DoorLimits
from broker.server.events import EventHub
from broker.server.floods import Floods
from broker.server.peer import boot_id, ourselves
from broker.server.runs import RunTable
from broker.server.sessions import Ended, SessionRegistry
from broker.vault import Vault, verify
from broker.walk import Walker


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Hooks for tests that put something between the pipeline and its ports. Production uses none."""

    audit: Callable[[AuditLog], AuditLog] = lambda port: port
    ledger: Callable[[Ledger], Ledger] = lambda port: port
    executor: Callable[[Executor], Executor] = lambda port: port
    disk: Callable[[], Disk] = LocalDisk  # of the audit log
    rulebook: Callable[[Places, SystemClock], Rulebook] = lambda places, clock: Rulebook(places, moment=clock.moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A daemon that is built and not yet open."""

    premises: Premises
    office: WatchedOffice
    agents: Listener
    control: Listener


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stores:
    """What is read from disk at the start."""

    log: LogParts
    diagnostics: DiagnosticsStore
    vault: Vault
    ledger: ToldLedger
    evidence: EvidenceStoreFile


@dataclass(frozen=True, slots=True, kw_only=True)
class _People:
    """Who is there: their sessions, the cards that wait for a human, and what is told of both."""

    hub: EventHub
    challenges: Challenges
    sessions: SessionRegistry
    desk: Desk


async def build(
    places: Places,
    tasks: asyncio.TaskGroup,
    wiring: Wiring,
    *,
    environ: Mapping[str, str],
    descriptors: int,
    wishes: DesktopWishes,
) -> House:
    """Open the stores and put everything together. Raises AuditError, VaultError, LedgerError."""
    clock = SystemClock()
    stores = await asyncio.to_thread(_open, places, environ, clock, wiring)
    log = stores.log
    reading = AuditReading(directory=log.paths.directory, head=lambda: log.writer.head[0], tasks=tasks)
    idle = IdleWatch(lambda: rulebook.current().limits.idle_lock_s)
    custody, journal = Custody(stores.vault), Journal(log.writer, reading.written, idle.notice)
    rulebook = wiring.rulebook(places, clock)
    runs = RunTable(tasks=tasks, monotonic_s=clock.monotonic_s)
    executor, ssh_hosts = _executor(stores, custody, rulebook, journal, clock, tasks)
    hub = EventHub()
    desktop = Desktop(environ, wishes, hub=hub, clock=clock)
    people = _people(stores, rulebook, journal, clock, runs, executor, hub, desktop)
    follow_ups = FollowUpRuns(runs=runs, clock=clock)
    pipeline = _pipeline(wiring, stores, people, custody, rulebook, journal, runs, executor, follow_ups, clock)
    engine = _engine(pipeline, stores, people, rulebook, custody, journal, runs, clock)
    follow_ups.perform, follow_ups.settle = engine.perform, engine.reconcile
    premises = Premises(
        places=places,
        audit_paths=log.paths,
        pin=Pin.load(places.pin),
        writer=log.writer,
        watch=log.watch,
        journal=journal,
        reading=reading,
        diagnostics=stores.diagnostics,
        vault=stores.vault,
        idle=idle,
        shares=KeyShares.of_session(environ, stores.vault.log_id),
        custody=custody,
        rulebook=rulebook,
        ledger=stores.ledger,
        evidence=stores.evidence,
        executor=executor,
        ssh_hosts=ssh_hosts,
        sessions=people.sessions,
        desk=people.desk,
        runs=runs,
        hub=people.hub,
        desktop=desktop,
        challenges=people.challenges,
        refusals=RepeatedRefusals(audit=journal, clock=clock),
        floods=Floods(audit=journal, clock=clock),
        engine=engine,
        clock=clock,
        version=VERSION,
    )
    return await _with_faces(premises, tasks, DoorLimits.within(descriptors))


def _pipeline(
    wiring: Wiring,
    stores: _Stores,
    people: _People,
    custody: Custody,
    rulebook: Rulebook,
    journal: Journal,
    runs: RunTable,
    executor: Executor,
    follow_ups: FollowUpRuns,
    clock: SystemClock,
) -> Pipeline:
    sender = wiring.executor(executor)
    return Pipeline(
        policies=rulebook,
        vault=custody,
        sessions=people.sessions,
        desk=people.desk,
        executor=sender,
        audit=wiring.audit(NoticedLog(journal, people.sessions.deeds.notice)),
        diagnostics=stores.diagnostics,
        ledger=wiring.ledger(stores.ledger),
        runs=runs,
        walker=_walker(sender, people, custody, stores, clock),
        proofs=Proofs(store=stores.evidence, follow_ups=follow_ups, vault=custody, clock=clock),
        clock=clock,
    )


def _walker(sender: Executor, people: _People, custody: Custody, stores: _Stores, clock: SystemClock) -> Walker:
    return Walker(
        executor=sender,
        sessions=people.sessions,
        vault=custody,
        walks=WalkTable(now_ms=clock.now_ms),
        evidence=stores.evidence,
        clock=clock,
    )


def _executor(
    stores: _Stores,
    custody: Custody,
    rulebook: Rulebook,
    journal: Journal,
    clock: SystemClock,
    tasks: asyncio.TaskGroup,
) -> tuple[ByChannel, SshHosts]:
    ssh_hosts = SshHosts(vault=stores.vault, audit=journal, clock=clock)
    markers = HostMarkers(ledger=stores.ledger, audit=journal, clock=clock, tasks=tasks)
    http = HttpsExecutor(
        secrets=custody,
        body_limit_bytes=lambda: rulebook.current().limits.body_bytes,
        version=VERSION,
    )
    ssh = SshExecutor(secrets=custody, trust=ssh_hosts)
    return ByChannel(http=http, ssh=ssh, trust=ssh_hosts, markers=markers), ssh_hosts


def _engine(
    pipeline: Pipeline,
    stores: _Stores,
    people: _People,
    rulebook: Rulebook,
    custody: Custody,
    journal: Journal,
    runs: RunTable,
    clock: SystemClock,
) -> PipelineEngine:
    return PipelineEngine(
        pipeline=pipeline,
        reconciler=Reconciler(ledger=stores.ledger, policies=rulebook, audit=journal, clock=clock),
        ledger=stores.ledger,
        runs=runs,
        desk=people.desk,
        sessions=people.sessions,
        policies=rulebook,
        vault=custody,
        clock=clock,
        broker=identify(ourselves(boot=boot_id()), agents={}, holders={}),
        wants=CredentialWants(
            wants=people.desk.wants,
            policies=rulebook,
            vault=custody,
            sessions=people.sessions,
            runs=runs,
            audit=journal,
            clock=clock,
        ),
    )


def _open(places: Places, environ: Mapping[str, str], clock: SystemClock, wiring: Wiring) -> _Stores:
    return _Stores(
        log=open_log(places, environ, now_ms=clock.now_ms, disk=wiring.disk()),
        diagnostics=DiagnosticsStore.of(places.diagnostics, Pin.load(places.pin), clock=clock.now_ms),
        vault=Vault.open(places.vault),
        ledger=ToldLedger(places.ledger, now_ms=clock.now_ms),
        evidence=EvidenceStoreFile(places.evidence, now_ms=clock.now_ms),
    )


def _people(
    stores: _Stores,
    rulebook: Rulebook,
    journal: Journal,
    clock: SystemClock,
    runs: RunTable,
    executor: ByChannel,
    hub: EventHub,
    desktop: Desktop,
) -> _People:
    challenges = Challenges(monotonic_s=clock.monotonic_s)
    stores.ledger.changed = lambda operation_id, state: hub.publish("operation", {"id": operation_id, "state": state})

    def on_card(card_id: str, state: str) -> None:
        hub.publish("approval", {"id": card_id, "state": state})
        desktop.changed()

    def on_session(session_id: str, state: str) -> None:
        hub.publish("session", {"id": session_id, "state": state})
        if state == "grant" and (session := sessions.get(session_id)) is not None:
            desk.granted(session.grants.values())

    def on_session_end(session_id: str, why: Ended) -> None:
        desk.void(happening(why), session_id=session_id)
        executor.close_session(session_id)

    sessions = SessionRegistry(
        audit=journal,
        clock=clock,
        policies=rulebook,
        ended=on_session_end,
        changed=on_session,
    )
    desk = Desk(
        audit=journal,
        clock=clock,
        log_id=stores.vault.log_id,
        verify=lambda message, signature: verify(stores.vault.approver_keys(), message, signature),
        present=lambda: hub.listeners > 0 or len(challenges) > 0,
        changed=on_card,
        waits=runs.asked,
        wanted=lambda want_id, state: hub.publish("credential_request", {"id": want_id, "state": state}),
        mute=sessions.mute,
    )
    desktop.waiting = desk.waiting
    return _People(hub=hub, challenges=challenges, sessions=sessions, desk=desk)


async def _with_faces(premises: Premises, tasks: asyncio.TaskGroup, limits: DoorLimits) -> House:
    at = premises
    office = WatchedOffice(premises)
    at.ledger.alarm = office.distrust_ledger
    at.desktop.office = office
    at_agents, at_control = (Connections(boot=boot_id()) for _ in range(2))
    agent_api = AgentApi(
        engine=at.engine,
        connections=at_agents,
        sessions=at.sessions,
        runs=at.runs,
        floods=at.floods,
        policies=at.rulebook,
        vault=at.custody,
        clock=at.clock,
        version=at.version,
        openapi=lambda: document("agent"),
        schema=office.schema,
    )
    control_api = ControlApi(
        office=office,
        connections=at_control,
        sessions=at.sessions,
        policies=at.rulebook,
        challenges=at.challenges,
        hub=at.hub,
        tasks=tasks,
        now_ms=at.clock.now_ms,
    )
    return House(
        premises=premises,
        office=office,
        agents=await listener(
            envelopes, agent_api.routes(), at_agents, limits, faults.TOO_MANY_AGENTS, at.clock.monotonic_s
        ),
        control=await listener(
            control_errors,
            control_api.routes(),
            at_control,
            limits,
            faults.TOO_MANY_HUMANS,
            at.clock.monotonic_s,
            lambda protocol: at.challenges.session(at_control.process(protocol)) is not None,
        ),
    )
