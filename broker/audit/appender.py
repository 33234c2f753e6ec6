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

from broker.audit.checkpoint import signed_note
from broker.audit.disk import PRIVATE_FILE, Disk, sync_directory, write_fully
from broker.audit.epoch import EpochKey, SeedStore, endorsement_message, new_epoch_key
from broker.audit.group import Group
from broker.audit.limits import WriterLimits
from broker.audit.merkle import MerkleTree
from broker.audit.payload import (
    Endorser,
    EndReason,
    EpochEntry,
    LogIdentity,
    Recovery,
    SegmentHead,
    pack_end,
)
from broker.audit.pin import Anchor, AnchorFile
from broker.audit.seal import EpochReason, Ratchet, new_opening, seal_opening
from broker.audit.segment import RESERVE, segment_name
from broker.core.chain import EPOCH_BYTES, RecordType


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """Where a log stands at its last COMMIT: all that a writer needs to go on."""

    segment: int
    offset: int
    seq: int  # of the next record
    head: bytes
    epoch: int
    tree: MerkleTree


class OpenSegment:
    """The file that grows, and what must stay true of it while we hold it."""

    def __init__(self, directory: Path, number: int, *, create: bool) -> None:
        """Raises OSError."""
        self.number = number
        self.path = directory / segment_name(number)
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self.descriptor = os.open(self.path, flags, PRIVATE_FILE)
        status = os.fstat(self.descriptor)
        self.offset = status.st_size
        self._identity = (status.st_dev, status.st_ino)

    def still_whole(self) -> None:
        """Raises OSError where the file was deleted, linked, cut, or written by somebody else."""
        status = os.fstat(self.descriptor)
        if status.st_nlink != 1:
            raise OSError(f"{self.path.name} was deleted or linked while it was written")
        if status.st_size != self.offset:
            raise OSError(f"{self.path.name} has {status.st_size} bytes where {self.offset} were written")

    def still_in_place(self) -> None:
        """Raises OSError where another file stands under our name."""
        status = os.lstat(self.path)
        if (status.st_dev, status.st_ino) != self._identity:
            raise OSError(f"{self.path.name} was replaced while it was written")

    def close(self) -> None:
        os.close(self.descriptor)


