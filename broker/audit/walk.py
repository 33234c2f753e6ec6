"""One pass over one segment file in bounded memory: the only way that records reach verifier, reader and writer.

It feeds windows of the file to the strict parser of broker/core/chain.py and says where and why it stopped.
It checks framing, numbers, hashes and order; signatures and seals are the caller's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from broker.audit.segment import SegmentFile
from broker.core.chain import HASH_BYTES, HEADER_BYTES, SIGNATURE_BYTES, Chain, Damage, Record, parse_header

WINDOW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Many EVENT and COMMIT records at once: their hashes, and the last COMMIT among them.

    The first stands at `at` in `window`, after the hash of the record before it.
    """

    first_seq: int
    hashes: list[bytes]
    commit: Record | None
    commit_offset: int
    window: bytes
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where the walk ended. Without damage the file just ends, `tail_bytes` after the last whole record."""

    offset: int
    tail_bytes: int
    damage: Damage | None


class Walk:
    """Iterate once over `records()` or `stretches()`, then look at `stop`. Both raise OSError."""

    def __init__(self, file: SegmentFile, chain: Chain, *, offset: int = 0) -> None:
        self.stop: Stop | None = None
        self._file = file
        self._chain = chain
        self._window = b""
        self._base = offset  # where in the file the window begins
        self._at = 0

    @property
    def offset(self) -> int:
        """Where in the file the next record begins."""
        return self._base + self._at

    def records(self) -> Iterator[tuple[int, Record]]:
        """Every record with its offset."""
        while (record := self._next()) is not None:
            yield self.offset - record.size_bytes, record

    def stretches(self) -> Iterator[tuple[int, Record | Stretch]]:
        """Like `records`, with runs of EVENT and COMMIT records taken together, which is many times faster."""
        while True:
            stretch = self._stretch()
            if stretch is not None:
                yield stretch.commit_offset, stretch
            record = self._next()
            if record is None:
                return
            yield self.offset - record.size_bytes, record

    def peek(self, count: int) -> bytes:
        """The bytes where the walk stopped, as far as there are any."""
        return self._window[self._at : self._at + count]

    def rest(self) -> Iterator[bytes]:
        """What follows the place where the walk stopped, in windows that overlap by a header. Raises OSError."""
        overlap = HEADER_BYTES
        at = self.offset
        while at < self._file.size_bytes:
            window = self._file.read(at, WINDOW_BYTES)
            if not window:
                return
            yield window
            at += len(window) if at + len(window) >= self._file.size_bytes else max(len(window) - overlap, 1)

    def _next(self) -> Record | None:
        while True:
            final = self._base + len(self._window) >= self._file.size_bytes
            found = self._chain.take(self._window, self._at, final=final)
            if isinstance(found, Record):
                self._at += found.size_bytes
                return found
            if found is not None or final or not self._more():
                tail = self._file.size_bytes - self.offset
                self.stop = Stop(offset=self.offset, tail_bytes=tail, damage=found)
                return None

    def _stretch(self) -> Stretch | None:
        hashes: list[bytes] = []
        first = self._chain.seq
        before = self._at
        self._at, commit_at = self._chain.run(self._window, before, hashes)
        if not hashes:
            return None
        commit = None if commit_at < 0 else self._commit(commit_at)
        return Stretch(
            first_seq=first,
            hashes=hashes,
            commit=commit,
            commit_offset=self._base + commit_at,
            window=self._window,
            at=before,
        )

    def _commit(self, at: int) -> Record | None:
        window, payload_at = self._window, at + HEADER_BYTES
        header = parse_header(window, at)
        if header is None:
            return None
        end = payload_at + SIGNATURE_BYTES
        return Record(
            kind=header.kind,
            epoch=header.epoch,
            seq=header.seq,
            previous=window[at - HASH_BYTES : at],
            header=window[at:payload_at],
            payload=window[payload_at:end],
            hash=window[end : end + HASH_BYTES],
        )

    def _more(self) -> bool:
        end = self._base + len(self._window)
        fresh = self._file.read_on(end, WINDOW_BYTES)
        keep = max(0, self._at - HASH_BYTES)  # the hash before the next record stays in view
        self._window = self._window[keep:] + fresh
        self._base += keep
        self._at -= keep
        return bool(fresh)
