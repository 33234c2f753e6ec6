"""Appending to the log, one group commit at a time: build, write once, sync once, check the file; then the anchor.

State moves on only after the bytes are durable. What can follow the receipts (anchor, tree, a look at the path) is
left to `tidy`, which runs before anything else is written. Any OSError means that this appender must not be used
again: the writer turns the first one into poison. Not safe for two threads at once.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from broker.audit.anchor_file import AnchorFile
from broker.audit.disk import Disk, sync_directory, write_fully
from broker.audit.endorse import Sign, add_checkpoint, add_epoch, checked_root, unsigned
from broker.audit.epoch import EpochKey, SeedHome, new_epoch_key
from broker.audit.group import Group
from broker.audit.limits import WriterLimits
from broker.audit.merkle import MerkleTree
from broker.audit.open_segment import OpenSegment
from broker.audit.payload import Endorser, EndReason, LogIdentity, Recovery, SegmentHead, pack_end
from broker.audit.seal import EpochReason, Ratchet, new_opening
from broker.audit.segment import RESERVE
from broker.core.chain import RecordType

_FOLD_AT = 128  # records that the tree may lag behind


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a log stands at its last COMMIT: all that a writer needs to go on."""

    segment: int
    offset: int
    seq: int  # of the next record
    head: bytes
    epoch: int
    epoch_key: bytes  # the verify key in force there
    tree: MerkleTree


