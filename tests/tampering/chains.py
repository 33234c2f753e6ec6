"""Histories written anew: without a key, with today's key, with a key of one's own, by a second writer."""

import shutil
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.fakes.forger import CHECKPOINT, COMMIT, EPOCH, EVENT, Forger, Raw
from tests.tampering.corpus import (
    ALTERED,
    FORGED,
    OK,
    REORDERED,
    ROLLBACK,
    TRUNCATED,
    UNANCHORED,
    Base,
    Found,
    Place,
    after,
    at,
    case,
    chained,
    commits,
    ends,
    zeroed,
)


def _first_commit_from(forger: Forger, record: Raw) -> Raw:
    return forger.first(COMMIT, after=record.seq)


@case("an event is changed and all is hashed anew without a key", FORGED, journal="rebuilt, deny changed to allow")
def _(forger: Forger, _: Base) -> Found:
    victim = forger.first(EVENT, after=12)
    forger.rechain(lambda record: zeroed(record) if record == victim else record)
    return at(_first_commit_from(forger, victim))


@case("an event and its COMMIT are dropped and all is hashed anew without a key", FORGED)
def _(forger: Forger, _: Base) -> Found:
    event = next(record for record in forger.records if record.kind == EVENT and record.file == forger.files[-1])
    forger.rechain(lambda record: None if record.seq in {event.seq, event.seq + 1} else record)
    return at(_first_commit_from(forger, event))


@case("the only event of a group is dropped and all is hashed anew", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    event = next(record for record in forger.records if record.kind == EVENT and record.file == forger.files[-1])
    forger.rechain(lambda record: None if record == event else record)
    return at(event)  # a COMMIT stands there now, and none may


@case("an old epoch is rewritten with today's key", FORGED)
def _(forger: Forger, base: Base) -> Found:
    victim = forger.first(EVENT, after=12)
    forger.rechain(lambda record: zeroed(record) if record == victim else record, resign=base.todays_key)
    return at(_first_commit_from(forger, victim))


@case("today's epoch is rewritten with today's key", ROLLBACK, UNANCHORED)
def _(forger: Forger, base: Base) -> Found:
    victim, anchor = forger.last(EVENT), base.anchor
    forger.rechain(lambda record: zeroed(record) if record == victim else record, resign=base.todays_key)
    return Place(f"{anchor.segment:08d}.seg", anchor.offset, anchor.seq), ends(forger.records[-1])


@case("today's epoch is gone on with, with today's key", OK, UNANCHORED)
def _(forger: Forger, base: Base) -> Found:
    """The account's owner can: only a checkpoint kept elsewhere and what the vault can't open tell of it."""
    last, log_id = forger.records[-1], bytes.fromhex(base.log.pin.log_id)
    event = chained(replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(80)), last.hash)
    commit = replace(last, seq=last.seq + 2)
    signature = base.todays_key.sign(b"doorward/audit/commit/v1\0" + log_id + event[-32:] + commit.header())
    forger.append(event + chained(replace(commit, payload=signature), event[-32:]))
    return ends(forger.records[-1])


@case("an epoch's key is exchanged and all is hashed anew", FORGED)
def _(forger: Forger, _: Base) -> Found:
    victim = forger.first(EPOCH, after=8)
    payload = victim.payload[:8] + bytes(32) + victim.payload[40:]
    forger.rechain(lambda record: replace(record, payload=payload) if record == victim else record)
    return at(victim)


