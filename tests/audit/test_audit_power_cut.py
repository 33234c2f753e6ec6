"""After a power cut at any instant no acknowledged record is missing, and nothing looks like tampering.

What a writer does to files is taken down once; then every disk that a cut may leave is laid out, judged and taken up.
"""

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from broker.audit.limits import WriterLimits
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from tests.fakes.file_recorder import Recorder
from tests.fakes.forger import EVENT, records_of
from tests.fakes.logs import SmallLog, an_event, new_log, paths_in
from tests.fakes.power_cut import Mark, crashes, lay_out

LIMITS = WriterLimits(segment_bytes=6000, epoch_events=5, min_free_bytes=0, reserve_bytes=1024)
TORN = 3  # random choices at each sync
TORN_VERDICTS = {VerdictName.TORN_TAIL, VerdictName.TORN_OR_TAMPERED}
UNANCHORED = {VerdictName.OK_UNANCHORED, VerdictName.TORN_OR_TAMPERED}

Inspect: TypeAlias = Callable[[SmallLog, set[object]], VerdictName]


@pytest.fixture
def memory() -> Iterator[Path]:
    """A place where files are cheap: the power cut is in the record alone."""
    fast = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None) as place:
        yield Path(place)


@pytest.fixture
def killed(tmp_path: Path) -> SmallLog:
    """A log whose writer was killed."""
    log = new_log(tmp_path / "first")
    writer = log.open(limits=LIMITS)
    for number in range(6):
        writer.append_blocking(an_event(number))
    copy = Path(shutil.copytree(log.base, tmp_path / "killed"))
    writer.close()
    return replace(log, base=copy, paths=paths_in(copy))


def replay(log: SmallLog, recorder: Recorder, memory: Path, inspect: Inspect, *, promised: set[object]) -> int:
    """Look at every disk that may be found, equal ones once, and tell how it went."""
    copy, seen, verdicts = replace(log, base=memory, paths=paths_in(memory)), set(), Counter[str]()
    chance = random.Random(1)  # noqa: S311 - which sectors survive is no secret
    for at, disk in crashes(recorder.start, recorder.steps, chance=chance, torn=TORN):
        said = [step.said for step in recorder.steps[:at] if isinstance(step, Mark)]
        known = (len(said), frozenset(disk.files().items()))
        if known not in seen:
            seen.add(known)
            lay_out(disk, log.base, memory)
            verdicts[inspect(copy, promised | set(said)).value] += 1
    print(f"{len(recorder.steps)} steps, {len(seen)} disks: {dict(verdicts)}")
    return len(seen)


def kept(log: SmallLog) -> set[object]:
    found = set[object]()
    for _, event in read_events(log.directory, log.secrets.audit_sk):
        fields = event.get("fields")
        found.add(fields.get("number") if isinstance(fields, dict) else event.get("unreadable"))
    return found


def judge(log: SmallLog, *, also: frozenset[VerdictName] = frozenset()) -> VerdictName:
    anchored, unanchored = log.verdict(), log.verdict(anchored=False)

    assert anchored.verdict in {VerdictName.OK, *TORN_VERDICTS, *also}, anchored.to_json()
    assert unanchored.verdict in {*UNANCHORED, *also}, unanchored.to_json()
    return anchored.verdict


def taken_up(log: SmallLog, promised: set[object]) -> VerdictName:
    """The verdict on what was found; then a writer takes it up, and nothing that was promised is missing."""
    before = judge(log)
    with log.writer(limits=LIMITS) as writer:
        assert (None, None, True) == (writer.suspended, writer.poisoned, writer.endorsed), writer.suspended
        writer.append_blocking(an_event(-1))
    after = log.verdict()

    assert VerdictName.OK == after.verdict, after.to_json()
    assert promised | {-1} <= kept(log)
    return before


def work(log: SmallLog, recorder: Recorder) -> None:
    """Singles, groups, epochs, files, a checkpoint, a stop and a start: all that a writer does to files."""
    number = 0
    for start in range(2):
        writer = log.open(limits=LIMITS)
        for turn in range(9):
            for _ in range(turn % 4):
                writer.post(an_event(number, text="x" * (turn * 90)))
                number += 1
            writer.append_blocking(an_event(number))
            recorder.say(number)
            number += 1
            if turn == 4:
                writer.new_epoch_blocking(EpochReason.LOCK)
            if turn == 6 and start:
                writer.checkpoint_blocking(log.root)
        writer.close()


