"""Why a vault was locked, in the words of the command line and the screens. Pure."""

from broker.contract.reasons import LockReason

_WORDS = {
    LockReason.ASKED: "asked for",
    LockReason.IDLE: "nobody did anything for too long",
    LockReason.SCREEN_LOCKED: "the screen was locked",
    LockReason.SUSPEND: "the machine went to sleep",
    LockReason.STOP: "the daemon stopped",
}


def lock_words(reason: str | None) -> str | None:
    """None where no reason is known to this version."""
    return _WORDS[LockReason(reason)] if reason in set(LockReason) else None
