"""The parts of the audit log that stand on their own: tree, notes, seals, keys, pins, anchors, files."""

import base64
import errno
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from broker.audit import AuditError
from broker.audit.checkpoint import key_id, note_body, origin_of, parse_note, signature_line, signed_note
from broker.audit.create import create_log
from broker.audit.disk import LocalDisk, open_regular, read_private_file, write_durably
from broker.audit.epoch import FileSeeds, epoch_key, new_epoch_key, signature_holds
from broker.audit.merkle import MerkleTree
from broker.audit.payload import (
    EndReason,
    Recovery,
    consistent_head,
    pack_end,
    unpack_end,
    unpack_epoch,
    unpack_recovery,
    unpack_segment,
)
from broker.audit.pin import ANCHOR_BYTES, Anchor, Pin
from broker.audit.seal import EpochReason, Ratchet, new_opening, open_opening, pad, seal_opening, unpad
from broker.contract.wire import canonical
from broker.core.secret import Secret
from tests.fakes.logs import FaultyDisk, TickingClock, new_log, paths_in

# The Merkle tree, against the definition of RFC 6962


def root_of(leaves: list[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


@given(groups=st.lists(st.lists(st.binary(min_size=32, max_size=32), max_size=20), max_size=8))
def test_a_tree_grown_in_groups_has_the_root_of_the_definition(groups: list[list[bytes]]) -> None:
    tree, leaves = MerkleTree(), list[bytes]()
    for group in groups:
        tree.extend(group)
        leaves += group

        assert root_of(leaves) == tree.root()
        assert len(leaves) == tree.size
    twin = MerkleTree(tree.size, tree.peaks)
    twin.extend([b"x" * 32])

    assert root_of([*leaves, b"x" * 32]) == twin.root()


def test_peaks_that_do_not_fit_the_size_are_refused() -> None:
    with pytest.raises(ValueError, match="peaks"):
        MerkleTree(3, [bytes(32)])


# Notes


LOG_ID = bytes(range(8))
KEY = epoch_key(7, b"7" * 32)


def a_note() -> bytes:
    return signed_note(log_id=LOG_ID, size=12, root=b"r" * 32, key=KEY)


def test_a_checkpoint_is_a_signed_note_of_the_public_form() -> None:
    origin, size, root, blank, line, end = a_note().decode().split("\n")
    dash, name, blob = line.split(" ")
    raw = base64.b64decode(blob)

    assert ("doorward/0001020304050607", "12", "", "") == (origin, size, blank, end)
    assert base64.b64encode(b"r" * 32).decode() == root
    assert ("—", "doorward/0001020304050607/epoch/7") == (dash, name)
    assert hashlib.sha256(name.encode() + b"\n\x01" + KEY.public).digest()[:4] == raw[:4]
    assert signature_holds(KEY.public, raw[4:], f"{origin}\n{size}\n{root}\n".encode())


def test_a_note_is_signed_by_its_key_and_by_nobody_else() -> None:
    note = parse_note(a_note())
    name = "doorward/0001020304050607/epoch/7"

    assert note is not None
    assert note.signed_by(name, KEY.public) is True
    assert note.signed_by(name, bytes(32)) is None
    assert note.signed_by("doorward/other", KEY.public) is None
    assert replace(note, size=13).signed_by(name, KEY.public) is False


def test_a_signature_of_the_wrong_length_is_false() -> None:
    body = note_body(origin_of(LOG_ID), 1, bytes(32))
    note = parse_note(body + b"\n" + signature_line("n", KEY.public, body, lambda _: b"short"))

    assert note is not None
    assert note.signed_by("n", KEY.public) is False
    assert 4 == len(key_id("n", KEY.public))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1],
        lambda text: text + b"\n",
        lambda text: text.replace(b"\n12\n", b"\n012\n"),
        lambda text: text.replace(b"\n12\n", b"\n+12\n"),
        lambda text: text.replace(b"\n12\n", b"\n12\nextension\n"),
        lambda text: text.replace(b"\n12\n", b"\n" + b"9" * 20 + b"\n"),
        lambda text: text.replace("—".encode(), b"-"),
        lambda text: text.replace(b"=\n", b"\n"),
        lambda text: text.replace(b"cnJy", b"cnJ!", 1),
        lambda text: text.split(b"\n\n")[0] + b"\n\n",
        lambda text: text + text.split(b"\n\n")[1] * 16,
        lambda text: b"\xff" + text,
        lambda text: text + b"x" * 9000 + b"\n",
        lambda text: text.split(b"\n\n")[0] + "\n\n— name AAA=\n".encode(),
        lambda text: text.split(b"\n\n")[0] + "\n\n— name AB==\n".encode(),
        lambda _: b"",
    ],
)
def test_a_note_of_any_other_spelling_is_none(spoil: Callable[[bytes], bytes]) -> None:
    assert parse_note(a_note()) is not None
    assert parse_note(spoil(a_note())) is None


# Seals