def test_no_power_cut_loses_a_record_or_accuses_anybody(tmp_path: Path, memory: Path) -> None:
    log = new_log(tmp_path / "log")
    recorder = Recorder(log.base)
    with recorder.recording():
        work(log, recorder)

    assert 500 < replay(log, recorder, memory, taken_up, promised=set())
    assert {"00000001.seg", "00000002.seg"} <= {path.name for path in log.segments()}


@pytest.mark.parametrize("size", [1, 60, 700])
@pytest.mark.parametrize("content", [b"\0", b"sealed"])
def test_nor_does_one_while_a_torn_tail_is_cut(killed: SmallLog, memory: Path, size: int, content: bytes) -> None:
    last = records_of(killed.segments()[-1])[-1]
    due = replace(last, kind=EVENT, seq=last.seq + 1, payload=bytes(1040)).header()
    with killed.segments()[-1].open("ab") as file:
        file.write((due * any(content) + content * size)[:size])
    recorder = Recorder(killed.base)
    with recorder.recording(), killed.writer(limits=LIMITS) as writer:
        writer.append_blocking(an_event(6))
        recorder.say(6)
    replay(killed, recorder, memory, taken_up, promised=set(range(6)))


def test_nor_does_one_while_a_file_that_never_began_is_taken_away(killed: SmallLog, memory: Path) -> None:
    second = killed.directory / "00000002.seg"
    second.write_bytes(bytes(900))
    second.chmod(0o600)
    recorder = Recorder(killed.base)
    with recorder.recording(), killed.writer(limits=LIMITS) as writer:
        writer.append_blocking(an_event(6))
        recorder.say(6)
    replay(killed, recorder, memory, taken_up, promised=set(range(6)))


def test_one_after_a_lost_seed_is_found_leaves_a_lost_seed_and_no_rollback(killed: SmallLog, memory: Path) -> None:
    for path in killed.paths.seeds.iterdir():
        path.unlink()
    recorder = Recorder(killed.base)
    with recorder.recording(), killed.writer(limits=LIMITS) as writer:
        writer.append_blocking(an_event(6))
        recorder.say(6)
        writer.new_epoch_blocking(EpochReason.LOCK)

    def unendorsed(log: SmallLog, promised: set[object]) -> VerdictName:
        before = judge(log, also=frozenset({VerdictName.FORGED_SIGNATURE}))
        with log.writer(limits=LIMITS) as writer:
            assert (None, None, False) == (writer.suspended, writer.poisoned, writer.endorsed), writer.suspended
            writer.new_epoch_blocking(EpochReason.UNLOCK, log.root)
        after = log.verdict()
        assert VerdictName.OK == after.verdict, after.to_json()
        assert promised <= kept(log)
        return before

    replay(killed, recorder, memory, unendorsed, promised=set(range(6)))


@pytest.mark.parametrize("place", [-200, 900])
def test_one_during_a_takeover_leaves_a_log_that_can_be_taken_over(killed: SmallLog, memory: Path, place: int) -> None:
    path = killed.segments()[-1]
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    writer, recorder = killed.open(limits=LIMITS), Recorder(killed.base)
    with recorder.recording():
        writer.readopt_blocking(killed.root)
        writer.append_blocking(an_event(6))
        recorder.say(6)
    writer.close()

    def taken_over(log: SmallLog, promised: set[object]) -> VerdictName:
        before = log.verdict().verdict
        with log.writer(limits=LIMITS) as writer:
            if writer.suspended is not None:
                writer.readopt_blocking(log.root)
            assert (None, None, True) == (writer.suspended, writer.poisoned, writer.endorsed)
            writer.append_blocking(an_event(-1))
        with log.writer(limits=LIMITS) as again:
            assert again.suspended is None
        behind = {path.name: path.read_bytes() for path in log.directory.iterdir() if path.suffix in {".seg", ".torn"}}
        assert any(bytes(content[place - 16 : place]) in held for held in behind.values())
        del promised
        return before

    replay(killed, recorder, memory, taken_over, promised=set())
