"""Records changed, taken out, put in, cut off: by somebody who has the files and nothing else."""

from dataclasses import replace
from pathlib import Path

from tests.fakes.forger import CHECKPOINT, COMMIT, EPOCH, EVENT, Forger, Raw
from tests.tampering.corpus import (
    ALTERED,
    FORGED,
    GAP,
    REORDERED,
    TORN,
    TRUNCATED,
    UNANCHORED,
    UNSURE,
    Base,
    Found,
    Place,
    after,
    at,
    case,
    chained,
    commits,
    ends,
)


@case("an event is deleted", GAP, journal="entry left out")
def _(forger: Forger, _: Base) -> Found:
    record = forger.first(EVENT, after=12)
    forger.delete(record)
    return at(record)


@case("an event is repeated", REORDERED)
def _(forger: Forger, _: Base) -> Found:
    record = forger.first(EVENT, after=12)
    forger.insert(record, forger.bytes_of(record))
    return after(record)


@case("two records change places", REORDERED)
def _(forger: Forger, _: Base) -> Found:
    one, two = forger.first(EVENT, after=12), forger.first(COMMIT, after=12)
    forger.splice(one.file, one.offset, two.end, forger.bytes_of(two) + forger.bytes_of(one))
    return at(one)


@case("a record of another log with the right number is put in", ALTERED)
def _(forger: Forger, base: Base) -> Found:
    record = forger.first(EVENT, after=12)
    forger.insert(record, _same_number(base.other, record))
    return at(record)


@case("a record of another log stands in for ours", ALTERED)
def _(forger: Forger, base: Base) -> Found:
    record = forger.first(EVENT, after=12)
    forger.splice(record.file, record.offset, record.end, _same_number(base.other, record))
    return at(record)


@case("two logs are spliced inside a file", ALTERED)
def _(forger: Forger, base: Base) -> Found:
    record = forger.first(EVENT, after=12)
    rest = (base.other / record.file.name).read_bytes()[record.offset :]
    forger.splice(record.file, record.offset, record.file.stat().st_size, rest)
    return at(record)


def _same_number(directory: Path, record: Raw) -> bytes:
    content = (directory / record.file.name).read_bytes()
    return content[record.offset : record.end]


@case("records are cut off at a COMMIT", TRUNCATED, UNANCHORED, journal="last 4 KiB cut off")
def _(forger: Forger, _: Base) -> Found:
    last = commits(forger)[-2]
    forger.cut(last.file, last.end)
    return after(last), ends(last)


