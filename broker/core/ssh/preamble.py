"""The preamble that a wrapped command prints on stderr before it starts: found, taken out, read, chunk by chunk.

Only the line with the operation's id and this attempt's nonce is one, and only the first. All other bytes pass
unchanged and in order; no more than one line is held back.
"""

import re

from broker.core.ssh.outcome import MarkerState, StoreSeen
from broker.core.ssh.script import TAG, store_seen

MAX_LINE_BYTES = 8192
_STARTED = re.compile(r"started (\S+) (\S+) ([^\r\n]*)")
_PLAIN = {
    "no_store": MarkerState.NO_STORE,
    "refused": MarkerState.REFUSED_NO_STORE,
    "duplicate": MarkerState.DUPLICATE,
}


class Preamble:
    """Feed it stderr (on a terminal: the one stream), and pass on what it gives back; at the end also `rest()`."""

    def __init__(self, operation_id: str, nonce: str) -> None:
        self.state = MarkerState.MISSING
        self.store: StoreSeen | None = None
        self._tag = f"\x1e{TAG} {operation_id} {nonce} ".encode("ascii")
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """The bytes that are not of the preamble and are known not to be."""
        if self.state is not MarkerState.MISSING:
            return chunk
        seen = self._held + chunk
        start = seen.find(self._tag)
        if start < 0:
            keep = _shared_end(seen, self._tag)
            self._held = seen[len(seen) - keep :]
            return seen[: len(seen) - keep]
        end = seen.find(b"\n", start)
        if end < 0 and len(seen) - start <= MAX_LINE_BYTES:
            self._held = seen[start:]
            return seen[:start]
        line = seen[start + len(self._tag) : end]
        if end < 0 or not self._read(line.removesuffix(b"\r").decode("utf-8", "backslashreplace")):
            passed, self._held = seen[: start + 1], b""
            return passed + self.feed(seen[start + 1 :])
        self._held = b""
        return seen[:start] + seen[end + 1 :]

    def rest(self) -> bytes:
        """What was held back, once the stream has ended."""
        held, self._held = self._held, b""
        return held

    def _read(self, line: str) -> bool:
        started = _STARTED.fullmatch(line)
        if started is None:
            self.state = _PLAIN.get(line, MarkerState.MISSING)
            return self.state is not MarkerState.MISSING
        self.store = store_seen(store=started[1], boot=started[2], path=started[3])
        if self.store is not None:
            self.state = MarkerState.STARTED
        return self.state is not MarkerState.MISSING


def _shared_end(seen: bytes, tag: bytes) -> int:
    """How many bytes at the end may be the beginning of the tag."""
    longest = min(len(seen), len(tag) - 1)
    return next((size for size in range(longest, 0, -1) if seen.endswith(tag[:size])), 0)
