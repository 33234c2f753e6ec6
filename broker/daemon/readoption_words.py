"""What a human is told before taking a quarantined vault over: what is lost, and what stays proven."""

from broker.audit.verdict import Verdict, VerdictName
from broker.vault import NEEDS_BACKUP, QuarantineReason

_OLDER_VAULT = frozenset({QuarantineReason.GENERATION_WENT_BACK, QuarantineReason.TERM_WENT_BACK})


def lost(reason: QuarantineReason, verdict: Verdict | None) -> str:
    if reason in NEEDS_BACKUP:
        return "the vault can't be believed; nothing of it is taken over"
    if reason in _OLDER_VAULT:
        return (
            "what was changed in the vault since this copy of it: credentials, the trusted policy. Look at all of them"
        )
    if reason is QuarantineReason.CHANGED_UNDERNEATH:
        return "nothing that is known; somebody wrote to the vault's file, and what is sealed in it still agrees"
    if reason is QuarantineReason.AUDIT_MISMATCH:
        return "whatever was recorded in the log that this vault remembers"
    name = VerdictName.FORGED_SIGNATURE
    if reason is not QuarantineReason.AUDIT_UNENDORSED:
        name = VerdictName(reason.value.removeprefix("audit_").upper())
    said = _lost_of(name, verdict.seq if verdict is not None and verdict.verdict is name else None)
    if verdict is not None and verdict.verdict is VerdictName.OK:
        return f"{said}. Unless that was restored since: as it lies here now, the log is whole by itself"
    return said


def proven(verdict: Verdict | None) -> str:
    if verdict is None or verdict.proven_to is None:
        return "nothing of the audit log"
    return f"records 0 to {verdict.proven_to} of the audit log, by their signatures"


def _lost_of(name: VerdictName, seq: int | None) -> str:
    at, since = ("", "") if seq is None else (f" {seq}", f", from {seq} on")
    match name:
        case VerdictName.ALTERED | VerdictName.REORDERED:
            return f"what stood in the record{at} that is altered or moved; what follows it is proven by no signature"
        case VerdictName.GAP:
            return f"the records that are missing{since}; what follows them is proven by no signature"
        case VerdictName.TRUNCATED:
            return f"acknowledged records at the end{since}: they are not there any more"
        case VerdictName.ROLLBACK:
            return "records that were acknowledged and replaced by others: what the log says now is another history"
        case VerdictName.FORGED_SIGNATURE:
            return f"proof of who wrote what is recorded{since}: the daemon, or somebody who had taken its seed"
        case VerdictName.WRONG_LOG:
            return "this installation's own records: what lies here is another's"
        case VerdictName.EMPTY_OR_MISSING:
            return "every record"
        case (
            VerdictName.OK
            | VerdictName.OK_UNANCHORED
            | VerdictName.TORN_TAIL
            | VerdictName.TORN_OR_TAMPERED
            | VerdictName.UNREADABLE
        ):
            return "nothing that is known of the audit log"
