"""Scrubbing output that is handed on while it comes: only what could be the beginning of a value is held back.

A value that can't be cut out ends the stream: nothing more of it is handed on, and the end says so. The envelope is
scrubbed apart from this, from the whole of what was kept.
"""

from broker.core.scrub import SecretSet

MAX_HELD_BYTES = 65_536


class StreamScrubber:
    """One stream's. What comes out, put together, holds no value that went in."""

    def __init__(self, secrets: SecretSet | None) -> None:
        self._secrets = secrets
        self._held = b""
        self.withheld = False
        self.hits = 0

    def feed(self, octets: bytes) -> bytes:
        """What may be handed on now."""
        if self._secrets is None:
            return octets
        whole = self._clean(self._held + octets)
        safe = self._secrets.before_break(whole) if whole else b""
        if safe is None:  # an escaped beginning, whose place can't be told
            safe = b""
        self._held = whole[len(safe) :]
        if len(self._held) > MAX_HELD_BYTES:
            self.withheld, self._held = True, b""
        return safe

    def finish(self) -> bytes:
        """The rest, once nothing more comes. What broke off within a value stays here."""
        rest, self._held = self._held, b""
        return rest

    def _clean(self, octets: bytes) -> bytes:
        if self.withheld or self._secrets is None:
            return b""
        cleaned = self._secrets.clean(octets)
        self.hits += cleaned.hits
        if cleaned.withheld:
            self.withheld = True
            return b""
        return cleaned.data
