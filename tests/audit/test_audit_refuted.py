"""What the holder of today's key may write, and where its records contradict the log all the same."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.checkpoint import note_body, origin_of, signature_line, signed_note
from broker.audit.disk import LocalDisk
from broker.audit.epoch import EpochKey, FileSeeds, endorsement_message, new_epoch_key
from broker.audit.group import Group
from broker.audit.merkle import MerkleTree
from broker.audit.payload import Endorser, EpochEntry, Recovery, SegmentHead
from broker.audit.verdict import VerdictName
from broker.core.chain import EPOCH_BYTES, RecordType
from tests.fakes.forger import records_of
from tests.fakes.logs import SmallLog, new_log, paths_in, write_events

ALTERED, WHOLE = VerdictName.ALTERED, VerdictName.OK_UNANCHORED
CHECKPOINT, END, EVENT = RecordType.CHECKPOINT, RecordType.END, RecordType.EVENT


class Insider:
    """Goes on with a log by hand, with the key of its last epoch."""

    def __init__(self, log: SmallLog) -> None:
        self.log = log
        self.log_id = bytes.fromhex(log.pin.log_id)
        self.key: EpochKey = FileSeeds(log.paths.seeds, self.log_id, LocalDisk()).held()[0]
        self.records = [record for path in log.segments() for record in records_of(path)]
        last = self.records[-1]
        self.group = Group(log_id=self.log_id, head=last.hash, seq=last.seq + 1, epoch=last.epoch)
        self.tree = MerkleTree()
        self.tree.extend([record.hash for record in self.records])

    def epoch(self, endorser: Endorser, by: Ed25519PrivateKey) -> None:
        key = new_epoch_key(self.group.epoch + 1)
        sealed = bytes(112)

        def entry(previous: bytes, header: bytes) -> bytes:
            message = endorsement_message(
                log_id=self.log_id, previous=previous, header=header, endorser=endorser, key=key.public, sealed=sealed
            )
            return EpochEntry(endorser=endorser, key=key.public, signature=by.sign(message), sealed=sealed).pack()

        self.group.epoch += 1
        self.group.add_signed(RecordType.EPOCH, EPOCH_BYTES, entry)
        self.key = key

    def checkpoint(self) -> None:
        tree = MerkleTree(self.tree.size, self.tree.peaks)
        tree.extend(self.group.hashes)
        self.group.add(CHECKPOINT, signed_note(log_id=self.log_id, size=tree.size, root=tree.root(), key=self.key))

    def head(self, *, number: int = 2, peaks: tuple[bytes, ...] | None = None, previous: bytes | None = None) -> None:
        head = SegmentHead(
            identity=self.log.pin.identity(),
            number=number,
            epoch_key=self.key.public,
            previous=previous or self.group.head,
            peaks=self.tree.peaks if peaks is None else peaks,
        )
        self.group.add(RecordType.SEGMENT, head.pack())

    def publish(self, *, name: str = "") -> VerdictName:
        """Close the group, write it, and ask for the verdict."""
        path = self.log.directory / name if name else self.log.segments()[-1]
        with path.open("ab") as file:
            file.write(self.group.close(self.key.sign))
        return self.log.verdict(anchored=False).verdict


@pytest.fixture
def insider(tmp_path: Path) -> Insider:
    made = new_log(tmp_path / "first")
    writer = made.open()
    write_events(writer, 3)
    shutil.copytree(made.base, tmp_path / "killed")
    writer.close()
    return Insider(replace(made, base=tmp_path / "killed", paths=paths_in(tmp_path / "killed")))


def test_what_a_writer_would_have_written_is_whole(insider: Insider) -> None:
    insider.checkpoint()
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert WHOLE == insider.publish()


def test_an_epoch_may_be_endorsed_by_the_root_anywhere(insider: Insider) -> None:
    root = Ed25519PrivateKey.from_private_bytes(insider.log.secrets.root_seed.reveal())
    insider.epoch(Endorser.ROOT, root)

    assert WHOLE == insider.publish()


@pytest.mark.parametrize("endorser", [Endorser.EPOCH, Endorser.ROOT])
def test_an_epoch_endorsed_by_a_stranger_is_forged(insider: Insider, endorser: Endorser) -> None:
    insider.epoch(endorser, Ed25519PrivateKey.generate())

    assert VerdictName.FORGED_SIGNATURE == insider.publish()


def test_a_signature_where_nobody_endorses_is_refuted(insider: Insider) -> None:
    insider.epoch(Endorser.NOBODY, insider.key.private)

    assert ALTERED == insider.publish()


@pytest.mark.parametrize(("genuine", "expected"), [(True, WHOLE), (False, VerdictName.FORGED_SIGNATURE)])
def test_a_checkpoint_may_be_countersigned_by_the_root(
    insider: Insider,
    genuine: bool,  # noqa: FBT001 - a table
    expected: VerdictName,
) -> None:
    root = Ed25519PrivateKey.from_private_bytes(insider.log.secrets.root_seed.reveal())
    public, origin = root.public_key().public_bytes_raw(), origin_of(insider.log_id)
    body = note_body(origin, insider.tree.size, insider.tree.root())
    note = signed_note(log_id=insider.log_id, size=insider.tree.size, root=insider.tree.root(), key=insider.key)
    line = signature_line(origin, public, body, root.sign if genuine else lambda _: bytes(64))
    insider.group.add(CHECKPOINT, note + line)

    assert expected == insider.publish()


def test_a_checkpoint_of_another_tree_is_refuted(insider: Insider) -> None:
    note = signed_note(log_id=insider.log_id, size=insider.tree.size, root=bytes(32), key=insider.key)
    insider.group.add(CHECKPOINT, note)

    assert ALTERED == insider.publish()


def test_a_checkpoint_of_another_log_is_refuted(insider: Insider) -> None:
    origin = origin_of(insider.log_id)
    body = note_body("doorward/other", insider.tree.size, insider.tree.root())
    line = signature_line(f"{origin}/epoch/{insider.key.number}", insider.key.public, body, insider.key.sign)
    insider.group.add(CHECKPOINT, body + b"\n" + line)

    assert ALTERED == insider.publish()


def test_a_checkpoint_that_is_no_note_is_refuted(insider: Insider) -> None:
    insider.group.add(CHECKPOINT, b"hello")

    assert ALTERED == insider.publish()


def test_an_end_without_a_known_reason_is_refuted(insider: Insider) -> None:
    insider.checkpoint()
    insider.group.add(END, bytes(8))

    assert ALTERED == insider.publish()


def test_nothing_but_a_new_start_follows_an_end(insider: Insider) -> None:
    insider.checkpoint()
    insider.group.add(END, b"\1" + bytes(7))
    assert WHOLE == insider.publish()
    again = Insider(insider.log)
    again.group.add(EVENT, bytes(80))

    assert ALTERED == again.publish()


def test_a_recovery_that_tells_of_another_place_is_refuted(insider: Insider) -> None:
    entry = Recovery(segment=1, offset=7, cut_bytes=1, sha256=bytes(32), anchored_seq=None)
    insider.group.add(RecordType.RECOVERY, entry.pack())
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert ALTERED == insider.publish()


def test_a_next_segment_as_a_writer_begins_it_is_whole(insider: Insider) -> None:
    insider.head()
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert WHOLE == insider.publish(name="00000002.seg")


def test_a_segment_with_another_tree_is_refuted(insider: Insider) -> None:
    insider.head(peaks=tuple(bytes(32) for _ in insider.tree.peaks))
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert ALTERED == insider.publish(name="00000002.seg")


def test_a_segment_that_continues_another_history_is_refuted(insider: Insider) -> None:
    insider.group.head = b"x" * 32
    insider.head()
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert ALTERED == insider.publish(name="00000002.seg")


@pytest.mark.parametrize(("shift", "expected"), [(-2, VerdictName.REORDERED), (4, VerdictName.GAP)])
def test_a_segment_that_begins_at_another_number_is_named(insider: Insider, shift: int, expected: VerdictName) -> None:
    insider.group.seq += shift
    insider.head(peaks=(bytes(32),) * insider.group.seq.bit_count())
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert expected == insider.publish(name="00000002.seg")


def test_a_segment_after_records_without_a_commit_is_refuted(insider: Insider) -> None:
    insider.group.add(EVENT, bytes(80))
    path = insider.log.segments()[-1]
    unsigned = Group(log_id=insider.log_id, head=insider.records[-1].hash, seq=insider.group.seq - 1, epoch=2)
    unsigned.add(EVENT, bytes(80))
    path.write_bytes(path.read_bytes() + b"".join(unsigned._parts))
    insider.group = Group(log_id=insider.log_id, head=unsigned.head, seq=unsigned.seq, epoch=2)
    insider.tree.extend(unsigned.hashes)
    insider.head()
    insider.epoch(Endorser.EPOCH, insider.key.private)

    assert ALTERED == insider.publish(name="00000002.seg")


def test_an_anchor_that_lags_still_counts_and_is_told(insider: Insider) -> None:
    lagging = insider.log.anchor
    insider.checkpoint()
    insider.publish()
    verdict = insider.log.verdict()

    assert (VerdictName.OK, lagging.seq + 2) == (verdict.verdict, verdict.proven_to)
    assert f"vouched for up to record {lagging.seq}" in verdict.note