class Appender:
    """The log's end. `head` and `seq` speak of durable records only."""

    def __init__(
        self,
        *,
        directory: Path,
        identity: LogIdentity,
        end: LogEnd,
        key: EpochKey,
        seeds: SeedStore,
        anchor: AnchorFile,
        disk: Disk,
        clock: Callable[[], int],
        limits: WriterLimits,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._log_id = identity.log_id.hex()
        self._key = key
        self._seeds = seeds
        self._anchor = anchor
        self._disk = disk
        self._clock = clock
        self._limits = limits
        self._tree = end.tree
        self._unfolded: list[bytes] = []  # hashes that the tree does not have yet
        self._anchor_due: Anchor | None = None
        self._segment = OpenSegment(directory, end.segment, create=end.offset == 0)
        self._ratchet: Ratchet | None = None
        self._epoch_events = 0
        self._epoch_since_ms = 0
        self._chain_epoch = end.epoch
        self.head = end.head
        self.seq = end.seq

    # -- what a writer asks for

    def epoch_is_over(self) -> EpochReason | None:
        """Why the next event needs a new epoch; None where it does not."""
        if self._epoch_events >= self._limits.epoch_events:
            return EpochReason.EVENTS
        expired = self._clock() - self._epoch_since_ms >= self._limits.epoch_ms
        return EpochReason.AGE if expired and self._epoch_events else None

    def events_left(self) -> int:
        """How many events the epoch still takes."""
        return self._limits.epoch_events - self._epoch_events

    def segment_is_full(self) -> bool:
        return self._segment.offset >= self._limits.segment_bytes

    def write_events(self, plains: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Number and hash of each, durable. Raises OSError."""
        ratchet = self._ratchet
        if ratchet is None:
            raise OSError("no epoch has begun")
        group = self._group()
        places = [group.add_event(plain, ratchet) for plain in plains]
        self._publish(group, self._key)
        self._epoch_events += len(plains)
        return places

    def tidy(self) -> None:
        """What the last group left to do. Raises OSError."""
        if self._anchor_due is None:
            return
        self._segment.still_in_place()
        self._anchor.write(self._anchor_due)
        self._anchor_due = None
        self._tree.extend(self._unfolded)
        self._unfolded.clear()

    def new_epoch(self, reason: EpochReason, *, recovery: Recovery | None = None) -> None:
        """A checkpoint closes the epoch, if it wrote anything; then the next key is endorsed. Raises OSError."""
        group = self._group()
        if recovery is not None:
            group.add(RecordType.RECOVERY, recovery.pack())
        elif self._ratchet is not None:
            self._add_checkpoint(group)
        self._begin_epoch(group, reason)
        self.tidy()
        self._anchor.sync()

    def first_epoch(self, key: EpochKey, sign_with_root: Callable[[bytes], bytes]) -> None:
        """The log's first group, endorsed by the root. Raises OSError."""
        group = self._group()
        sync_directory(self._directory)
        group.add(RecordType.SEGMENT, self._segment_head().pack())
        self._seeds.keep(key)
        ratchet = self._add_epoch(group, EpochReason.CREATED, key, Endorser.ROOT, sign_with_root)
        self._publish(group, key)
        self._took_epoch(key, ratchet)
        self.tidy()

    def next_segment(self) -> None:
        """Close this file with a checkpoint and go on in the next. Raises OSError."""
        group = self._group()
        self._add_checkpoint(group)
        self._publish(group, self._key)
        self.tidy()
        self._segment.close()
        self._segment = OpenSegment(self._directory, self._segment.number + 1, create=True)
        sync_directory(self._directory)  # a file whose name is lost is lost
        group = self._group()
        group.add(RecordType.SEGMENT, self._segment_head().pack())
        self._begin_epoch(group, EpochReason.SEGMENT)
        self.tidy()
        self._anchor.sync()

    def stop(self, reason: EndReason) -> None:
        """The last words: a checkpoint, an END. Raises OSError."""
        group = self._group()
        self._add_checkpoint(group)
        group.add(RecordType.END, pack_end(reason))
        self._publish(group, self._key)
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

    def _segment_head(self) -> SegmentHead:
        return SegmentHead(
            identity=self._identity,
            number=self._segment.number,
            epoch_key=self._key.public,
            previous=self.head,
            peaks=self._tree.peaks,
        )

    def _add_checkpoint(self, group: Group) -> None:
        if group.hashes:
            raise OSError("a checkpoint opens its group")  # its tree must hold all records before it
        note = signed_note(log_id=self._identity.log_id, size=group.seq, root=self._tree.root(), key=self._key)
        group.add(RecordType.CHECKPOINT, note)

    def _begin_epoch(self, group: Group, reason: EpochReason) -> None:
        """In this order: keep the next seed, make its EPOCH durable, destroy the old seed."""
        key = new_epoch_key(self._chain_epoch + 1)
        self._seeds.keep(key)
        ratchet = self._add_epoch(group, reason, key, Endorser.EPOCH, self._key.sign)
        self._publish(group, key)
        self._took_epoch(key, ratchet)
        self._seeds.destroy_all_but(key.number)

    def _add_epoch(
        self, group: Group, reason: EpochReason, key: EpochKey, endorser: Endorser, sign: Callable[[bytes], bytes]
    ) -> Ratchet:
        identity = self._identity
        opening = new_opening(reason, self._clock())
        sealed = seal_opening(
            opening,
            audit_key=identity.audit_key,
            log_id=identity.log_id,
            epoch=key.number,
            epoch_key=key.public,
        )

        def entry(previous: bytes, header: bytes) -> bytes:
            message = endorsement_message(
                log_id=identity.log_id,
                previous=previous,
                header=header,
                endorser=endorser,
                key=key.public,
                sealed=sealed,
            )
            return EpochEntry(endorser=endorser, key=key.public, signature=sign(message), sealed=sealed).pack()

        group.epoch = key.number
        group.add_signed(RecordType.EPOCH, EPOCH_BYTES, entry)
        return Ratchet(opening.secret)

    def _took_epoch(self, key: EpochKey, ratchet: Ratchet) -> None:
        self._key = key
        self._ratchet = ratchet
        self._epoch_events = 0
        self._epoch_since_ms = self._clock()

    # -- writing

    def _publish(self, group: Group, key: EpochKey) -> None:
        """The one place where bytes reach the log."""
        content = group.close(key.sign)
        segment = self._segment
        write_fully(segment.descriptor, content, self._disk)
        self._disk.sync(segment.descriptor)
        segment.offset += len(content)
        segment.still_whole()
        self._anchor_due = Anchor(
            log_id=self._log_id,
            seq=group.seq - 1,
            segment=segment.number,
            offset=segment.offset,
            head=group.head.hex(),
            epoch_key=key.public.hex(),
        )
        self._unfolded.extend(group.hashes)
        self.head, self.seq, self._chain_epoch = group.head, group.seq, group.epoch
