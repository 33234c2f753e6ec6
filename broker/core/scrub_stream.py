"""Scrubbing output that is handed on while it comes: only what could be the beginning of a value is held back.

A value that can't be cut out ends the stream: nothing more of it is handed on, and the end says so. The envelope is
scrubbed apart from this, from the whole of what was kept.
"""

from broker.core.secret_set import SecretSet
from broker.core.spellings import LONGEST_SPELLING_BYTES


class StreamScrubber:
    """One stream's. What comes out, put together, holds no value that went in, and every byte that is of none.

    At most LONGEST_SPELLING_BYTES are held back.
    """

    def __init__(self, secrets: SecretSet | None) -> None:
        self._secrets = secrets
        self._held = b""
        self.withheld = False
        self.hits = 0

    def feed(self, octets: bytes) -> bytes:
        """What may be handed on now."""
        if self._secrets is None:
            return octets
        return b"" if self.withheld else self._fed(self._held + octets, self._secrets)

    def _fed(self, whole: bytes, secrets: SecretSet) -> bytes:
        at = secrets.unfinished_in(whole)
        if at < len(whole) and self._is_cut_in_two(whole, at):
            whole = self._clean(whole)
            at = secrets.unfinished_in(whole)
        safe = self._clean(whole[:at])
        self._held = b"" if self.withheld else whole[at:]
        return safe

    def finish(self, *, is_whole: bool = True) -> bytes:
        """The rest, once nothing more comes. Where the stream was cut, what may be a part of a value stays here."""
        rest, self._held = self._held, b""
        return self._clean(rest) if is_whole and not self.withheld else b""

    def _is_cut_in_two(self, whole: bytes, at: int) -> bool:
        """Whether a value that is there as a whole lies on both sides of the place."""
        near = whole[max(0, at - LONGEST_SPELLING_BYTES) :]
        before, behind = near[: len(near) - (len(whole) - at)], whole[at:]
        found, first, second = (self._found_in(part) for part in (near, before, behind))
        return found != first + second

    def _found_in(self, octets: bytes) -> int:
        return 0 if self._secrets is None else self._secrets.clean(octets).hits

    def _clean(self, octets: bytes) -> bytes:
        if self._secrets is None or not octets:
            return octets
        cleaned = self._secrets.clean(octets)
        self.hits += cleaned.hits
        if cleaned.withheld:
            self.withheld = True
            return b""
        return cleaned.data
