import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.audit import AuditError
from broker.audit.checkpoint import origin_of, parse_note
from broker.audit.disk import LocalDisk
from broker.audit.epoch import FileSeeds, new_epoch_key
from broker.audit.payload import Endorser, unpack_epoch
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from tests.fakes.forger import CHECKPOINT, COMMIT, EPOCH, Raw, records_of
from tests.fakes.logs import SmallLog, new_log, paths_in, write_events

ROOT, BEFORE, NOBODY = Endorser.ROOT, Endorser.EPOCH, Endorser.NOBODY


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    """A log whose seed was lost while no writer ran."""
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 5)
    lose_seeds(made)
    return made


def lose_seeds(log: SmallLog) -> None:
    for path in log.paths.seeds.iterdir():
        path.unlink()


def records(log: SmallLog) -> list[Raw]:
    return [record for path in log.segments() for record in records_of(path)]


def endorsers(log: SmallLog) -> list[int]:
    return [record.payload[0] for record in records(log) if record.kind == EPOCH]


def count(log: SmallLog) -> int:
    return sum(1 for _ in read_events(log.directory, log.secrets.audit_sk))


def test_a_lost_seed_begins_a_lineage_that_nobody_endorses(log: SmallLog) -> None:
    before = records(log)[-1]
    writer = log.open()
    write_events(writer, 2, first=5)
    state = (writer.endorsed, writer.suspended, writer.poisoned, writer.room())
    told = writer.recovered
    writer.close()
    epoch = next(record for record in records(log) if record.seq == before.seq + 1)
    entry = unpack_epoch(epoch.payload)

    assert (False, None, None, False) == state
    assert "seed" in (told or "")
    assert entry is not None
    assert (NOBODY, bytes(64)) == (entry.endorser, entry.signature)
    assert (COMMIT, EPOCH) == (before.kind, epoch.kind)
    assert 7 == count(log)


def test_a_log_that_ends_so_is_called_by_its_name(log: SmallLog) -> None:
    at = records(log)[-1].seq + 1
    with log.writer() as writer:
        write_events(writer, 2)
    verdict = log.verdict()

    assert (VerdictName.FORGED_SIGNATURE, at) == (verdict.verdict, verdict.seq)
    assert verdict.proven_to == at - 1


def test_it_stays_unendorsed_over_epochs_files_and_starts(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 40)
        writer.new_epoch_blocking(EpochReason.LOCK)
        assert not writer.endorsed
    for _ in range(2):
        with log.writer() as again:
            assert not again.endorsed
            assert not again.room()
            write_events(again, 1)

    assert len(log.segments()) > 2
    assert 1 == endorsers(log).count(NOBODY)
    assert VerdictName.FORGED_SIGNATURE == log.verdict().verdict


def test_the_root_takes_it_over_at_unlock(log: SmallLog) -> None:
    with log.writer() as writer:
        write_events(writer, 15)
        writer.new_epoch_blocking(EpochReason.UNLOCK, log.root)
        state = (writer.endorsed, writer.room())
        write_events(writer, 3, first=15)
        writer.new_epoch_blocking(EpochReason.LOCK)
    with log.writer() as again:
        assert again.endorsed
    verdict = log.verdict()

    assert (True, True) == state
    assert [ROOT] == [endorser for endorser in endorsers(log)[1:] if endorser == ROOT]
    assert VerdictName.OK == verdict.verdict
    assert "taken over" in verdict.note


def test_a_root_that_is_not_ours_is_refused_and_poisons_nothing(log: SmallLog) -> None:
    with log.writer() as writer:
        with pytest.raises(AuditError, match="root key"):
            writer.new_epoch_blocking(EpochReason.UNLOCK, Ed25519PrivateKey.generate().sign)
        with pytest.raises(AuditError, match="could not sign"):
            writer.checkpoint_blocking(locked_vault)
        write_events(writer, 1)
        writer.new_epoch_blocking(EpochReason.UNLOCK, log.root)

        assert writer.poisoned is None
        assert writer.endorsed
    assert VerdictName.OK == log.verdict().verdict


def locked_vault(_: bytes) -> bytes:
    raise RuntimeError("locked")


def test_a_start_that_died_before_it_could_say_that_the_seed_is_lost_is_no_rollback(log: SmallLog) -> None:
    seeds = FileSeeds(log.paths.seeds, bytes.fromhex(log.pin.log_id), LocalDisk())
    seeds.keep(new_epoch_key(records(log)[-1].epoch + 1, endorsed=False))
    with log.writer() as writer:
        assert writer.suspended is None
        assert not writer.endorsed


def test_a_torn_tail_and_a_lost_seed_are_both_told(tmp_path: Path) -> None:
    log = new_log(tmp_path / "first")
    writer = log.open()
    write_events(writer, 3)
    copy = Path(shutil.copytree(log.base, tmp_path / "killed"))
    writer.close()
    killed = replace(log, base=copy, paths=paths_in(copy))
    lose_seeds(killed)
    with killed.segments()[-1].open("ab") as file:
        file.write(bytes(100))
    with killed.writer() as again:
        assert "unfinished" in (again.recovered or "")
        again.new_epoch_blocking(EpochReason.UNLOCK, log.root)

    assert VerdictName.OK == killed.verdict().verdict


def test_a_lost_directory_of_seeds_is_a_lost_seed_too(log: SmallLog) -> None:
    log.paths.seeds.rmdir()
    with log.writer() as writer:
        writer.new_epoch_blocking(EpochReason.UNLOCK, log.root)

    assert 0o700 == log.paths.seeds.stat().st_mode & 0o777
    assert VerdictName.OK == log.verdict().verdict


# The root's line in a checkpoint, and one on request


def test_a_checkpoint_on_request_is_given_back_and_lies_in_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with log.writer() as writer:
        write_events(writer, 3)
        note = writer.checkpoint_blocking()
        last = records(log)[-2:]
        write_events(writer, 1)

    assert [CHECKPOINT, COMMIT] == [record.kind for record in last]
    assert note == last[0].payload
    assert VerdictName.OK == log.verdict(checkpoint=note).verdict


async def test_with_the_root_it_has_two_lines(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with log.writer() as writer:
        await writer.new_epoch(EpochReason.UNLOCK, log.root)
        note = parse_note(await writer.checkpoint(log.root))
        notes = [parse_note(record.payload) for record in records(log) if record.kind == CHECKPOINT]
    name = origin_of(bytes.fromhex(log.pin.log_id))

    assert note is not None
    assert note.signed_by(name, bytes.fromhex(log.pin.root_key))
    assert [2, 2] == [len(each.signatures) for each in notes if each is not None]
    assert [ROOT] == [endorser for endorser in endorsers(log) if endorser == ROOT]  # the first epoch's alone
    assert VerdictName.OK == log.verdict().verdict


def test_the_root_endorses_an_epoch_of_a_well_log_where_it_shall_adopt(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with log.writer() as writer:
        writer.new_epoch_blocking(EpochReason.UNLOCK, log.root, adopt=True)
        writer.readopt_blocking(log.root)
        write_events(writer, 2)

    assert 3 == endorsers(log).count(ROOT)
    assert VerdictName.OK == log.verdict().verdict
