"""Times as envelopes spell them."""

from datetime import UTC, datetime


def rfc3339(at_ms: int) -> str:
    """Milliseconds since the epoch in UTC: `2026-01-31T09:30:00.250Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
