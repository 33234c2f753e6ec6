import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.chain import (
    END_BYTES,
    EPOCH_BYTES,
    HEADER,
    MAX_BODY,
    MAX_SEQ,
    RECOVERY_BYTES,
    SEGMENT_FIXED_BYTES,
    Chain,
    Damage,
    Fault,
    Place,
    Record,
    RecordType,
    find_record,
    genesis,
    header_of,
    payload_fits,
    seal_record,
)

START = b"\x07" * 32
SIZES = {
    RecordType.SEGMENT: SEGMENT_FIXED_BYTES,
    RecordType.EPOCH: EPOCH_BYTES,
    RecordType.EVENT: 80,
    RecordType.COMMIT: 64,
    RecordType.CHECKPOINT: 200,
    RecordType.RECOVERY: RECOVERY_BYTES,
    RecordType.END: END_BYTES,
}


def built(*kinds: RecordType, start: bytes = START, seq: int = 0, epoch: int = 0) -> bytes:
    """Well-chained records of these types, as a writer would put them into one file."""
    out, head = b"", start
    for kind in kinds:
        epoch += kind is RecordType.EPOCH
        size = SIZES[kind] + (32 * seq.bit_count() if kind is RecordType.SEGMENT else 0)
        header = header_of(kind, epoch=epoch, seq=seq, payload_bytes=size)
        record, head = seal_record(header, bytes([seq % 251]) * size, head)
        out += record
        seq += 1
    return out


OPENING = (RecordType.SEGMENT, RecordType.EPOCH, RecordType.COMMIT)
EVENT, COMMIT = RecordType.EVENT, RecordType.COMMIT


def after_opening() -> tuple[Chain, int]:
    chain = Chain(head=START)
    at = walked(chain, built(*OPENING))[1]
    return chain, at


def walked(chain: Chain, content: bytes, at: int = 0) -> tuple[list[Record], int, Damage | None]:
    records: list[Record] = []
    while True:
        found = chain.take(content, at, final=True)
        if not isinstance(found, Record):
            return records, at, found
        records.append(found)
        at += found.size_bytes


def test_a_chain_of_every_record_type_is_taken_as_it_was_written() -> None:
    kinds = (
        *OPENING,
        EVENT,
        RecordType.CHECKPOINT,
        RecordType.END,
        COMMIT,
        RecordType.RECOVERY,
        RecordType.EPOCH,
        COMMIT,
    )
    content = built(*kinds)
    chain = Chain(head=START)
    records, at, damage = walked(chain, content)

    assert list(kinds) == [record.kind for record in records]
    assert (len(content), None, Place.COMMITTED) == (at, damage, chain.place)
    assert content == b"".join(record.header + record.payload + record.hash for record in records)


def test_the_commit_after_an_end_lets_no_event_follow() -> None:
    chain = Chain(head=START)
    content = built(*OPENING, RecordType.CHECKPOINT, RecordType.END, COMMIT, EVENT)
    _, _, damage = walked(chain, content)

    assert damage is not None
    assert (Fault.ORDER, Place.STOPPED) == (damage.fault, chain.place)


def test_the_genesis_hash_depends_on_each_part_of_the_identity() -> None:
    parts = {"log_id": b"a" * 8, "audit_key": b"b" * 32, "first_epoch_key": b"c" * 32, "root_key": b"d" * 32}
    changed = {genesis(**{**parts, name: bytes(len(value))}) for name, value in parts.items()}

    assert 5 == len({genesis(**parts), *changed})


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8, 10, 12, 15, 19])
def test_the_beginning_of_the_due_header_may_be_the_rest_of_a_write(cut: int) -> None:
    chain, at = after_opening()
    content = built(*OPENING, EVENT)[: at + cut]

    assert chain.take(content, at, final=True) is None
    assert chain.take(content, at, final=False) is None


@pytest.mark.parametrize(
    "tail",
    [
        b"\1",
        b"\0\x11",
        b"\0\0\0\x60\x09",
        b"\0\0\0\x60\3\1",
        b"\0\0\0\x60\3\0\0\0\0\0\0\5",
        HEADER.pack(96, 3, 0, 0, 1, 0x900)[:19],
    ],
)
def test_other_bytes_than_the_due_header_are_no_rest_of_a_write(tail: bytes) -> None:
    chain, _ = after_opening()
    damage = chain.take(tail, 0, final=True)

    assert isinstance(damage, Damage)
    assert Fault.MALFORMED == damage.fault