@given(plain=st.binary(max_size=300))
def test_padding_comes_off_again_and_hides_the_length(plain: bytes) -> None:
    assert plain == unpad(pad(plain))
    assert 0 == len(pad(plain)) % 64


@pytest.mark.parametrize("padded", [b"", bytes(64), b"a" * 64, b"a" + b"\x80" + bytes(126)])
def test_a_padding_that_no_writer_makes_is_refused(padded: bytes) -> None:
    assert unpad(padded) is None


def test_the_ratchet_opens_in_order_what_it_sealed_and_nothing_twice() -> None:
    writer, reader = Ratchet(Secret(b"s" * 32)), Ratchet(Secret(b"s" * 32))
    sealed = [writer.seal(b"same", b"place") for _ in range(4)]

    assert 4 == len(set(sealed))
    assert b"same" == reader.open(sealed[0], b"place")
    reader.skip()
    assert b"same" == reader.open(sealed[2], b"place")
    assert reader.open(sealed[0], b"place") is None


def test_an_event_opens_only_in_its_own_place() -> None:
    sealed = Ratchet(Secret(b"s" * 32)).seal(b"deny", b"here")

    assert Ratchet(Secret(b"s" * 32)).open(sealed, b"there") is None


def test_the_ratchet_is_keyed_blake2b_as_documented() -> None:
    both = hashlib.blake2b(b"doorward/audit/ratchet/v1", key=b"s" * 32).digest()
    ratchet = Ratchet(Secret(b"s" * 32))
    ratchet.skip()

    assert both[:32] == ratchet._chain_key


def test_an_epoch_secret_opens_for_the_audit_key_in_its_own_epoch_alone() -> None:
    sk = X25519PrivateKey.generate()
    public = sk.public_key().public_bytes_raw()
    opening = new_opening(EpochReason.LOCK, 1234)
    sealed = seal_opening(opening, audit_key=public, log_id=LOG_ID, epoch=3, epoch_key=KEY.public)
    place = {"log_id": LOG_ID, "epoch_key": KEY.public}

    assert opening == open_opening(sealed, audit_sk=sk, epoch=3, **place)
    assert open_opening(sealed, audit_sk=sk, epoch=4, **place) is None
    assert open_opening(sealed, audit_sk=X25519PrivateKey.generate(), epoch=3, **place) is None
    assert open_opening(bytes(112), audit_sk=sk, epoch=3, **place) is None
    assert 112 == len(sealed)


# Payloads


def test_reserved_bytes_of_a_payload_are_zero_or_it_is_none() -> None:
    assert unpack_end(pack_end(EndReason.STOP)) is EndReason.STOP
    assert unpack_end(b"\1\0\0\0\0\0\0\1") is None
    assert unpack_end(b"\x09" + bytes(7)) is None
    assert unpack_epoch(b"\1\1" + bytes(214)) is None
    assert unpack_epoch(b"\0" + bytes(215)) is None
    assert unpack_recovery(bytes(4) + b"\1" + bytes(59)) is None
    assert unpack_segment(bytes(192)) is None


@pytest.mark.parametrize("anchored", [None, 0, 77])
def test_a_recovery_comes_back_as_it_was_packed(anchored: int | None) -> None:
    entry = Recovery(segment=2, offset=300, cut_bytes=17, sha256=b"h" * 32, anchored_seq=anchored)

    assert entry == unpack_recovery(entry.pack())
    assert entry.may_stand_at(2, 300)
    assert not entry.may_stand_at(2, 301)
    assert not entry.may_stand_at(1, 300)
    assert replace(entry, offset=0).may_stand_at(1, 900)


@pytest.mark.parametrize("start", [b"", bytes(19), bytes(300), b"\0\0\0\xd0\1" + bytes(300)])
def test_a_start_that_is_no_segment_record_has_no_head(start: bytes) -> None:
    assert consistent_head(start) is None


# Seeds


def test_seeds_are_kept_privately_and_destroyed_by_number(tmp_path: Path) -> None:
    store = FileSeeds(tmp_path, LOG_ID, LocalDisk())
    keys = [new_epoch_key(number) for number in (1, 2)]
    for key in keys:
        store.keep(key)
    (tmp_path / ".0000000003.seed.new").write_bytes(b"a draft of a killed writer")

    assert [key.public for key in keys] == [key.public for key in store.held()]
    store.destroy_all_but(2)
    assert ["0000000002.seed"] == [path.name for path in tmp_path.iterdir()]
    assert 0o600 == (tmp_path / "0000000002.seed").stat().st_mode & 0o777
    store.destroy_all_but(2)


def test_the_bytes_of_a_destroyed_seed_are_overwritten(tmp_path: Path) -> None:
    store = FileSeeds(tmp_path / "seeds", LOG_ID, LocalDisk())
    (tmp_path / "seeds").mkdir()
    store.keep(new_epoch_key(1))
    with (tmp_path / "seeds" / "0000000001.seed").open("rb") as held:
        store.destroy_all_but(2)

        assert not any(held.read())


