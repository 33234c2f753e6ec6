import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from broker.audit import AuditError
from broker.audit.diagnostics import MAGIC, REF, DiagnosticsStore
from broker.audit.seal import pad
from broker.core.secret import Secret
from tests.fakes.kept_details import DETAILS, LOG_ID, OP, SMALL, Kept


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path / "diagnostics")
    yield made
    made.store.close()


def test_what_is_kept_is_shown_to_the_key_and_to_no_other(kept: Kept) -> None:
    reference = kept.keep()

    assert REF.fullmatch(reference)
    assert {**DETAILS, "version": 1, "correlation_id": OP, "kept_at_ms": kept.clock.now_ms()} == kept.show(reference)
    with pytest.raises(AuditError, match="not what was kept"):
        kept.store.show(reference, Secret(X25519PrivateKey.generate().private_bytes_raw()))


def test_nothing_is_on_disk_in_clear_and_nobody_else_can_read_it(kept: Kept) -> None:
    reference = kept.keep()
    path = kept.directory / reference

    assert b"canary" not in path.read_bytes()
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, kept.directory.stat().st_mode & 0o777)
    assert [reference] == kept.names(), "no draft stays"


def test_a_reference_can_not_be_guessed_from_what_is_kept(kept: Kept) -> None:
    assert kept.keep() != kept.keep()


def test_the_same_bytes_under_another_name_are_refused(kept: Kept) -> None:
    first, second = kept.keep(), kept.keep({"code": "rejected"})
    (kept.directory / first).write_bytes((kept.directory / second).read_bytes())

    with pytest.raises(AuditError, match="not what was kept"):
        kept.show(first)


def test_whoever_only_has_the_public_key_can_not_put_another_story_under_a_name_that_a_record_has(kept: Kept) -> None:
    told = kept.keep()
    store = kept.store
    plain = bytes(32) + b'{"code":"forged"}'
    forged = MAGIC + _sealed_by_anybody(kept, told, plain)
    (kept.directory / told).write_bytes(forged)

    with pytest.raises(AuditError, match="not what was kept"):
        store.show(told, kept.key)


def _sealed_by_anybody(kept: Kept, reference: str, plain: bytes) -> bytes:
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    info = b"doorward/diagnostics/v1\0" + LOG_ID + reference.encode()
    return suite.encrypt(pad(plain), kept.private.public_key(), info)


def test_an_item_of_another_log_does_not_open_here(kept: Kept) -> None:
    reference = kept.keep()

    with pytest.raises(AuditError, match="not what was kept"):
        kept.opened(b"another!").show(reference, kept.key)


@pytest.mark.parametrize("content", [b"", b"x", MAGIC, MAGIC + bytes(200), bytes(10_000)])
def test_a_broken_file_is_told_as_that(kept: Kept, content: bytes) -> None:
    reference = kept.keep()
    (kept.directory / reference).write_bytes(content)

    with pytest.raises(AuditError, match="not what was kept"):
        kept.show(reference)


@pytest.mark.parametrize("name", ["diag_" + "0" * 40, "diag_../../vault.db", "", "../audit.pin", "diag_" + "g" * 40])
def test_a_name_without_an_item_has_none(kept: Kept, name: str) -> None:
    assert None is kept.show(name)
    assert (
        "30 days"
        in DiagnosticsStore(kept.directory, audit_key=bytes(31) + b"\x01", log_id=LOG_ID, clock=kept.clock.now_ms).gone
    )


def test_the_oldest_go_first_when_there_are_too_many(kept: Kept) -> None:
    references = []
    for _ in range(7):
        kept.clock.advance(seconds=1)
        references.append(kept.keep())

    assert sorted(references[2:]) == kept.names()
    assert None is kept.show(references[0])


def test_the_oldest_go_first_when_they_take_too_much(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "d", replace(SMALL, total_bytes=9000))
    references = []
    for _ in range(4):
        kept.clock.advance(seconds=1)
        references.append(kept.keep({"body": "x" * 3000}))

    assert sorted(references[2:]) == kept.names()


def test_what_is_too_old_goes_also_where_nothing_new_comes(kept: Kept) -> None:
    reference = kept.keep()
    kept.clock.advance(seconds=11)

    assert None is kept.show(reference)
    assert [] == kept.names()


def test_a_sweep_lets_go_of_what_is_too_old(kept: Kept) -> None:
    kept.keep()
    kept.clock.advance(seconds=11)
    kept.store.sweep()

    assert [] == kept.names()


def test_the_bounds_hold_over_a_restart(kept: Kept) -> None:
    references = []
    for _ in range(5):
        kept.clock.advance(seconds=1)
        references.append(kept.keep())
    kept.store = kept.opened()
    kept.clock.advance(seconds=1)
    references.append(kept.keep())

    assert sorted(references[1:]) == kept.names()


