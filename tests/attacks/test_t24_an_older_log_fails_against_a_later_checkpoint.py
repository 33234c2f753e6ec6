"""A shrunk or older log fails against any later checkpoint, also after a restart."""

import os
import shutil
from pathlib import Path

from broker.audit.verdict import VerdictName
from broker.audit.verify import verify
from tests.fakes.forger import CHECKPOINT, COMMIT, records_of
from tests.fakes.logs import SmallLog, new_log, paths_in, write_events


def checkpoints(log: SmallLog) -> list[tuple[int, bytes]]:
    found = [record for path in log.segments() for record in records_of(path) if record.kind == CHECKPOINT]
    return [(record.seq, record.payload) for record in found]


def test_every_shorter_log_fails_against_every_later_checkpoint(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with log.writer() as writer:
        write_events(writer, 24)
    kept = checkpoints(log)
    commits = [record for path in log.segments() for record in records_of(path) if record.kind == COMMIT]
    for commit in reversed(commits[:-1]):
        for path in log.segments():
            if path.name > commit.file.name:
                path.unlink()
        os.truncate(commit.file, commit.end)
        for size, note in kept:
            verdict = verify(log.directory, pin=log.pin, checkpoint=note).verdict

            assert (VerdictName.TRUNCATED if size > commit.seq + 1 else VerdictName.OK) == verdict


def test_an_older_log_that_was_written_on_after_a_restart_still_fails(tmp_path: Path) -> None:
    log = new_log(tmp_path / "mine")
    with log.writer() as writer:
        write_events(writer, 5)
    shutil.copytree(log.base, tmp_path / "older")  # with its own anchor and seed, as a thief of the account has them
    with log.writer() as writer:
        write_events(writer, 20, first=5)
    later = checkpoints(log)[-1][1]
    older = paths_in(tmp_path / "older")
    rolled_back = SmallLog(base=tmp_path / "older", paths=older, secrets=log.secrets, clock=log.clock)
    with rolled_back.writer() as writer:
        write_events(writer, 40, first=5)

    assert VerdictName.OK == rolled_back.verdict().verdict  # nothing on this machine can know better
    assert VerdictName.ROLLBACK == rolled_back.verdict(checkpoint=later).verdict


def test_the_anchor_alone_catches_a_log_that_was_put_back(tmp_path: Path) -> None:
    log = new_log(tmp_path / "mine")
    with log.writer() as writer:
        write_events(writer, 5)
    shutil.copytree(log.directory, tmp_path / "older")
    with log.writer() as writer:
        write_events(writer, 20, first=5)
    shutil.rmtree(log.directory)
    shutil.copytree(tmp_path / "older", log.directory)

    assert VerdictName.TRUNCATED == log.verdict().verdict
