"""Where a verification stood after each file, so that a later one need not check again what has the same bytes.

The digest is of the very bytes that were checked, and what the next file has to begin with was computed from them. File
times and inodes are not asked: whoever may write a file can write it through a mapping, which moves none of them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from broker.audit.merkle import MerkleTree
from broker.audit.segment import SegmentFile, number_of
from broker.contract.wire import JsonObject, JsonValue
from broker.core.chain import HASH_BYTES

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A file that was checked from its beginning to its end, or all up to one, and where the log stood there."""

    number: int
    sha256: str
    seq: int  # of the record after it
    head: bytes
    epoch: int
    epoch_key: bytes
    peaks: tuple[bytes, ...]
    endorsed: bool  # not within a stretch that nobody had endorsed by then

    def tree(self) -> MerkleTree:
        return MerkleTree(self.seq, self.peaks)

    def to_json(self) -> JsonObject:
        return {
            "number": self.number,
            "sha256": self.sha256,
            "seq": self.seq,
            "head": self.head.hex(),
            "epoch": self.epoch,
            "epoch_key": self.epoch_key.hex(),
            "peaks": [peak.hex() for peak in self.peaks],
            "endorsed": self.endorsed,
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> Self:
        """Raises ValueError and KeyError."""
        if not isinstance(value, dict):
            raise ValueError("an object was expected")  # noqa: TRY004 - what is wrong is the content
        peaks = value["peaks"]
        return cls(
            number=int(str(value["number"])),
            sha256=str(value["sha256"]),
            seq=int(str(value["seq"])),
            head=bytes.fromhex(str(value["head"])),
            epoch=int(str(value["epoch"])),
            epoch_key=bytes.fromhex(str(value["epoch_key"])),
            peaks=tuple(bytes.fromhex(str(peak)) for peak in peaks) if isinstance(peaks, list) else (),
            endorsed=value["endorsed"] is True,
        )


def behind_all(files: Sequence[Passed]) -> Passed | None:
    """Where the log stands behind all of them, with one digest for all; None where that is no place to begin at."""
    if not files or not all(file.endorsed for file in files):
        return None
    return replace(files[-1], sha256=_digest_of(file.sha256 for file in files))


def is_unchanged(paths: Sequence[Path], before: Passed, heads: Iterable[tuple[int, str]]) -> bool:
    """Whether the files up to there have the same bytes, with more behind them, and hold these hashes.

    `heads` are numbers of records and their hashes, as far as they are known from elsewhere; those beyond are not
    looked for. A hash is found by its bytes: in a log that was checked no other record has it.
    """
    closed = paths[: before.number]
    if len(paths) <= len(closed) or [number_of(path) for path in closed] != list(range(1, before.number + 1)):
        return False
    missing = {bytes.fromhex(head) for seq, head in heads if seq < before.seq}
    try:
        digest = _digest_of(_digest_and_search(path, missing) for path in closed)
    except OSError:
        return False
    return digest == before.sha256 and not missing


def _digest_of(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _digest_and_search(path: Path, missing: set[bytes]) -> str:
    """In one pass, so that what is found stands in what is digested. Raises OSError."""
    digest, tail = hashlib.sha256(), b""
    with SegmentFile(path) as file:
        for offset in range(0, file.size_bytes, _READ_BYTES):
            content = file.read(offset, _READ_BYTES)
            digest.update(content)
            view = tail + content
            missing -= {needle for needle in missing if needle in view}
            tail = view[-HASH_BYTES:]
    return digest.hexdigest()