@case("the last COMMIT is cut off", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    forger.delete(forger.last(COMMIT))
    return after(commits(forger)[-1])


@case("records are cut off inside a record", TRUNCATED, UNSURE, journal="half cut off")
def _(forger: Forger, _: Base) -> Found:
    record, before = forger.last(EVENT), commits(forger)[-2]
    forger.cut(record.file, record.offset + 30)
    return after(before)


@case("records are cut off inside a header", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    record, before = forger.last(EVENT), commits(forger)[-2]
    forger.cut(record.file, record.offset + 7)
    return after(before)


@case("records are cut off at a checkpoint", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    return _cut_to(forger, forger.last(CHECKPOINT).size)


@case("records are cut off inside a checkpoint", TRUNCATED, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    return _cut_to(forger, 50)


def _cut_to(forger: Forger, size: int) -> Found:
    record = forger.last(CHECKPOINT)
    before = [commit for commit in commits(forger) if commit.seq < record.seq][-1]
    forger.cut(record.file, record.offset + size)
    for path in forger.files:
        if path.name > record.file.name:
            path.unlink()
    return after(before)


@case("a closed segment is cut inside a record", TRUNCATED)
def _(forger: Forger, _: Base) -> Found:
    last = commits(forger, forger.files[0])[-1]
    forger.cut(last.file, last.end - 20)
    return at(last)


@case("a closed segment is cut at a COMMIT", GAP)
def _(forger: Forger, _: Base) -> Found:
    last = commits(forger, forger.files[0])[-2]
    forger.cut(last.file, last.end)
    return after(last)._replace(segment=forger.files[1].name, offset=0)


@case("a closed segment loses its last COMMIT", GAP)
def _(forger: Forger, _: Base) -> Found:
    last = commits(forger, forger.files[0])[-1]
    forger.delete(last)
    return at(last)._replace(segment=forger.files[1].name, offset=0)


def _due(forger: Forger, ahead: int = 1) -> Raw:
    last = forger.records[-1]
    return replace(last, kind=EVENT, seq=last.seq + ahead, payload=bytes(80))


@case("an unfinished write stands at the end", TORN, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(_due(forger).header() + b"sealed")
    return after(last)


@case("an unfinished header stands at the end", TORN, UNSURE)
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(_due(forger).header()[:13])
    return after(last)


@case("zeros stand at the end", TORN, UNSURE, journal="zeros at the end")
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(bytes(4096))
    return after(last)


@case("garbage stands at the end", ALTERED, journal="garbage at the end")
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(b"garbage that begins no record")
    return after(last)


@case("a few bytes of garbage stand at the end", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(b"??")
    return after(last)


@case("a hole of zeros in the middle", ALTERED, journal="hole of zeros")
def _(forger: Forger, _: Base) -> Found:
    record = forger.first(EVENT, after=12)
    forger.overwrite(record, 0, bytes(record.size))
    return at(record)


@case("a length of 0xffffffff in the middle", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _length(forger, b"\xff\xff\xff\xff")


@case("a length of 0 in the middle", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _length(forger, b"\0\0\0\0")


@case("a length of 15 in the middle", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _length(forger, b"\0\0\0\x0f")


@case("a length that hides all records after it", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    record = next(record for record in forger.records if record.kind == EVENT and record.file == forger.files[-1])
    forger.overwrite(record, 0, (64 * 4000 + 32).to_bytes(4, "big"))
    return at(record)


@case("a length of 1 MiB and 1 in the last record", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    record = forger.last(COMMIT)
    forger.overwrite(record, 0, b"\0\x10\0\1")
    return at(record)


def _length(forger: Forger, length: bytes) -> Found:
    record = forger.first(EVENT, after=12)
    forger.overwrite(record, 0, length)
    return at(record)


@case("a sequence number beyond all counting", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    record = forger.first(EVENT, after=12)
    forger.overwrite(record, 12, b"\xff" * 8)
    return at(record)


@case("a deny is changed to an allow", ALTERED, journal="byte flipped")
def _(forger: Forger, _: Base) -> Found:
    record = forger.first(EVENT, after=12)
    for place in range(20, 40):
        forger.overwrite(record, place, bytes([record.payload[place - 20] ^ 0x0A]))
    return at(record)


# What was appended by somebody who can hash.


@case("a chained event without a signature is appended", UNSURE, journal="entry added")
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(chained(_due(forger), last.hash))
    return after(last)


@case("an event and a COMMIT with an invented signature are appended", FORGED)
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    extra = chained(_due(forger), last.hash)
    forger.append(extra + chained(replace(last, seq=last.seq + 2), extra[-32:]))
    return Place(last.file.name, last.end + len(extra), last.seq + 2)


@case("an epoch that nobody endorses has a signature", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _epoch(forger, endorser=3)


@case("an epoch is begun with an unknown endorser", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _epoch(forger, endorser=9)


@case("an epoch is begun in the root's name", FORGED)
def _(forger: Forger, _: Base) -> Found:
    return _epoch(forger, endorser=2)


@case("an epoch is begun with the public key only", FORGED)
def _(forger: Forger, _: Base) -> Found:
    return _epoch(forger, endorser=1)


@case("an epoch is left out in the count", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _epoch(forger, endorser=1, ahead=2)


def _epoch(forger: Forger, *, endorser: int, ahead: int = 1) -> Found:
    last, epoch = forger.records[-1], forger.last(EPOCH)
    payload = bytes([endorser]) + epoch.payload[1:]
    forger.append(chained(replace(epoch, epoch=epoch.epoch + ahead, seq=last.seq + 1, payload=payload), last.hash))
    return after(last)


@case("a record type that is reserved is appended", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _appended(forger, replace(forger.records[-1], kind=7))


@case("an unknown record type is appended", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _appended(forger, replace(forger.records[-1], kind=99))


@case("a COMMIT follows a COMMIT", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    return _appended(forger, forger.records[-1])


@case("unknown flags are set in an appended event", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    last, due = forger.records[-1], _due(forger)
    forger.append(chained(replace(due, flags=0x80), last.hash))
    return after(last)


def _appended(forger: Forger, record: Raw) -> Found:
    last = forger.records[-1]
    forger.append(chained(replace(record, seq=last.seq + 1), last.hash))
    return after(last)


@case("the sequence jumps at the end", GAP)
def _(forger: Forger, _: Base) -> Found:
    last = forger.records[-1]
    forger.append(chained(_due(forger, 9), last.hash))
    return after(last)
