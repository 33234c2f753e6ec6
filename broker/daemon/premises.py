"""Everything the Office works with, built once by main.py. A list of parts and nothing else."""

from dataclasses import dataclass

from broker.approvals.desk import Desk
from broker.audit.diagnostics import DiagnosticsStore
from broker.audit.pin import AuditPaths, Pin
from broker.audit.writer import AuditWriter
from broker.client.places import Places
from broker.contract.wire import JsonObject, JsonValue
from broker.core.events import AuditEvent, EventName
from broker.daemon.clocks import SystemClock
from broker.daemon.custody import Custody
from broker.daemon.desktop import Desktop
from broker.daemon.engine import PipelineEngine
from broker.daemon.idle import IdleWatch
from broker.daemon.journal import Journal
from broker.daemon.log_watch import LogWatch
from broker.daemon.reading import AuditReading
from broker.daemon.repeated_refusals import RepeatedRefusals
from broker.daemon.rulebook import Rulebook
from broker.daemon.shares import KeyShares
from broker.daemon.ssh_hosts import SshHosts
from broker.executors.by_channel import ByChannel
from broker.operations.evidence_store import EvidenceStoreFile
from broker.operations.ledger import LedgerStore
from broker.ports import AuditUnwritable
from broker.server.challenges import Challenges
from broker.server.events import EventHub
from broker.server.faults import ControlError
from broker.server.floods import Floods
from broker.server.runs import RunTable
from broker.server.sessions import SessionRegistry
from broker.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    places: Places
    audit_paths: AuditPaths
    pin: Pin
    writer: AuditWriter
    watch: LogWatch
    journal: Journal
    reading: AuditReading
    diagnostics: DiagnosticsStore
    vault: Vault
    shares: KeyShares
    idle: IdleWatch
    custody: Custody
    rulebook: Rulebook
    ledger: LedgerStore
    evidence: EvidenceStoreFile
    executor: ByChannel
    ssh_hosts: SshHosts
    sessions: SessionRegistry
    desk: Desk
    runs: RunTable
    hub: EventHub
    desktop: Desktop
    challenges: Challenges
    refusals: RepeatedRefusals
    floods: Floods
    engine: PipelineEngine
    clock: SystemClock
    version: str

    async def record(self, name: EventName, correlation_id: str | None = None, /, **fields: JsonValue) -> None:
        """Append an event of the daemon's own, durably. Raises ControlError where it can't be."""
        event = AuditEvent(name=name, at_ms=self.clock.now_ms(), correlation_id=correlation_id, fields=fields)
        try:
            await self.journal.append(event)
        except AuditUnwritable as cause:
            raise ControlError("audit_unwritable", str(cause)) from None

    def changed(self, what: str = "status", **about: JsonValue) -> None:
        """Tell the listeners of control.sock that something is to be looked at again."""
        data: JsonObject = about
        self.hub.publish(what, data)