# Pin and anchor


def a_pin() -> Pin:
    return Pin(log_id="0" * 16, audit_key="1" * 64, first_epoch_key="2" * 64, root_key="3" * 64)


def an_anchor() -> Anchor:
    return Anchor(log_id="0" * 16, seq=5, segment=1, offset=900, head="4" * 64, epoch_key="5" * 64)


def test_pin_and_anchor_come_back_as_they_were_saved(tmp_path: Path) -> None:
    a_pin().save(tmp_path / "pin")
    an_anchor().save(tmp_path / "anchor")

    assert a_pin() == Pin.load(tmp_path / "pin")
    assert a_pin() == Pin.of(a_pin().identity())
    assert an_anchor() == Anchor.load(tmp_path / "anchor")
    assert ANCHOR_BYTES == (tmp_path / "anchor").stat().st_size


def test_the_anchor_is_one_line_of_canonical_json() -> None:
    line = an_anchor().pack()

    assert canonical(json.loads(line)) == line.rstrip()
    assert line.endswith(b" \n")
    biggest = replace(an_anchor(), seq=(1 << 63) - 1, segment=99_999_999, offset=1 << 40)
    assert ANCHOR_BYTES == len(biggest.pack())


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"version": True},
        {"seq": -1},
        {"seq": "5"},
        {"seq": True},
        {"seq": 1 << 63},
        {"seq": 6},
        {"head": "4" * 63},
        {"head": "4" * 63 + "G"},
        {"head": "A" * 64},
        {"extra": 1},
        {"check": "0" * 16},
    ],
)
def test_a_changed_anchor_is_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    names = json.loads(an_anchor().pack())
    (tmp_path / "anchor").write_text(json.dumps({**names, **changed}))

    with pytest.raises(AuditError, match="anchor"):
        Anchor.load(tmp_path / "anchor")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"version":1}', b"x" * 5000])
def test_a_pin_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pin").write_bytes(content)

    with pytest.raises(AuditError, match="pin"):
        Pin.load(tmp_path / "pin")


# Files


def test_a_fifo_a_link_and_a_missing_file_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "two").touch()
    os.link(tmp_path / "two", tmp_path / "three")

    for name in ("fifo", "link", "missing", "two"):
        with pytest.raises(OSError, match=r"regular|link|No such|name"):
            open_regular(tmp_path / name)
        with pytest.raises(AuditError, match="can't be read"):
            read_private_file(tmp_path / name, max_bytes=10)


def test_a_directory_in_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="can't be read"):
        read_private_file(tmp_path, max_bytes=10)


@pytest.mark.parametrize("operation", ["write", "sync", "replace"])
def test_a_failed_durable_write_leaves_the_old_file(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk()
    write_durably(tmp_path / "file", b"old", disk)
    disk.fail(operation, errno.ENOSPC)

    with pytest.raises(OSError, match=r"space|written"):
        write_durably(tmp_path / "file", b"new", disk)
    assert b"old" == (tmp_path / "file").read_bytes()


# A new log


def test_a_new_log_is_private_and_whole_and_its_secrets_fit_its_pin(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    audit_sk = X25519PrivateKey.from_private_bytes(log.secrets.audit_sk.reveal())
    root = Ed25519PrivateKey.from_private_bytes(log.secrets.root_seed.reveal())

    assert 0 == log.verdict().exit_code
    assert log.pin.audit_key == audit_sk.public_key().public_bytes_raw().hex()
    assert log.pin.root_key == root.public_key().public_bytes_raw().hex()
    assert 16 == len(log.secrets.log_id)
    for path in (log.directory, log.paths.seeds):
        assert 0o700 == path.stat().st_mode & 0o777
    for path in (*log.segments(), log.paths.pin, log.paths.anchor):
        assert 0o600 == path.stat().st_mode & 0o777


@pytest.mark.parametrize("which", ["directory", "seeds", "pin", "anchor"])
def test_an_existing_log_is_never_made_anew(tmp_path: Path, which: str) -> None:
    paths = paths_in(tmp_path)
    place: Path = getattr(paths, which)
    if which in {"directory", "seeds"}:
        place.mkdir(parents=True)
        place = place / "something"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("here")

    with pytest.raises(AuditError, match="only where none is"):
        create_log(paths.directory, paths.anchor, paths.pin, paths.seeds, clock=TickingClock())
    assert "here" == place.read_text()


@pytest.mark.parametrize("operation", ["write", "sync", "replace", "write_at"])
def test_a_disk_that_fails_at_the_making_is_told(tmp_path: Path, operation: str) -> None:
    paths, disk = paths_in(tmp_path), FaultyDisk()
    disk.fail(operation, errno.EIO)

    with pytest.raises(AuditError, match="could not be made"):
        create_log(paths.directory, paths.anchor, paths.pin, paths.seeds, clock=TickingClock(), disk=disk)
    assert not paths.pin.exists()