class Appender:
    """The log's end. `head` and `seq` speak of durable records only. Begin an epoch before anything else.

    `key` signs at the end: None where its seed was lost. The root, where it is lent, is checked before it is believed.
    """

    def __init__(
        self,
        *,
        directory: Path,
        identity: LogIdentity,
        end: LogEnd,
        key: EpochKey | None,
        seeds: SeedHome,
        anchor: AnchorFile,
        disk: Disk,
        clock: Callable[[], int],
        limits: WriterLimits,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._key = key
        self._epoch_key = end.epoch_key
        self._seeds = seeds
        self._anchor = anchor
        self._disk = disk
        self._clock = clock
        self._limits = limits
        self._tree = end.tree
        self._unfolded: list[bytes] = []  # hashes that the tree does not have yet
        self._untidy = False
        self._segment = OpenSegment(directory, end.segment, create=end.offset == 0)
        self._ratchet: Ratchet | None = None
        self._epoch_events = 0
        self._epoch_since_ms = 0
        self._chain_epoch = end.epoch
        self.head = end.head
        self.seq = end.seq

    # -- what a writer asks for

    def make_room(self) -> int:
        """How many events the epoch takes, beginning another one, or another file, where it is due. Raises OSError."""
        taken, limits = self._epoch_events, self._limits
        if self._segment.offset >= limits.segment_bytes:
            self.next_segment()
        elif taken >= limits.epoch_events:
            self.new_epoch(EpochReason.EVENTS)
        elif taken and self._clock() - self._epoch_since_ms >= limits.epoch_ms:
            self.new_epoch(EpochReason.AGE)
        return limits.epoch_events - self._epoch_events

    def segment_is_full(self) -> bool:
        return self._segment.offset >= self._limits.segment_bytes

    def write_events(self, plains: Sequence[bytes]) -> list[bytes]:
        """The hash of each, durable; the first has the number that `seq` was before. Raises OSError."""
        ratchet = self._ratchet
        if ratchet is None:
            raise OSError("no epoch has begun")
        group = self._group()
        group.add_events(plains, ratchet)
        self._publish(group, self._signing())
        self._epoch_events += len(plains)
        return group.hashes[:-1]

    def tidy(self) -> None:
        """What the last group left to do. Raises OSError."""
        if not self._untidy:
            return
        self._untidy = False
        segment = self._segment
        self._anchor.write(
            seq=self.seq - 1,
            segment=segment.number,
            offset=segment.offset,
            head=self.head,
            epoch_key=self._epoch_key,
        )
        if len(self._unfolded) >= _FOLD_AT:
            self._fold()

    @property
    def endorsed(self) -> bool:
        """Whether somebody vouches for the key in force: the key before it, or the root."""
        return self._key is not None and self._key.endorsed

    def first_epoch(self, key: EpochKey, sign_with_root: Sign) -> None:
        """The log's first group, endorsed by the root. Raises OSError."""
        group = self._group()
        sync_directory(self._directory)
        group.add(RecordType.SEGMENT, self._segment_head().pack())
        self._turn(group, EpochReason.CREATED, key, Endorser.ROOT, sign_with_root)
        self.tidy()

    def begin(self, *, recovery: Recovery | None = None, root: Sign | None = None) -> None:
        """The epoch of a start: endorsed by the root where it is lent, else by the key held, else by nobody.

        Raises OSError, and AuditError where the root does not sign.
        """
        group = self._group()
        if recovery is not None:
            group.add(RecordType.RECOVERY, recovery.pack())
        self._next_epoch(group, EpochReason.START, self._checked(root))
        self.tidy()
        self._anchor.sync()

    def begin_file(self, *, root: Sign) -> None:
        """The same in a file of its own, after one that can't be continued. Raises OSError and AuditError."""
        group = self._group()
        sync_directory(self._directory)
        group.add(RecordType.SEGMENT, self._segment_head().pack())
        self._next_epoch(group, EpochReason.START, self._checked(root))
        self.tidy()
        self._anchor.sync()

    def new_epoch(self, reason: EpochReason, *, root: Sign | None = None, adopt: bool = False) -> bytes:
        """A checkpoint closes the epoch, with a line of the root where it is lent; then the next key is endorsed.

        The root endorses it if it shall adopt, and in a lineage that nobody endorsed. Raises OSError and AuditError.
        """
        group, signing = self._group(), self._checked(root)
        note = self._add_checkpoint(group, signing)
        self._next_epoch(group, reason, signing if adopt or not self.endorsed else None)
        self.tidy()
        self._anchor.sync()
        return note

    def checkpoint(self, *, root: Sign | None = None) -> bytes:
        """Write one now; the note. Raises OSError and AuditError."""
        group = self._group()
        note = self._add_checkpoint(group, self._checked(root))
        self._publish(group, self._signing())
        self.tidy()
        self._anchor.sync()
        return note

    def next_segment(self, *, root: Sign | None = None) -> None:
        """Close this file with a checkpoint and go on in the next, which the root adopts where it is lent.

        Raises OSError and AuditError.
        """
        group, signing = self._group(), self._checked(root)
        self._add_checkpoint(group, signing)
        self._publish(group, self._signing())
        self.tidy()
        finished = self._segment
        self._segment = OpenSegment(self._directory, finished.number + 1, create=True)
        finished.close()
        sync_directory(self._directory)  # a file whose name is lost is lost
        group = self._group()
        group.add(RecordType.SEGMENT, self._segment_head().pack())
        self._next_epoch(group, EpochReason.SEGMENT, signing)
        self.tidy()
        self._anchor.sync()

    def stop(self, reason: EndReason) -> None:
        """The last words: a checkpoint, an END. Raises OSError."""
        group = self._group()
        self._add_checkpoint(group)
        group.add(RecordType.END, pack_end(reason))
        self._publish(group, self._signing())
        self.tidy()
        self._anchor.sync()

    def last_words(self, fault: OSError) -> None:
        """On a full disk: take back the unfinished write, give the reserve's room back, and end the log in order."""
        if fault.errno != errno.ENOSPC or self._segment.offset == 0:
            return
        with suppress(OSError):  # the torn tail stays then, as after a power cut
            os.ftruncate(self._segment.descriptor, self._segment.offset)
            (self._directory / RESERVE).unlink()
            self.stop(EndReason.DISK_FULL)

    def close(self) -> None:
        self._segment.close()
        self._anchor.close()

    # -- building

    def _group(self) -> Group:
        self.tidy()
        return Group(log_id=self._identity.log_id, head=self.head, seq=self.seq, epoch=self._chain_epoch)

    def _fold(self) -> MerkleTree:
        """The tree over all records that are durable. Many leaves at once cost half of one at a time."""
        self._tree.extend(self._unfolded)
        self._unfolded.clear()
        return self._tree

    def _segment_head(self) -> SegmentHead:
        return SegmentHead(
            identity=self._identity,
            number=self._segment.number,
            epoch_key=self._epoch_key,
            previous=self.head,
            peaks=self._fold().peaks,
        )

    def _signing(self) -> EpochKey:
        if self._key is None:
            raise OSError("no epoch has begun")
        return self._key

    def _checked(self, root: Sign | None) -> Sign | None:
        return None if root is None else checked_root(root, self._identity.root_key)

    def _add_checkpoint(self, group: Group, root: Sign | None = None) -> bytes:
        return add_checkpoint(
            group, identity=self._identity, tree_root=self._fold().root(), key=self._signing(), root=root
        )

    def _next_epoch(self, group: Group, reason: EpochReason, root: Sign | None) -> None:
        before, number = self._key, self._chain_epoch + 1
        if root is not None:
            self._turn(group, reason, new_epoch_key(number), Endorser.ROOT, root)
        elif before is not None:
            key = new_epoch_key(number, endorsed=before.endorsed)
            self._turn(group, reason, key, Endorser.EPOCH, before.sign)
        else:
            self._turn(group, reason, new_epoch_key(number, endorsed=False), Endorser.NOBODY, unsigned)

    def _turn(self, group: Group, reason: EpochReason, key: EpochKey, endorser: Endorser, sign: Sign) -> None:
        """In this order: keep the next seed, make its EPOCH durable, destroy the old seed."""
        opening = new_opening(reason, self._clock())
        ratchet = add_epoch(group, identity=self._identity, key=key, opening=opening, endorser=endorser, sign=sign)
        self._seeds.keep(key)
        self._publish(group, key)
        self._key, self._epoch_key, self._ratchet = key, key.public, ratchet
        self._epoch_events = 0
        self._epoch_since_ms = self._clock()
        self._seeds.destroy_all_but(key.number)

    # -- writing

    def _publish(self, group: Group, key: EpochKey) -> None:
        """The one place where bytes reach the log."""
        content = group.close(key.sign)
        segment = self._segment
        segment.still_ours()  # nothing is written behind what somebody else did
        write_fully(segment.descriptor, content, self._disk)
        self._disk.sync(segment.descriptor)
        segment.offset += len(content)
        segment.still_ours()
        self._unfolded.extend(group.hashes)
        self.head, self.seq, self._chain_epoch = group.head, group.seq, group.epoch
        self._untidy = True
