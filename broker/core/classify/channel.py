"""Judging an attempt by the channel that it took."""

import hashlib
from dataclasses import replace

from broker.core.channels import Frozen, Raw
from broker.core.classify.order import classify, dispatch_event
from broker.core.classify.ssh import classify_ssh
from broker.core.events import EventName
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Classified, RawOutcome
from broker.core.ssh.answer import with_stream
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.outcome import SshFault, SshOutcome

_DEADLINES = frozenset(
    {
        SshFault.CONNECT_TIMEOUT,
        SshFault.LOGIN_TIMEOUT,
        SshFault.EXEC_TIMEOUT,
        SshFault.IDLE_TIMEOUT,
        SshFault.TOTAL_TIMEOUT,
    }
)


def judged(frozen: Frozen, raw: Raw, *, now_ms: int, prior_doubt: bool, key_expired: bool = False) -> Classified:
    """Judge one attempt. Raises TypeError for an outcome of another channel: an executor's own fault."""
    if isinstance(frozen, FrozenRequest) and isinstance(raw, RawOutcome):
        return classify(frozen, raw, now_ms=now_ms, prior_doubt=prior_doubt, key_expired=key_expired)
    if isinstance(frozen, FrozenSsh) and isinstance(raw, SshOutcome):
        classified = classify_ssh(frozen, raw, prior_doubt=prior_doubt)
        return _without_file(classified, raw) if frozen.is_look_up else classified
    raise TypeError("an executor's outcome is not of the request's channel")


def _without_file(classified: Classified, raw: SshOutcome) -> Classified:
    """A look at what became of an upload tells the digest of the file, and gives nobody the file."""
    if classified.ssh is None or raw.transfer is None:
        return classified
    told = {"replaced": "no", "size": raw.transfer.size, "sha256": hashlib.sha256(raw.stdout).hexdigest()}
    whole = told if raw.transfer.complete else {**told, "sha256": None}
    return replace(classified, ssh={**with_stream(classified.ssh, "stdout", None), "transfer": whole})


def event_of(raw: Raw) -> EventName:
    """The one event that follows dispatch.started: a deadline, an answer, or neither."""
    if isinstance(raw, RawOutcome):
        return dispatch_event(raw)
    if raw.fault in _DEADLINES:
        return EventName.DEADLINE_EXPIRED
    return EventName.REMOTE_ANSWERED if raw.fault is None else EventName.TRANSPORT_FAILED


def sent_body_bytes(raw: Raw) -> int:
    return raw.sent_bytes if isinstance(raw, RawOutcome) else 0


def size_bytes(raw: Raw) -> int:
    """How much there is to judge."""
    return len(raw.body) if isinstance(raw, RawOutcome) else len(raw.stdout) + len(raw.stderr)