def test_the_end_of_the_bytes_at_a_record_is_no_damage() -> None:
    chain, at = after_opening()

    assert chain.take(built(*OPENING), at, final=True) is None


def test_a_record_that_goes_on_past_the_window_is_waited_for() -> None:
    chain, at = after_opening()
    content = built(*OPENING, EVENT)

    assert chain.take(content[:-1], at, final=False) is None
    assert chain.take(content[:-1], at, final=True) is None
    assert isinstance(chain.take(content, at, final=True), Record)


@pytest.mark.parametrize(
    "header",
    [
        (15, 3, 0, 0, 1, 3),
        (MAX_BODY + 1, 3, 0, 0, 1, 3),
        (96, 3, 1, 0, 1, 3),
        (96, 3, 0, 1, 1, 3),
        (96, 3, 0, 0, 1, MAX_SEQ + 1),
        (96, 0, 0, 0, 1, 3),
        (96, 7, 0, 0, 1, 3),
        (96, 9, 0, 0, 1, 3),
        (97, 3, 0, 0, 1, 3),
        (32, 3, 0, 0, 1, 3),
    ],
)
def test_a_header_that_no_record_has_is_malformed(header: tuple[int, ...]) -> None:
    chain, _ = after_opening()
    damage = chain.take(HEADER.pack(*header) + bytes(200), 0, final=False)

    assert isinstance(damage, Damage)
    assert Fault.MALFORMED == damage.fault


def test_another_number_is_out_of_sequence_and_told() -> None:
    chain, at = after_opening()
    content = built(*OPENING, EVENT, COMMIT)
    second = built(*OPENING, EVENT)
    damage = chain.take(content[:at] + content[len(second) :], at, final=True)

    assert isinstance(damage, Damage)
    assert (Fault.SEQUENCE, 4) == (damage.fault, damage.seq)


def test_a_changed_number_on_the_right_record_is_told_from_another_record() -> None:
    chain, at = after_opening()
    content = bytearray(built(*OPENING, EVENT))
    content[at + 19] ^= 4
    damage = chain.take(bytes(content), at, final=True)

    assert isinstance(damage, Damage)
    assert Fault.NUMBER == damage.fault


@pytest.mark.parametrize("offset", [25, -1])
def test_a_changed_byte_breaks_the_hash(offset: int) -> None:
    chain, at = after_opening()
    content = bytearray(built(*OPENING, EVENT))
    content[at + offset if offset > 0 else offset] ^= 1
    damage = chain.take(bytes(content), at, final=True)

    assert isinstance(damage, Damage)
    assert Fault.HASH == damage.fault


def test_an_epoch_that_is_not_due_is_out_of_order() -> None:
    chain, at = after_opening()
    header = header_of(EVENT, epoch=5, seq=3, payload_bytes=80)
    record, _ = seal_record(header, bytes(80), chain.head)
    whole, part = chain.take(record, 0, final=True), chain.take(record[:60], 0, final=True)

    assert isinstance(whole, Damage)
    assert isinstance(part, Damage)
    assert (Fault.ORDER, Fault.MALFORMED) == (whole.fault, part.fault)
    assert at > 0


def test_a_file_is_left_only_after_a_commit() -> None:
    settled, _ = after_opening()
    open_group = Chain(head=START)
    walked(open_group, built(*OPENING, EVENT))

    assert (True, False) == (settled.enter_file(), open_group.enter_file())
    assert Place.FILE_START == settled.place


def test_a_copy_goes_its_own_way() -> None:
    chain, at = after_opening()
    twin = chain.copy()
    chain.take(built(*OPENING, EVENT), at, final=True)

    assert (3, 4) == (twin.seq, chain.seq)


