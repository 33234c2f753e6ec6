"""The bounds that a writer keeps. Tests make them small; the daemon takes them as they are."""

from dataclasses import dataclass

from broker.audit.segment import SEGMENT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterLimits:
    segment_bytes: int = SEGMENT_BYTES  # the next file begins once this is reached
    epoch_events: int = 4096
    epoch_ms: int = 3_600_000
    group_events: int = 512  # events in one group commit
    group_bytes: int = 1 << 20  # and their plaintext, but for a single larger event
    queue_events: int = 8192  # events that may wait; more are refused
    queue_bytes: int = 16 << 20
    min_free_bytes: int = 256 << 20  # below this no action begins
    reserve_bytes: int = 1 << 20  # given back for the last words on a full disk
