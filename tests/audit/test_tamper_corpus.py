"""Every way of changing a log that we know of, each with its exact verdict, with and without the anchor."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit.disk import LocalDisk
from broker.audit.epoch import FileSeeds
from broker.audit.pin import Anchor
from broker.audit.verdict import EXIT_CODES, VerdictName
from tests.fakes.forger import CHECKPOINT, COMMIT, END, EPOCH, EVENT, FIELDS, RECOVERY, SEGMENT, Forger, Raw
from tests.fakes.logs import SmallLog, new_log, write_events

OK, UNANCHORED = VerdictName.OK, VerdictName.OK_UNANCHORED
TORN, UNSURE = VerdictName.TORN_TAIL, VerdictName.TORN_OR_TAMPERED
TRUNCATED, ALTERED = VerdictName.TRUNCATED, VerdictName.ALTERED
REORDERED, GAP = VerdictName.REORDERED, VerdictName.GAP
FORGED, ROLLBACK = VerdictName.FORGED_SIGNATURE, VerdictName.ROLLBACK
WRONG_LOG, EMPTY, UNREADABLE = VerdictName.WRONG_LOG, VerdictName.EMPTY_OR_MISSING, VerdictName.UNREADABLE


@dataclass(frozen=True, kw_only=True)
class Base:
    """A log with every record type in it, as it lay while its writer was alive, an older copy, and another log."""

    log: SmallLog
    frozen: Path
    anchor: Anchor
    older: Path
    older_anchor: Anchor
    other: Path
    todays_key: Ed25519PrivateKey


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    place = tmp_path_factory.mktemp("corpus")
    log, other = new_log(place / "mine"), new_log(place / "other")
    with log.writer() as writer:
        write_events(writer, 24)
    torn = log.segments()[-1]
    torn.write_bytes(torn.read_bytes() + b"\0\0\1\x50\3\0")  # what a killed writer may leave
    writer = log.open()
    write_events(writer, 12, first=24)
    older = Path(shutil.copytree(log.directory, place / "older"))
    older_anchor = log.anchor
    write_events(writer, 15, first=36)
    frozen = Path(shutil.copytree(log.directory, place / "frozen"))
    anchor = log.anchor
    held = FileSeeds(log.paths.seeds, bytes.fromhex(log.pin.log_id), LocalDisk()).held()
    writer.close()
    with other.writer() as foreign:
        write_events(foreign, 40)
    return Base(
        log=log,
        frozen=frozen,
        anchor=anchor,
        older=older,
        older_anchor=older_anchor,
        other=other.directory,
        todays_key=held[-1].private,
    )


@pytest.fixture
def forger(base: Base, tmp_path: Path) -> Forger:
    return Forger(base.frozen, tmp_path / "audit", pin=base.log.pin, anchor=base.anchor)


def judge(forger: Forger, with_anchor: VerdictName, without: VerdictName) -> None:
    anchored, alone = forger.verdict(anchored=True), forger.verdict(anchored=False)

    assert (with_anchor, without) == (anchored.verdict, alone.verdict), (anchored.to_json(), alone.to_json())
    assert (EXIT_CODES[with_anchor], EXIT_CODES[without]) == (anchored.exit_code, alone.exit_code)


def test_the_untouched_log_is_whole_and_holds_every_record_type(forger: Forger) -> None:
    judge(forger, OK, UNANCHORED)
    assert {SEGMENT, EPOCH, EVENT, COMMIT, CHECKPOINT, RECOVERY, END} == {record.kind for record in forger.records}
    assert len(forger.files) >= 3


MIDDLE = {
    "first segment": lambda forger: forger.first(SEGMENT),
    "second segment": lambda forger: forger.first(SEGMENT, after=1),
    "first epoch": lambda forger: forger.first(EPOCH),
    "epoch": lambda forger: forger.first(EPOCH, after=8),
    "event": lambda forger: forger.first(EVENT, after=12),
    "last event": lambda forger: forger.last(EVENT),
    "commit": lambda forger: forger.first(COMMIT, after=12),
    "checkpoint": lambda forger: forger.first(CHECKPOINT),
    "recovery": lambda forger: forger.first(RECOVERY),
    "end": lambda forger: forger.first(END),
}


@pytest.mark.parametrize("field", list(FIELDS))
@pytest.mark.parametrize("where", list(MIDDLE))
def test_a_flipped_bit_in_any_field_of_any_record_type_is_an_alteration(forger: Forger, where: str, field: str) -> None:
    record = MIDDLE[where](forger)
    forger.flip(record, field)

    judge(forger, ALTERED, ALTERED)
    verdict = forger.verdict(anchored=True)
    assert (record.file.name, record.offset, record.seq) == (verdict.segment, verdict.offset, verdict.seq)


@pytest.mark.parametrize(
    ("field", "without"),
    [
        ("length", ALTERED),
        ("type", UNSURE),  # a CHECKPOINT may be 64 bytes long, so this is a whole frame with a wrong hash
        ("flags", ALTERED),
        ("reserved", ALTERED),
        ("epoch", UNSURE),
        ("seq", ALTERED),
        ("payload", UNSURE),
        ("hash", UNSURE),
    ],
)
def test_a_flipped_bit_in_the_last_record_is_told_from_a_torn_write_by_the_anchor(
    forger: Forger, field: str, without: VerdictName
) -> None:
    forger.flip(forger.last(COMMIT), field)

    judge(forger, ALTERED, without)


Mutation = Callable[[Forger, Base], None]
CASES: dict[str, tuple[Mutation, VerdictName, VerdictName]] = {}


def case(name: str, with_anchor: VerdictName, without: VerdictName) -> Callable[[Mutation], Mutation]:
    def register(mutation: Mutation) -> Mutation:
        CASES[name] = (mutation, with_anchor, without)
        return mutation

    return register


@case("an event is deleted", GAP, GAP)
def _(forger: Forger, _: Base) -> None:
    forger.delete(forger.first(EVENT, after=12))


@case("an event is repeated", REORDERED, REORDERED)
def _(forger: Forger, _: Base) -> None:
    record = forger.first(EVENT, after=12)
    forger.insert(record, forger.bytes_of(record))


@case("two records change places", REORDERED, REORDERED)
def _(forger: Forger, _: Base) -> None:
    one = forger.first(EVENT, after=12)
    two = forger.first(COMMIT, after=12)
    forger.splice(one.file, one.offset, two.end, forger.bytes_of(two) + forger.bytes_of(one))


@case("a record of another log with the right number is put in", ALTERED, ALTERED)
def _(forger: Forger, base: Base) -> None:
    record = forger.first(EVENT, after=12)
    forger.insert(record, _same_number(base.other, record))


@case("a record of another log stands in for ours", ALTERED, ALTERED)
def _(forger: Forger, base: Base) -> None:
    record = forger.first(EVENT, after=12)
    forger.splice(record.file, record.offset, record.end, _same_number(base.other, record))


def _same_number(directory: Path, record: Raw) -> bytes:
    content = (directory / record.file.name).read_bytes()
    return content[record.offset : record.end]


@case("records are cut off at a COMMIT", TRUNCATED, UNANCHORED)
def _(forger: Forger, _: Base) -> None:
    commits = [record for record in forger.records if record.kind == COMMIT]
    forger.cut(commits[-2].file, commits[-2].end)


@case("the last COMMIT is cut off", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> None:
    forger.delete(forger.last(COMMIT))


@case("records are cut off inside a record", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> None:
    record = forger.last(EVENT)
    forger.cut(record.file, record.offset + 30)


@case("records are cut off inside a header", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> None:
    record = forger.last(EVENT)
    forger.cut(record.file, record.offset + 7)


@case("records are cut off at a checkpoint", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> None:
    record = forger.last(CHECKPOINT)
    forger.cut(record.file, record.end)
    for path in forger.files:
        if path.name > record.file.name:
            path.unlink()


@case("records are cut off inside a checkpoint", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> None:
    record = forger.last(CHECKPOINT)
    forger.cut(record.file, record.offset + 50)
    for path in forger.files:
        if path.name > record.file.name:
            path.unlink()


@case("a closed segment is cut inside a record", TRUNCATED, TRUNCATED)
def _(forger: Forger, _: Base) -> None:
    path = forger.files[0]
    forger.cut(path, path.stat().st_size - 20)


@case("a closed segment is cut at a COMMIT", GAP, GAP)
def _(forger: Forger, _: Base) -> None:
    commits = [record for record in forger.records if record.kind == COMMIT and record.file == forger.files[0]]
    forger.cut(forger.files[0], commits[-2].end)


@case("a closed segment loses its last COMMIT", GAP, GAP)
def _(forger: Forger, _: Base) -> None:
    commits = [record for record in forger.records if record.kind == COMMIT and record.file == forger.files[0]]
    forger.delete(commits[-1])


@case("an unfinished write stands at the end", TORN, UNSURE)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    forger.append(replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(80)).header() + b"sealed")


@case("an unfinished header stands at the end", TORN, UNSURE)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    forger.append(replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(80)).header()[:13])


@case("zeros stand at the end", TORN, UNSURE)
def _(forger: Forger, _: Base) -> None:
    forger.append(bytes(4096))


@case("garbage stands at the end", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.append(b"garbage that begins no record")


@case("a few bytes of garbage stand at the end", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.append(b"??")


@case("a hole of zeros in the middle", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    record = forger.first(EVENT, after=12)
    forger.overwrite(record, 0, bytes(record.size))


@case("a chained event without a signature is appended", UNSURE, UNSURE)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    extra = replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(80))
    forger.append(_chained(extra, last.hash))


@case("an event and a COMMIT with an invented signature are appended", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    extra = _chained(replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(80)), last.hash)
    forger.append(extra + _chained(replace(last, seq=last.seq + 2), extra[-32:]))


@case("an epoch is begun with the public key only", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    last, epoch = forger.records[-1], forger.last(EPOCH)
    forger.append(_chained(replace(epoch, epoch=epoch.epoch + 1, seq=last.seq + 1), last.hash))


@case("an epoch that nobody endorses has a signature", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    last, epoch = forger.records[-1], forger.last(EPOCH)
    payload = b"\3" + epoch.payload[1:]
    forger.append(_chained(replace(epoch, epoch=epoch.epoch + 1, seq=last.seq + 1, payload=payload), last.hash))


@case("an epoch is begun with an unknown endorser", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    last, epoch = forger.records[-1], forger.last(EPOCH)
    payload = b"\x09" + epoch.payload[1:]
    forger.append(_chained(replace(epoch, epoch=epoch.epoch + 1, seq=last.seq + 1, payload=payload), last.hash))


@case("an epoch is left out in the count", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    last, epoch = forger.records[-1], forger.last(EPOCH)
    forger.append(_chained(replace(epoch, epoch=epoch.epoch + 2, seq=last.seq + 1), last.hash))


@case("a record type that is reserved is appended", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    forger.append(_chained(replace(last, kind=7, seq=last.seq + 1), last.hash))


@case("an unknown record type is appended", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    forger.append(_chained(replace(last, kind=99, seq=last.seq + 1), last.hash))


@case("a COMMIT follows a COMMIT", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    forger.append(_chained(replace(last, seq=last.seq + 1), last.hash))


@case("the sequence jumps at the end", GAP, GAP)
def _(forger: Forger, _: Base) -> None:
    last = forger.records[-1]
    forger.append(_chained(replace(last, kind=EVENT, seq=last.seq + 9, payload=bytes(80)), last.hash))


def _chained(record: Raw, head: bytes) -> bytes:
    front = record.header() + record.payload
    return front + hashlib.sha256(head + front).digest()


@case("a length of 0xffffffff in the middle", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.overwrite(forger.first(EVENT, after=12), 0, b"\xff\xff\xff\xff")


@case("a length of 0 in the middle", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.overwrite(forger.first(EVENT, after=12), 0, b"\0\0\0\0")


@case("a length of 15 in the middle", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.overwrite(forger.first(EVENT, after=12), 0, b"\0\0\0\x0f")


@case("a length of 1 MiB and 1 in the last record", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.overwrite(forger.last(COMMIT), 0, b"\0\x10\0\1")


@case("a length that hides all records after it", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    body = 64 * 4000 + 32
    record = next(record for record in forger.records if record.kind == EVENT and record.file == forger.files[-1])
    forger.overwrite(record, 0, body.to_bytes(4, "big"))


@case("a sequence number beyond all counting", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    forger.overwrite(forger.first(EVENT, after=12), 12, b"\xff" * 8)


@case("a deny is changed to an allow", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    record = forger.first(EVENT, after=12)
    for at in range(20, 40):
        forger.overwrite(record, at, bytes([record.payload[at - 20] ^ 0x0A]))


@case("an event is changed and all is hashed anew without a key", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    victim = forger.first(EVENT, after=12)
    forger.rechain(lambda record: _zeroed(record) if record == victim else record)


@case("an event and its COMMIT are dropped and all is hashed anew without a key", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    event = next(record for record in forger.records if record.kind == EVENT and record.file == forger.files[-1])
    forger.rechain(lambda record: None if record.seq in {event.seq, event.seq + 1} else record)


@case("the only event of a group is dropped and all is hashed anew", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    event = next(record for record in forger.records if record.kind == EVENT and record.file == forger.files[-1])
    forger.rechain(lambda record: None if record == event else record)


@case("an old epoch is rewritten with today's key", FORGED, FORGED)
def _(forger: Forger, base: Base) -> None:
    victim = forger.first(EVENT, after=12)
    forger.rechain(lambda record: _zeroed(record) if record == victim else record, resign=base.todays_key)


@case("today's epoch is rewritten with today's key", ROLLBACK, UNANCHORED)
def _(forger: Forger, base: Base) -> None:
    victim = forger.last(EVENT)
    forger.rechain(lambda record: _zeroed(record) if record == victim else record, resign=base.todays_key)


@case("an epoch's key is exchanged and all is hashed anew", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    victim = forger.first(EPOCH, after=8)
    payload = victim.payload[:8] + bytes(32) + victim.payload[40:]
    forger.rechain(lambda record: replace(record, payload=payload) if record == victim else record)


@case("a COMMIT is dropped and all is hashed anew", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    commits = [record for record in forger.records if record.kind == COMMIT and record.file == forger.files[-1]]
    forger.rechain(lambda record: None if record == commits[1] else record)


@case("a COMMIT's signature is changed and all is hashed anew", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    victim = forger.first(COMMIT, after=12)
    forger.rechain(lambda record: _zeroed(record) if record == victim else record)


@case("a checkpoint is dropped and all is hashed anew", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    victim = forger.last(CHECKPOINT)
    forger.rechain(lambda record: None if record == victim else record)


@case("a checkpoint is changed and all is hashed anew", FORGED, FORGED)
def _(forger: Forger, _: Base) -> None:
    victim = forger.last(CHECKPOINT)
    payload = victim.payload.replace(b"\n%d\n" % victim.seq, b"\n%d\n" % (victim.seq + 1))
    forger.rechain(lambda record: replace(record, payload=payload) if record == victim else record)


def _zeroed(record: Raw) -> Raw:
    return replace(record, payload=bytes(len(record.payload)))


@case("the first segment is missing", GAP, GAP)
def _(forger: Forger, _: Base) -> None:
    forger.files[0].unlink()


@case("a middle segment is missing", GAP, GAP)
def _(forger: Forger, _: Base) -> None:
    forger.files[1].unlink()


@case("the last segment is missing", TRUNCATED, UNANCHORED)
def _(forger: Forger, _: Base) -> None:
    forger.files[-1].unlink()


@case("two segments change names", REORDERED, REORDERED)
def _(forger: Forger, _: Base) -> None:
    one, two = forger.files[1], forger.files[2]
    one.rename(forger.directory / "00009999.seg")
    two.rename(one)
    (forger.directory / "00009999.seg").rename(two)


@case("a segment is there twice, under the next number", REORDERED, REORDERED)
def _(forger: Forger, _: Base) -> None:
    last = forger.files[-1]
    shutil.copy(last, forger.directory / f"{int(last.stem) + 1:08d}.seg")


@case("a segment of another log follows", WRONG_LOG, WRONG_LOG)
def _(forger: Forger, base: Base) -> None:
    number = len(forger.files) + 1
    shutil.copy(base.other / "00000002.seg", forger.directory / f"{number:08d}.seg")


@case("a segment of another log stands in for ours", WRONG_LOG, WRONG_LOG)
def _(forger: Forger, base: Base) -> None:
    shutil.copy(base.other / "00000002.seg", forger.directory / "00000002.seg")


@case("the whole log is another one", WRONG_LOG, WRONG_LOG)
def _(forger: Forger, base: Base) -> None:
    shutil.rmtree(forger.directory)
    shutil.copytree(base.other, forger.directory)


@case("the last segment is emptied", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> None:
    forger.files[-1].write_bytes(b"")


@case("a middle segment is emptied", TRUNCATED, TRUNCATED)
def _(forger: Forger, _: Base) -> None:
    forger.files[1].write_bytes(b"")


@case("the first segment is emptied", TRUNCATED, TRUNCATED)
def _(forger: Forger, _: Base) -> None:
    forger.files[0].write_bytes(b"")


@case("an empty segment follows", TORN, UNSURE)
def _(forger: Forger, _: Base) -> None:
    (forger.directory / f"{len(forger.files) + 1:08d}.seg").write_bytes(b"")


@case("all segments are deleted", EMPTY, EMPTY)
def _(forger: Forger, _: Base) -> None:
    for path in forger.files:
        path.unlink()


@case("an older copy is put back", TRUNCATED, UNANCHORED)
def _(forger: Forger, base: Base) -> None:
    shutil.rmtree(forger.directory)
    shutil.copytree(base.older, forger.directory)


@case("a foreign file lies beside", UNREADABLE, UNREADABLE)
def _(forger: Forger, _: Base) -> None:
    (forger.directory / "note.txt").write_text("hello")


@case("the first segment is no log at all", UNREADABLE, UNREADABLE)
def _(forger: Forger, _: Base) -> None:
    forger.files[0].write_bytes(b"\x7fELF and so on, for a good many bytes" * 10)


@case("line ends were turned into CR LF", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    path = forger.files[0]
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@case("a segment is a symlink", UNREADABLE, UNREADABLE)
def _(forger: Forger, _: Base) -> None:
    path = forger.files[1]
    path.rename(forger.directory.parent / "elsewhere.seg")
    path.symlink_to(forger.directory.parent / "elsewhere.seg")


@case("a segment has a second name", UNREADABLE, UNREADABLE)
def _(forger: Forger, _: Base) -> None:
    os.link(forger.files[1], forger.directory.parent / "second")


@case("a segment is a FIFO", UNREADABLE, UNREADABLE)
def _(forger: Forger, _: Base) -> None:
    path = forger.files[1]
    path.unlink()
    os.mkfifo(path)


@case("a segment is a directory", UNREADABLE, UNREADABLE)
def _(forger: Forger, _: Base) -> None:
    path = forger.files[1]
    path.unlink()
    path.mkdir()


@case("a segment is larger than any", ALTERED, ALTERED)
def _(forger: Forger, _: Base) -> None:
    os.truncate(forger.files[-1], 1 << 40)


@pytest.mark.parametrize("name", list(CASES))
def test_the_verdict_is_exact_when(base: Base, forger: Forger, name: str) -> None:
    mutation, with_anchor, without = CASES[name]
    mutation(forger, base)

    judge(forger, with_anchor, without)


def test_an_older_copy_with_its_own_older_anchor_passes_at_this_rung(base: Base, tmp_path: Path) -> None:
    forger = Forger(base.older, tmp_path / "audit", pin=base.log.pin, anchor=base.older_anchor)

    judge(forger, OK, UNANCHORED)


def test_a_rewritten_old_epoch_is_named_at_its_first_bad_commit(base: Base, forger: Forger) -> None:
    victim = forger.first(EVENT, after=14)
    commit = forger.first(COMMIT, after=victim.seq)
    before = [record for record in forger.records if record.kind == COMMIT and record.seq < victim.seq][-1]
    forger.rechain(lambda record: _zeroed(record) if record == victim else record, resign=base.todays_key)
    verdict = forger.verdict(anchored=True)

    assert (commit.seq, before.seq) == (verdict.seq, verdict.proven_to)


def test_a_pin_of_another_log_fails_at_record_zero(base: Base, forger: Forger) -> None:
    wrong = replace(base.log.pin, root_key="00" * 32)
    verdict = forger.verdict(anchored=True, pin=wrong)

    assert (WRONG_LOG, 0, None) == (verdict.verdict, verdict.seq, verdict.proven_to)


def test_an_anchor_of_another_log_is_said_so(base: Base, forger: Forger) -> None:
    forger.anchor = replace(base.anchor, log_id="00" * 8)

    judge(forger, WRONG_LOG, UNANCHORED)


def test_an_anchor_with_another_hash_is_a_rollback(base: Base, forger: Forger) -> None:
    forger.anchor = replace(base.anchor, head="00" * 32)

    judge(forger, ROLLBACK, UNANCHORED)
