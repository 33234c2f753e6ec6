import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit import AuditError
from broker.audit.group import Group
from broker.audit.payload import Endorser, EpochEntry
from broker.audit.reader import hash_of, read_events, stands_somewhere
from broker.audit.seal import EpochReason, Ratchet, new_opening, seal_opening
from broker.core.chain import RecordType
from broker.core.secret import Secret
from tests.fakes.forger import EPOCH, EVENT, Forger, Raw, records_of
from tests.fakes.logs import SmallLog, an_event, new_log, write_events


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    made = new_log(tmp_path / "first")
    with made.writer() as writer:
        write_events(writer, 40)
    return made


def test_every_event_comes_back_as_it_was_written(log: SmallLog) -> None:
    expected = [an_event(number).encode() for number in range(40)]
    events = [event for _, event in read_events(log.directory, log.secrets.audit_sk)]

    assert [line.decode() for line in expected] == [_canonical(event) for event in events]


def _canonical(event: object) -> str:
    return json.dumps(event, sort_keys=True, separators=(",", ":"))


def test_each_event_comes_with_the_number_of_its_record(log: SmallLog) -> None:
    numbers = [record.seq for path in log.segments() for record in records_of(path) if record.kind == EVENT]

    assert numbers == [seq for seq, _ in read_events(log.directory, log.secrets.audit_sk)]


def test_reading_may_begin_anywhere(log: SmallLog) -> None:
    whole = list(read_events(log.directory, log.secrets.audit_sk))
    for seq, _ in whole:
        assert [pair for pair in whole if pair[0] >= seq] == list(
            read_events(log.directory, log.secrets.audit_sk, start_seq=seq)
        )


def test_reading_past_the_end_gives_nothing(log: SmallLog) -> None:
    assert [] == list(read_events(log.directory, log.secrets.audit_sk, start_seq=1 << 40))


def test_another_key_is_refused(log: SmallLog) -> None:
    with pytest.raises(AuditError, match="not the key of this log"):
        next(read_events(log.directory, Secret(b"k" * 32)))


def test_a_directory_without_a_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="holds no log"):
        next(read_events(tmp_path, Secret(b"k" * 32)))
    with pytest.raises(AuditError, match="can't be read"):
        next(read_events(tmp_path / "nowhere", Secret(b"k" * 32)))


def test_what_was_not_committed_is_not_given(log: SmallLog) -> None:
    path = log.segments()[-1]
    os.truncate(path, [record for record in records_of(path) if record.kind == EVENT][-1].end)

    assert 39 == sum(1 for _ in read_events(log.directory, log.secrets.audit_sk))


def test_a_break_in_the_chain_ends_the_reading_and_is_told(log: SmallLog, tmp_path: Path) -> None:
    forger = Forger(log.directory, tmp_path / "copy", pin=log.pin, anchor=log.anchor)
    victim = forger.first(EVENT, after=40)
    forger.flip(victim, "payload")
    *before, (seq, last) = read_events(forger.directory, log.secrets.audit_sk)

    assert victim.seq == seq
    assert "broken here" in str(last["unreadable"])
    assert not any("unreadable" in event for _, event in before)


def test_a_file_that_is_no_segment_is_told(log: SmallLog) -> None:
    log.segments()[0].write_bytes(b"hello" * 100)
    items = list(read_events(log.directory, log.secrets.audit_sk))

    assert 1 == len(items)
    assert "SEGMENT" in str(items[0][1]["unreadable"])


def test_an_event_sealed_by_a_stranger_is_told_and_passed_over(log: SmallLog, tmp_path: Path) -> None:
    forger = Forger(log.directory, tmp_path / "copy", pin=log.pin, anchor=log.anchor)
    victim = forger.first(EVENT, after=20)
    forger.rechain(lambda record: _sealed_anew(record) if record == victim else record)
    events = dict(read_events(forger.directory, log.secrets.audit_sk))

    assert {"unreadable": "its seal does not open"} == events[victim.seq]
    assert 40 == len(events)


def _sealed_anew(record: Raw) -> Raw:
    return replace(record, payload=Ratchet(Secret(b"s" * 32)).seal(bytes(len(record.payload) - 16), b""))


def test_an_epoch_whose_secret_does_not_open_is_told_event_by_event(log: SmallLog, tmp_path: Path) -> None:
    forger = Forger(log.directory, tmp_path / "copy", pin=log.pin, anchor=log.anchor)
    last = forger.last(EPOCH)
    spoiled = replace(last, payload=last.payload[:-1] + bytes([last.payload[-1] ^ 1]))
    forger.rechain(lambda record: spoiled if record == last else record)
    lost = [event for _, event in read_events(forger.directory, log.secrets.audit_sk) if "unreadable" in event]
    written = [record for record in forger.records if record.kind == EVENT and record.epoch == last.epoch]

    assert len(written) == len(lost) > 0
    assert {"unreadable": "its epoch's secret does not open"} == lost[0]


@pytest.mark.parametrize("plain", [b"[1]", b"{", b'{"a":1,"a":2}', b"\xff\xfe", b'{"a":NaN}', b"[" * 200 + b"]" * 200])
def test_a_content_that_is_no_event_is_told(tmp_path: Path, plain: bytes) -> None:
    log = new_log(tmp_path)
    last = records_of(log.segments()[0])[-1]
    log_id, audit_key = bytes.fromhex(log.pin.log_id), bytes.fromhex(log.pin.audit_key)
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    opening = new_opening(EpochReason.START, 1)
    sealed = seal_opening(opening, audit_key=audit_key, log_id=log_id, epoch=2, epoch_key=public)
    group = Group(log_id=log_id, head=last.hash, seq=last.seq + 1, epoch=2)
    entry = EpochEntry(endorser=Endorser.EPOCH, key=public, signature=bytes(64), sealed=sealed)
    group.add(RecordType.EPOCH, entry.pack())
    ratchet = Ratchet(opening.secret)
    group.add_events([plain, an_event(1).encode()], ratchet)
    with log.segments()[0].open("ab") as file:
        file.write(group.close(key.sign))
    (_, bad), (_, good) = read_events(log.directory, log.secrets.audit_sk)

    assert "not an event" in str(bad["unreadable"])
    assert "event" in good


def test_the_hash_of_a_record_is_the_one_in_its_file(log: SmallLog) -> None:
    for path in log.segments():
        for record in records_of(path):
            assert record.hash.hex() == hash_of(log.directory, record.seq)
    assert hash_of(log.directory, 1 << 40) is None


def test_a_record_behind_a_break_has_no_hash(log: SmallLog) -> None:
    path = log.segments()[0]
    first, *_, last = records_of(path)
    content = bytearray(path.read_bytes())
    content[content.index(first.hash)] ^= 1
    path.write_bytes(content)

    assert hash_of(log.directory, last.seq) is None
    assert stands_somewhere(log.directory, last.hash.hex())
    assert not stands_somewhere(log.directory, "0" * 64)


def test_a_file_that_is_no_segment_has_no_hashes_and_one_that_is_gone_is_told(log: SmallLog) -> None:
    path = log.segments()[0]
    path.write_bytes(b"nothing of ours")
    assert hash_of(log.directory, 3) is None
    path.unlink()
    path.symlink_to("elsewhere")

    with pytest.raises(AuditError, match="can't be read"):
        hash_of(log.directory, 3)
