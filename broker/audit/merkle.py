"""The RFC 6962 Merkle tree over all records (leaf data: a record's hash), kept as its peaks alone.

Memory is logarithmic in the number of records, whether records come one by one or ten thousand at once.
"""

import hashlib
from collections.abc import Sequence

_LEAF = b"\0"
_NODE = b"\1"


class MerkleTree:
    """Grows only. `peaks` are the roots of its perfect subtrees, largest (leftmost) first."""

    __slots__ = ("_levels", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Raises ValueError where the peaks can't be those of a tree of this size."""
        if len(peaks) != size.bit_count():
            raise ValueError("a tree of this size has another number of peaks")
        self.size = size
        remaining = list(peaks)
        self._levels: list[bytes | None] = [
            remaining.pop() if size >> level & 1 else None for level in range(size.bit_length())
        ]

    def extend(self, hashes: Sequence[bytes]) -> None:
        nodes = _leaves(hashes)
        self.size += len(nodes)
        level = 0
        while nodes:
            if level == len(self._levels):
                self._levels.append(None)
            waiting = self._levels[level]
            if waiting is not None:
                nodes.insert(0, waiting)
            self._levels[level] = nodes.pop() if len(nodes) & 1 else None
            nodes = _parents(nodes)
            level += 1

    @property
    def peaks(self) -> tuple[bytes, ...]:
        return tuple(peak for peak in reversed(self._levels) if peak is not None)

    def root(self) -> bytes:
        peaks = self.peaks
        if not peaks:
            return hashlib.sha256(b"").digest()
        root = peaks[-1]
        for peak in reversed(peaks[:-1]):
            root = hashlib.sha256(_NODE + peak + root).digest()
        return root


def _leaves(hashes: Sequence[bytes]) -> list[bytes]:
    """A copy of a hash that was begun costs less than a new one; of both there is one for each record."""
    begun, found = hashlib.sha256(_LEAF).copy, list[bytes]()
    add = found.append
    for leaf in hashes:
        node = begun()
        node.update(leaf)
        add(node.digest())
    return found


def _parents(nodes: Sequence[bytes]) -> list[bytes]:
    begun, found, pairs = hashlib.sha256(_NODE).copy, list[bytes](), iter(nodes)
    add = found.append
    for left, right in zip(pairs, pairs, strict=True):
        node = begun()
        node.update(left)
        node.update(right)
        add(node.digest())
    return found
