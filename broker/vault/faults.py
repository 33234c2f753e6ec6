"""The one error type of the vault, and the closed sets of what can be wrong.

Messages say what failed and what to do; none holds a value, a name of a record or a key.
"""

from enum import StrEnum


class Fault(StrEnum):
    EXISTS = "exists"  # there is a vault already
    MISSING = "missing"
    UNSAFE_PATH = "unsafe_path"  # owner, mode, link or type of the file or its directory
    NOT_A_VAULT = "not_a_vault"
    UNSUPPORTED = "unsupported"  # a newer format, or a cipher that this machine lacks
    UNREADABLE = "unreadable"
    UNWRITABLE = "unwritable"
    CHANGED_UNDERNEATH = "changed_underneath"  # someone else wrote to, moved or replaced the file
    LOCKED = "locked"
    QUARANTINED = "quarantined"
    NOT_QUARANTINED = "not_quarantined"
    WRONG_PASSPHRASE = "wrong_passphrase"  # noqa: S105 - the name of a fault
    TOO_SOON = "too_soon"
    SHARE_MISSING = "share_missing"  # the keyring's part of the key is not there
    LAST_METHOD = "last_method"  # a vault without an unlock method could never be opened again
    UNKNOWN_CREDENTIAL = "unknown_credential"
    NAME_TAKEN = "name_taken"
    NOTHING_PENDING = "nothing_pending"
    FULL = "full"
    STALE_COUNTER = "stale_counter"
    BAD_SIGNATURE = "bad_signature"
    HEAD_WENT_BACK = "head_went_back"
    INVALID = "invalid"


class QuarantineReason(StrEnum):
    INDEX_BROKEN = "index_broken"  # the sealed index does not open, or is of another log
    RECORD_CHANGED = "record_changed"  # a record is not the one that the index names
    RECORD_MISSING = "record_missing"
    RECORD_UNKNOWN = "record_unknown"  # a record that the index does not name
    TERM_WENT_BACK = "term_went_back"
    WRAPS_CHANGED = "wraps_changed"  # an unlock method was put back or put in
    GENERATION_WENT_BACK = "generation_went_back"  # the audit log knows a later vault
    AUDIT_MISMATCH = "audit_mismatch"  # the audit log is not the one that the vault remembers
    CHANGED_UNDERNEATH = "changed_underneath"
    # What a verification of the audit log found; one for each verdict that lets nothing run.
    AUDIT_ALTERED = "audit_altered"
    AUDIT_REORDERED = "audit_reordered"
    AUDIT_GAP = "audit_gap"
    AUDIT_TRUNCATED = "audit_truncated"
    AUDIT_ROLLBACK = "audit_rollback"
    AUDIT_FORGED_SIGNATURE = "audit_forged_signature"
    AUDIT_WRONG_LOG = "audit_wrong_log"
    AUDIT_EMPTY_OR_MISSING = "audit_empty_or_missing"
    AUDIT_UNENDORSED = "audit_unendorsed"  # the log's signing seed was lost, and it went on under a key of nobody's


# What a human is told; what each one comes from, and not who did it, for that can't be told.
_IN_WORDS = {
    QuarantineReason.INDEX_BROKEN: "the vault's sealed index is damaged or of another vault",
    QuarantineReason.RECORD_CHANGED: "a sealed record of the vault was changed or put back",
    QuarantineReason.RECORD_MISSING: "a sealed record of the vault is missing",
    QuarantineReason.RECORD_UNKNOWN: "a record was put into the vault from outside",
    QuarantineReason.TERM_WENT_BACK: "the vault's file is older than its own records, or was edited",
    QuarantineReason.WRAPS_CHANGED: "an unlock method of the vault was put back or put in",
    QuarantineReason.GENERATION_WENT_BACK: "the audit log tells of a later vault than the one that is here",
    QuarantineReason.AUDIT_MISMATCH: "the audit log is not the one that the vault remembers",
    QuarantineReason.CHANGED_UNDERNEATH: "another process wrote to the vault's file while it was open",
    QuarantineReason.AUDIT_ALTERED: "records of the audit log were altered",
    QuarantineReason.AUDIT_REORDERED: "records of the audit log were moved",
    QuarantineReason.AUDIT_GAP: "records of the audit log are missing",
    QuarantineReason.AUDIT_TRUNCATED: "acknowledged records at the end of the audit log are gone",
    QuarantineReason.AUDIT_ROLLBACK: "the audit log was rewritten, or an older one was put back",
    QuarantineReason.AUDIT_FORGED_SIGNATURE: "records of the audit log are not signed by the key that may",
    QuarantineReason.AUDIT_WRONG_LOG: "the audit log, its pin or its anchor is another installation's",
    QuarantineReason.AUDIT_EMPTY_OR_MISSING: "the audit log is gone",
    QuarantineReason.AUDIT_UNENDORSED: (
        "the audit log's signing seed was lost, and nobody vouches for what was recorded since"
    ),
}
# What is sealed does not agree with itself then: taking it over would be to believe whoever changed it.
NEEDS_BACKUP = frozenset(
    {
        QuarantineReason.INDEX_BROKEN,
        QuarantineReason.RECORD_CHANGED,
        QuarantineReason.RECORD_MISSING,
        QuarantineReason.RECORD_UNKNOWN,
        QuarantineReason.WRAPS_CHANGED,
    }
)


def in_words(reason: QuarantineReason) -> str:
    """What happened, as far as can be told."""
    return _IN_WORDS[reason]


def remedy(reason: QuarantineReason) -> str:
    """What a human can do."""
    if reason in NEEDS_BACKUP:
        return "restore the vault from a backup; it can't be taken over as it is"
    return "restore what is missing, or look into it and take it over: doorward vault readopt"


class VaultError(Exception):
    """Something about the vault failed; `fault` says what."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class WrongPassphrase(VaultError):  # noqa: N818 - the name that callers read
    """The key that came does not open the vault. `retry_after_s` seconds go by before another is tried."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(Fault.WRONG_PASSPHRASE, "the passphrase does not open this vault")
        self.retry_after_s = retry_after_s


class UnlockTooSoon(VaultError):  # noqa: N818 - the name that callers read
    """An attempt within the wait after wrong ones. It was not looked at and does not lengthen the wait."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            Fault.TOO_SOON,
            f"not tried: wrong passphrases came before; try again in {max(1, round(retry_after_s))} s",
        )
        self.retry_after_s = retry_after_s


class VaultLocked(VaultError):  # noqa: N818 - the name that callers read
    def __init__(self) -> None:
        super().__init__(Fault.LOCKED, "the vault is locked; a human opens it with `doorward unlock`")


class VaultQuarantined(VaultError):  # noqa: N818 - the name that callers read
    """An integrity check failed. Nothing runs until a human takes the vault over again with the passphrase."""

    def __init__(self, reason: QuarantineReason) -> None:
        super().__init__(
            Fault.QUARANTINED,
            f"the vault is quarantined ({reason}): {in_words(reason)}; {remedy(reason)}",
        )
        self.reason = reason


class Damage(Exception):  # noqa: N818 - it becomes a quarantine, callers of the package never see it
    """What is sealed does not hold together."""

    def __init__(self, reason: QuarantineReason) -> None:
        super().__init__(reason.value)
        self.reason = reason