@case("an epoch is dropped and all is hashed anew", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    victim = forger.first(EPOCH, after=8)
    forger.rechain(lambda record: None if record == victim else record)
    return at(victim)


@case("a COMMIT is dropped and all is hashed anew", FORGED)
def _(forger: Forger, _: Base) -> Found:
    victim = commits(forger, forger.files[-1])[1]
    forger.rechain(lambda record: None if record == victim else record)
    return at(_first_commit_from(forger, victim))


@case("a COMMIT's signature is changed and all is hashed anew", FORGED)
def _(forger: Forger, _: Base) -> Found:
    victim = forger.first(COMMIT, after=12)
    forger.rechain(lambda record: zeroed(record) if record == victim else record)
    return at(victim)


@case("a checkpoint that closes an epoch is dropped and all is hashed anew", FORGED)
def _(forger: Forger, _: Base) -> Found:
    pairs = zip(forger.records, forger.records[1:], strict=False)
    victim = next(one for one, two in pairs if (one.kind, two.kind) == (CHECKPOINT, EPOCH) and one.seq > 12)
    forger.rechain(lambda record: None if record == victim else record)
    return at(victim)  # the EPOCH stands there now


@case("a checkpoint that stands alone is dropped and all is hashed anew", ALTERED)
def _(forger: Forger, _: Base) -> Found:
    victim = forger.last(CHECKPOINT)
    forger.rechain(lambda record: None if record == victim else record)
    return at(victim)  # a COMMIT stands there now, and none may


@case("a checkpoint's size is changed and all is hashed anew", FORGED)
def _(forger: Forger, _: Base) -> Found:
    victim = forger.last(CHECKPOINT)
    payload = victim.payload.replace(b"\n%d\n" % victim.seq, b"\n%d\n" % (victim.seq + 1))
    forger.rechain(lambda record: replace(record, payload=payload) if record == victim else record)
    return at(victim)


@case("somebody without a key goes on in an epoch that nobody endorses", FORGED)
def _(forger: Forger, base: Base) -> Found:
    last = forger.records[-1]
    _stranger(forger, base)
    return after(last)


@case("the same, in the place of the last records", FORGED)
def _(forger: Forger, base: Base) -> Found:
    last = commits(forger)[-3]
    forger.cut(last.file, last.end)
    _stranger(forger, base)
    return after(last)


@case("the same, and then a torn write", FORGED)
def _(forger: Forger, base: Base) -> Found:
    last = forger.records[-1]
    _stranger(forger, base)
    forger.append(b"\0\0\0")
    return after(last)


@case("the same, behind a RECOVERY of nothing", FORGED)
def _(forger: Forger, base: Base) -> Found:
    last = forger.records[-1]
    recovery = replace(last, kind=6, seq=last.seq + 1, payload=_recovery(last))
    forger.append(chained(recovery, last.hash))
    behind = forger.records[-1]
    _stranger(forger, base)
    return after(behind)


def _recovery(last: Raw) -> bytes:
    return int(last.file.stem).to_bytes(4, "big") + bytes(4) + last.end.to_bytes(8, "big") + bytes(40) + b"\xff" * 8


def _stranger(forger: Forger, base: Base) -> None:
    """An epoch of a key of one's own, with an event and a COMMIT that this key signed."""
    key, log_id = Ed25519PrivateKey.generate(), bytes.fromhex(base.log.pin.log_id)
    last, epoch = forger.records[-1], forger.last(EPOCH)
    payload = b"\3" + bytes(7) + key.public_key().public_bytes_raw() + bytes(64) + epoch.payload[104:]
    began = replace(epoch, epoch=last.epoch + 1, seq=last.seq + 1, payload=payload)
    first = chained(began, last.hash)
    event = chained(replace(began, kind=EVENT, seq=last.seq + 2, payload=bytes(80)), first[-32:])
    commit = replace(began, kind=COMMIT, seq=last.seq + 3, payload=bytes(64))
    signature = key.sign(b"doorward/audit/commit/v1\0" + log_id + event[-32:] + commit.header())
    forger.append(first + event + chained(replace(commit, payload=signature), event[-32:]))


@case("a second writer went on from an older copy", ROLLBACK, UNANCHORED)
def _(forger: Forger, base: Base) -> Found:
    shutil.rmtree(forger.directory)
    shutil.copytree(base.fork, forger.directory)
    anchor, last = base.anchor, forger.records[-1]
    if last.seq < anchor.seq:
        raise ValueError("the fork has to be longer than the log, to show more than that it is short")
    return Place(f"{anchor.segment:08d}.seg", anchor.offset, anchor.seq), ends(last)


@case("what a second writer wrote is put behind ours", REORDERED)
def _(forger: Forger, base: Base) -> Found:
    last, start = forger.records[-1], base.older_anchor
    fork = base.fork / f"{start.segment:08d}.seg"
    forger.append(fork.read_bytes()[start.offset :])
    return after(last)


@case("a second writer's last file stands behind our earlier ones", ROLLBACK, UNANCHORED)
def _(forger: Forger, base: Base) -> Found:
    for path in forger.files:
        if path.name >= f"{base.older_anchor.segment:08d}.seg":
            path.unlink()
    for path in sorted(base.fork.glob("*.seg")):
        if path.name >= f"{base.older_anchor.segment:08d}.seg":
            shutil.copy(path, forger.directory / path.name)
    anchor = base.anchor
    return Place(f"{anchor.segment:08d}.seg", anchor.offset, anchor.seq), ends(forger.records[-1])


@case("an older copy is put back", TRUNCATED, UNANCHORED, journal="older copy put back")
def _(forger: Forger, base: Base) -> Found:
    shutil.rmtree(forger.directory)
    shutil.copytree(base.older, forger.directory)
    last = forger.records[-1]
    return after(last), ends(last)


def older_with_its_anchor(base: Base, target: Path) -> Forger:
    """What nobody on the machine can tell from the real thing, at this rung."""
    return Forger(base.older, target, pin=base.log.pin, anchor=base.older_anchor)
