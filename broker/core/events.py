"""The audit events: which names there are and what one record says.

Fields come from the frozen request and from typed results, never from free text; bodies appear as digests and sizes.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from broker.contract.wire import JsonObject, canonical


class EventName(StrEnum):
    ACTION_REQUESTED = "action.requested"
    POLICY_DECIDED = "policy.decided"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_REFUSED = "approval.refused"  # an answer that was not accepted
    DISPATCH_STARTED = "dispatch.started"
    REMOTE_ANSWERED = "remote.answered"
    DEADLINE_EXPIRED = "deadline.expired"
    TRANSPORT_FAILED = "transport.failed"
    ACTION_RESULT = "action.result"
    RECONCILE_STARTED = "reconcile.started"
    RECONCILE_SETTLED = "reconcile.settled"
    EVIDENCE_RECORDED = "evidence.recorded"
    OPERATION_SETTLED = "operation.settled"
    OPERATION_IN_DOUBT = "operation.in_doubt"
    SESSION_OPENED = "session.opened"
    SESSION_ENDED = "session.ended"
    LISTENER_OPENED = "listener.opened"  # a container has a name from then on
    SESSION_KILLED = "session.killed"  # and what of its processes was ended
    SESSION_MUTED = "session.muted"
    SESSION_UNMUTED = "session.unmuted"
    GRANT_MADE = "grant.made"
    GRANT_ENDED = "grant.ended"
    VAULT_CREATED = "vault.created"
    VAULT_UNLOCKED = "vault.unlocked"
    VAULT_UNLOCK_FAILED = "vault.unlock_failed"
    VAULT_LOCKED = "vault.locked"
    VAULT_QUARANTINED = "vault.quarantined"
    VAULT_READOPTED = "vault.readopted"  # a human took it over, and the log with it
    VAULT_METHOD_ADDED = "vault.method_added"  # one more way to open it
    VAULT_METHOD_REMOVED = "vault.method_removed"
    VAULT_PASSPHRASE_CHANGED = "vault.passphrase_changed"  # noqa: S105 - the name of an event
    CREDENTIAL_ADDED = "credential.added"
    CREDENTIAL_ROTATED = "credential.rotated"
    CREDENTIAL_REMOVED = "credential.removed"
    HOSTKEY_ACCEPTED = "hostkey.accepted"
    HOSTKEY_FORGOTTEN = "hostkey.forgotten"
    MARKERS_ASKED = "markers.asked"  # a host is about to be asked to remove old ones
    MARKERS_COLLECTED = "markers.collected"
    POLICY_TRUSTED = "policy.trusted"
    POLICY_EDIT_REFUSED = "policy.edit_refused"  # the files do not load; the former policy stays in force
    POLICY_RELOADED = "policy.reloaded"  # the machine's own files, which root alone writes, changed
    APPROVER_ENROLLED = "approver.enrolled"
    APPROVER_REMOVED = "approver.removed"
    CONTROL_OPENED = "control.opened"
    CONTROL_REFUSED = "control.refused"
    AUDIT_RECOVERED = "audit.recovered"
    AUDIT_VERIFIED = "audit.verified"  # at the start, and at each unlock
    FLOOD_SUMMARY = "flood.summary"
    DAEMON_STARTED = "daemon.started"
    DAEMON_STOPPED = "daemon.stopped"
    DAEMON_FROZEN = "daemon.frozen"
    DAEMON_THAWED = "daemon.thawed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One record's content. `at_ms` is wall-clock milliseconds since the epoch; `fields` holds integers, no floats."""

    name: EventName
    at_ms: int
    correlation_id: str | None = None
    session_id: str | None = None
    fields: JsonObject = field(default_factory=dict)

    def encode(self) -> bytes:
        """Canonical JSON of the event, the plaintext of an EVENT record. Raises WireError.

        Put together by hand in the order of the keys, for a record is written in every few microseconds.
        """
        at_ms, correlation_id, session_id = self.at_ms, self.correlation_id, self.session_id
        return b'{"at_ms":%b,"correlation_id":%b,"event":"%b","fields":%b,"session_id":%b}' % (
            b"%d" % at_ms if type(at_ms) is int else canonical(at_ms),
            b"null" if correlation_id is None else canonical(correlation_id),
            self.name.encode(),  # of letters, dots and lines
            canonical(self.fields),
            b"null" if session_id is None else canonical(session_id),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that an event is durable. Made by audit/writer.py alone, after fsync."""

    seq: int
    head: str  # hex of the record's chain hash
    event: EventName
    correlation_id: str | None