def test_an_item_that_is_too_large_is_not_kept_and_said(kept: Kept) -> None:
    assert None is kept.store.keep_blocking(OP, {"body": "x" * 5000})
    assert "more than an item may have" in str(kept.store.fault)


def test_what_a_crash_left_half_written_is_taken_away(kept: Kept) -> None:
    draft = kept.directory / f".diag_{'0' * 40}.new"
    draft.write_bytes(b"half")
    kept.opened()

    assert [] == kept.names()


def test_foreign_files_are_left_alone_counted_and_told(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    reference = kept.keep()
    (kept.directory / "notes.txt").write_text("mine")
    (kept.directory / ("diag_" + "1" * 40)).symlink_to("/etc/hostname")
    (kept.directory / ("diag_" + "2" * 40)).mkdir()
    os.mkfifo(kept.directory / ("diag_" + "3" * 40))
    shared = kept.directory / ("diag_" + "4" * 40)
    shared.write_text("open to all")
    shared.chmod(0o644)
    (kept.directory / ("diag_" + "5" * 40)).hardlink_to(kept.directory / "notes.txt")
    before = kept.names()
    with caplog.at_level(logging.WARNING):
        store = kept.opened()

    assert (6, None, before) == (store.foreign, store.fault, kept.names())
    assert 1 == caplog.text.count("none of ours")
    assert None is not store.show(reference, kept.key)


@pytest.mark.parametrize("make", ["symlink", "directory", "shared", "linked"])
def test_what_is_not_a_private_file_is_not_read(kept: Kept, tmp_path: Path, make: str) -> None:
    path = kept.directory / kept.keep()
    content = path.read_bytes()
    path.unlink()
    if make == "symlink":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif make == "directory":
        path.mkdir()
    else:
        path.write_bytes(content)
        path.chmod(0o644 if make == "shared" else 0o600)
        if make == "linked":
            (tmp_path / "elsewhere").hardlink_to(path)

    with pytest.raises(AuditError):
        kept.show(path.name)


@pytest.mark.parametrize("make", ["file", "symlink", "shared"])
def test_a_place_that_is_not_ours_alone_keeps_nothing_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: str
) -> None:
    place, elsewhere = tmp_path / "diagnostics", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if make == "file":
        place.write_text("")
    elif make == "symlink":
        place.symlink_to(elsewhere)
    else:
        place.mkdir()
        place.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        kept = Kept(place)
        kept.store.keep_blocking(OP, DETAILS)

    assert None is kept.store.keep_blocking(OP, DETAILS)
    assert f"details of failures can't be kept in {place}" in str(kept.store.fault)
    assert [] == list(elsewhere.iterdir())
    assert 1 == caplog.text.count("can't be kept")


def test_a_directory_that_is_taken_away_is_made_again(kept: Kept) -> None:
    first = kept.keep()
    (kept.directory / first).unlink()
    kept.directory.rmdir()
    second = kept.keep()

    assert (None, [second]) == (kept.show(first), kept.names())


@pytest.mark.parametrize("number", [28, 5])
def test_a_disk_that_fails_costs_the_details_and_nothing_else(kept: Kept, number: int) -> None:
    kept.disk.fail("write", number, times=1)

    assert None is kept.store.keep_blocking(OP, DETAILS)
    assert kept.store.fault is not None
    assert [] == kept.names(), "nothing half is left"
    assert None is not kept.store.keep_blocking(OP, DETAILS)
    assert None is kept.store.fault


def test_what_can_not_be_spelled_costs_the_details_and_nothing_else(kept: Kept) -> None:
    assert None is kept.store.keep_blocking(OP, {"seconds": 0.5})
    assert "WireError" in str(kept.store.fault)


async def test_a_slow_disk_holds_nobody_up_for_long(kept: Kept) -> None:
    go_on = threading.Event()
    writing = kept.disk.write

    def slow(descriptor: int, content: bytes) -> int:
        go_on.wait(10)
        return writing(descriptor, content)

    kept.disk.write = slow  # type: ignore[method-assign]  # a disk that hangs
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(kept.store.keep(OP, DETAILS)) for _ in range(SMALL.waiting + 4)]
    go_on.set()

    assert {None} == {task.result() for task in asked}
    assert kept.store.fault is not None
    async with asyncio.timeout(60):
        while await kept.store.keep(OP, DETAILS) is None:  # noqa: ASYNC110 - the disk gives no sign
            await asyncio.sleep(0.01)
    assert None is kept.store.fault


async def test_a_closed_store_keeps_nothing(kept: Kept) -> None:
    assert None is not await kept.store.keep(OP, DETAILS)
    kept.store.close()

    assert None is await kept.store.keep(OP, DETAILS)


def test_an_item_of_a_later_version_is_told_as_unreadable(kept: Kept) -> None:
    reference = kept.keep()
    kept.limits = replace(SMALL, item_bytes=16)

    with pytest.raises(AuditError, match=r"can't be read by this version|not what was kept"):
        kept.opened().show(reference, kept.key)
