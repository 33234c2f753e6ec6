"""One record parser, strict on bytes, for writer, verifier and reader: what one refuses, all refuse, at one place."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from broker.audit.reader import read_events
from broker.audit.verdict import VerdictName
from tests.fakes.forger import EVENT, Raw, records_of
from tests.fakes.logs import SmallLog, new_log, paths_in, write_events


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SmallLog:
    place = tmp_path_factory.mktemp("parser")
    made = new_log(place / "first")
    writer = made.open()
    write_events(writer, 6)
    shutil.copytree(made.base, place / "killed")
    writer.close()
    return replace(made, base=place / "killed", paths=paths_in(place / "killed"))


def victim(log: SmallLog) -> Raw:
    return [record for record in records_of(log.segments()[0]) if record.kind == EVENT][2]


@pytest.mark.parametrize("bit", range(160))
def test_a_flipped_bit_of_a_header_stops_all_three_at_that_record(log: SmallLog, bit: int) -> None:
    record = victim(log)
    whole = record.file.read_bytes()
    changed = bytearray(whole)
    changed[record.offset + bit // 8] ^= 1 << bit % 8
    record.file.write_bytes(changed)
    try:
        verdict = log.verdict()
        read = list(read_events(log.directory, log.secrets.audit_sk))
        writer = log.open()
        suspended = writer.suspended
        writer.close()
    finally:
        record.file.write_bytes(whole)

    assert (VerdictName.ALTERED, record.seq, record.offset) == (verdict.verdict, verdict.seq, verdict.offset)
    assert suspended is not None
    assert VerdictName.ALTERED is suspended.verdict
    assert [True, True, False] == ["event" in event for _, event in read]
    assert record.seq == read[-1][0]


def test_the_untouched_log_is_read_by_all_three(log: SmallLog, tmp_path: Path) -> None:
    shutil.copytree(log.base, tmp_path / "copy")
    copy = replace(log, base=tmp_path / "copy", paths=paths_in(tmp_path / "copy"))

    assert VerdictName.OK == copy.verdict().verdict
    assert 6 == sum(1 for _ in read_events(copy.directory, copy.secrets.audit_sk))
    copy.open().close()


def test_only_one_module_takes_record_headers_apart() -> None:
    sources = Path(__file__).parents[2] / "broker"
    users = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if "HEADER.unpack" in path.read_text(encoding="utf-8") or '">IBBHIQ"' in path.read_text(encoding="utf-8")
    }

    assert {"core/chain.py"} == users
