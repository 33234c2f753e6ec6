"""The verifier tells a torn tail from a missing segment from an altered record; recovery appends, never rewrites."""

from pathlib import Path

import pytest

from broker.audit.verdict import VerdictName
from tests.fakes.forger import EVENT, records_of
from tests.fakes.logs import SmallLog, new_log, write_events


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 60)
    return made


def tear(log: SmallLog) -> None:
    path = log.segments()[-1]
    path.write_bytes(path.read_bytes() + bytes([0, 0, 0]))


def lose(log: SmallLog) -> None:
    log.segments()[1].unlink()


def alter(log: SmallLog) -> None:
    path = log.segments()[1]
    record = next(record for record in records_of(path) if record.kind == EVENT)
    content = bytearray(path.read_bytes())
    content[record.offset + 25] ^= 0x20
    path.write_bytes(content)


def shorten(log: SmallLog) -> None:
    path = log.segments()[-1]
    path.write_bytes(path.read_bytes()[:-200])


def test_four_ways_to_suffer_have_four_names(log: SmallLog) -> None:
    content = {path: path.read_bytes() for path in log.segments()}
    verdicts = []
    for suffer in (tear, lose, alter, shorten):
        suffer(log)
        verdicts.append(log.verdict().verdict)
        for path, original in content.items():
            path.write_bytes(original)

    assert [VerdictName.TORN_TAIL, VerdictName.GAP, VerdictName.ALTERED, VerdictName.TRUNCATED] == verdicts


def test_recovery_keeps_every_byte_that_was_there(log: SmallLog) -> None:
    tear(log)
    before = {path: path.read_bytes() for path in log.segments()}
    with log.writer() as writer:
        write_events(writer, 3)
    torn = b"".join(path.read_bytes() for path in log.directory.glob("*.torn"))
    for path, content in before.items():
        kept = content[: -len(torn)] if path == list(before)[-1] else content

        assert path.read_bytes().startswith(kept)
    assert bytes([0, 0, 0]) == torn
    assert VerdictName.OK == log.verdict().verdict