@pytest.mark.parametrize(
    ("kind", "size", "seq", "fits"),
    [
        (RecordType.EVENT, 80, 0, True),
        (RecordType.EVENT, 16, 0, False),
        (RecordType.EVENT, 81, 0, False),
        (RecordType.COMMIT, 64, 0, True),
        (RecordType.COMMIT, 63, 0, False),
        (RecordType.EPOCH, 216, 0, True),
        (RecordType.SEGMENT, 192, 0, True),
        (RecordType.SEGMENT, 192 + 64, 5, True),
        (RecordType.SEGMENT, 192, 5, False),
        (RecordType.CHECKPOINT, 0, 0, False),
        (RecordType.CHECKPOINT, 8192, 0, True),
        (RecordType.CHECKPOINT, 8193, 0, False),
        (RecordType.RECOVERY, 64, 0, True),
        (RecordType.END, 8, 0, True),
        (RecordType.RETENTION, 8, 0, False),
        (77, 8, 0, False),
    ],
)
def test_each_type_has_its_lengths(kind: int, size: int, seq: int, fits: bool) -> None:  # noqa: FBT001 - a table
    assert fits is payload_fits(kind, size, seq)


# The fast lane accepts exactly what `take` accepts.

KINDS = st.lists(
    st.sampled_from([EVENT, EVENT, EVENT, COMMIT, COMMIT, RecordType.CHECKPOINT, RecordType.EPOCH, RecordType.END]),
    max_size=30,
)


@given(kinds=KINDS, flip=st.none() | st.tuples(st.integers(min_value=0), st.integers(0, 7)))
def test_running_gives_what_taking_one_by_one_gives(kinds: list[RecordType], flip: tuple[int, int] | None) -> None:
    content = bytearray(built(*OPENING, *kinds))
    if flip is not None:
        content[flip[0] % len(content)] ^= 1 << flip[1]
    slow, fast = Chain(head=START), Chain(head=START)
    records, end, damage = walked(slow, bytes(content))
    seen, at, hashes = 0, 0, list[bytes]()
    found: Record | Damage | None = None
    while True:
        at, _ = fast.run(bytes(content), at, hashes)
        found = fast.take(bytes(content), at, final=True)
        if not isinstance(found, Record):
            break
        hashes.append(found.hash)
        at += found.size_bytes
        seen += 1

    assert [record.hash for record in records] == hashes
    assert (end, damage) == (at, found)
    assert (slow.head, slow.seq, slow.epoch, slow.place) == (fast.head, fast.seq, fast.epoch, fast.place)


def test_running_tells_where_the_last_commit_began() -> None:
    chain, at = after_opening()
    content = built(*OPENING, EVENT, EVENT, COMMIT, EVENT)
    hashes: list[bytes] = []
    end, commit_at = chain.run(content, at, hashes)

    assert (len(content), len(built(*OPENING, EVENT, EVENT))) == (end, commit_at)
    assert (4, Place.EVENT) == (len(hashes), chain.place)


def test_running_takes_nothing_where_an_event_may_not_stand() -> None:
    hashes: list[bytes] = []

    assert (0, -1) == Chain(head=START).run(built(*OPENING), 0, hashes)
    assert [] == hashes


def test_running_takes_nothing_where_the_bytes_before_are_not_the_record_before() -> None:
    chain, at = after_opening()
    content = bytearray(built(*OPENING, EVENT))
    content[at - 1] ^= 1
    hashes: list[bytes] = []

    assert (at, -1) == chain.run(bytes(content), at, hashes)


@pytest.mark.parametrize("body", [MAX_BODY + 32, 32, 97])
def test_running_stops_at_a_length_that_no_event_has(body: int) -> None:
    chain, at = after_opening()
    front = HEADER.pack(body, EVENT, 0, 0, 1, 3) + bytes(body - 16)
    content = built(*OPENING) + front + hashlib.sha256(chain.head + front).digest()
    hashes: list[bytes] = []

    assert (at, -1) == chain.run(content, at, hashes)


def test_a_record_is_found_by_its_number() -> None:
    content = built(*OPENING, EVENT, COMMIT)
    at = len(built(*OPENING, EVENT))

    assert at == find_record(content, 4)
    assert -1 == find_record(content, 9)


def test_a_number_that_stands_in_no_header_is_not_taken_for_a_record() -> None:
    stray = b"\xff" * 40 + struct.pack(">Q", 4)

    assert len(stray) == find_record(stray + built(EVENT, seq=4), 4)
    assert -1 == find_record(stray, 4)
