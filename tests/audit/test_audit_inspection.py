"""An inspection in a child process: what it finds, what it need not read again, and what a human took over."""

import errno
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.audit import AuditError
from broker.audit.inspection import Inspector, command, inspection_of
from broker.audit.inspector import inspect
from broker.audit.ladder import HeldAnchor, in_file
from broker.audit.seal import EpochReason
from broker.audit.verdict import Rung, VerdictName
from broker.contract.wire import JsonObject, JsonValue
from broker.core.damage import KnownDamage
from tests.fakes.logs import SmallLog, new_log, write_events


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    """Of several files, stopped cleanly."""
    made = new_log(tmp_path)
    with made.writer() as writer:
        write_events(writer, 60)
    assert len(made.segments()) >= 4
    return made


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def take_over(log: SmallLog, *, events: int = 3) -> None:
    with log.writer() as writer:
        writer.new_epoch_blocking(EpochReason.UNLOCK, log.root, adopt=True)
        write_events(writer, events)


def test_a_whole_log_is_ok_at_the_rung_that_fits(log: SmallLog) -> None:
    inspector = Inspector(log.paths)
    found = inspector.inspect(in_file(log.anchor))
    assert (VerdictName.OK, Rung.FILE, False, None) == (found.verdict.verdict, found.verdict.rung, False, found.damage)
    assert log.verdict() == found.verdict == found.judged
    assert not found.suspect
    vault = HeldAnchor(rung=Rung.VAULT, anchor=log.anchor)
    assert Rung.VAULT is inspector.inspect([vault, *in_file(log.anchor)]).verdict.rung
    assert VerdictName.OK_UNANCHORED is inspector.inspect().verdict.verdict
    assert inspector.percent is None


class Counting:
    """How many bytes a walk was to read."""

    whole = 0

    def __call__(self, _: int, whole: int) -> None:
        self.whole = whole


def request_for(log: SmallLog, *anchors: HeldAnchor, verified: JsonValue = None) -> JsonObject:
    return {
        "directory": str(log.directory),
        "pin": str(log.paths.pin),
        "anchors": [{"rung": held.rung.value, "line": held.anchor.pack().decode()} for held in anchors],
        "known": None,
        "verified": verified,
    }


def test_closed_files_that_are_as_they_were_are_not_verified_again(log: SmallLog) -> None:
    first, second = Counting(), Counting()
    anchors = in_file(log.anchor)
    verified = inspect(request_for(log, *anchors), first)["verified"]
    told = inspect(request_for(log, *anchors, verified=verified), second)
    sizes = [path.stat().st_size for path in log.segments()]

    assert sum(sizes) == first.whole
    assert sizes[-1] == second.whole
    assert (VerdictName.OK, Rung.FILE) == (inspection_of(told).verdict.verdict, inspection_of(told).verdict.rung)
    assert verified == told["verified"]


@pytest.mark.parametrize("right", [True, False])
def test_an_anchor_in_a_file_that_is_not_verified_again_still_counts(log: SmallLog, *, right: bool) -> None:
    early = log.anchor
    with log.writer() as writer:
        write_events(writer, 40)
    verified = inspect(request_for(log), Counting())["verified"]
    held = HeldAnchor(rung=Rung.VAULT, anchor=early if right else replace(early, head="0" * 64))
    counting = Counting()
    found = inspection_of(inspect(request_for(log, held, verified=verified), counting))

    assert (VerdictName.OK if right else VerdictName.ROLLBACK) == found.verdict.verdict
    assert (Rung.VAULT if right else Rung.NONE) == found.verdict.rung
    assert right == (counting.whole == log.segments()[-1].stat().st_size)


@pytest.mark.parametrize("back_in_time", [True, False])
def test_a_closed_file_that_was_changed_is_noticed_whatever_its_times_say(log: SmallLog, *, back_in_time: bool) -> None:
    inspector, victim = Inspector(log.paths), log.segments()[1]
    assert not inspector.inspect(in_file(log.anchor)).suspect
    facts = victim.stat()
    flip(victim, 300)
    if back_in_time:
        os.utime(victim, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    found = inspector.inspect(in_file(log.anchor))

    assert (VerdictName.ALTERED, victim.name) == (found.verdict.verdict, found.verdict.segment)
    assert found.suspect


@pytest.mark.parametrize("place", ["a disk", "memory"])
def test_a_closed_file_that_is_changed_through_a_mapping_is_noticed(tmp_path: Path, place: str) -> None:
    """Such a write moves neither time nor inode nor size, once the page was written to."""
    memory = Path("/dev/shm")  # noqa: S108 - a file system that never writes its pages back
    with tempfile.TemporaryDirectory(dir=memory if place == "memory" and memory.is_dir() else tmp_path) as directory:
        log = new_log(Path(directory))
        with log.writer() as writer:
            write_events(writer, 60)
        inspector, victim = Inspector(log.paths), log.segments()[1]
        with victim.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[300] = mapped[300]
            assert not inspector.inspect(in_file(log.anchor)).suspect
            mapped[300] ^= 1
            found = inspector.inspect(in_file(log.anchor))

    assert (VerdictName.ALTERED, victim.name) == (found.verdict.verdict, found.verdict.segment)


def test_closed_files_that_were_restored_from_a_backup_are_as_they_were(log: SmallLog) -> None:
    first, second = Counting(), Counting()
    verified = inspect(request_for(log, *in_file(log.anchor)), first)["verified"]
    for path in log.segments()[:-1]:
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    told = inspect(request_for(log, *in_file(log.anchor), verified=verified), second)

    assert VerdictName.OK is inspection_of(told).verdict.verdict
    assert log.segments()[-1].stat().st_size == second.whole


def test_the_last_file_is_held_against_what_was_computed_not_against_what_it_says(log: SmallLog) -> None:
    """A whole other log from there on, with keys of its own, begins with another hash than the files before it end."""
    verified = inspect(request_for(log, *in_file(log.anchor)), Counting())["verified"]
    assert isinstance(verified, dict)
    forged = {**verified, "head": "0" * 64}
    counting = Counting()
    found = inspection_of(inspect(request_for(log, verified=forged), counting))
    assert VerdictName.OK_UNANCHORED is found.verdict.verdict
    assert sum(path.stat().st_size for path in log.segments()) == counting.whole  # all of it was looked at


def adopted(log: SmallLog) -> tuple[Inspector, KnownDamage]:
    """A log whose second file is damaged, and which a human took over as it was."""
    flip(log.segments()[1], 300)
    inspector = Inspector(log.paths)
    before = inspector.inspect(in_file(log.anchor))
    assert before.suspect
    assert not before.known
    take_over(log)
    damage = inspector.inspect(in_file(log.anchor)).damage
    assert damage is not None
    assert ("ALTERED", "00000002.seg") == (damage.verdict, damage.segment)
    take_over(log)  # another epoch, as at the next unlock
    return inspector, damage


def test_damage_that_was_taken_over_is_told_for_ever_and_acted_on_no_more(log: SmallLog) -> None:
    inspector, damage = adopted(log)
    for _ in range(3):  # also while the log grows into further files
        found = inspector.inspect(in_file(log.anchor), known=damage)
        assert (VerdictName.ALTERED, VerdictName.OK, Rung.FILE) == (
            found.verdict.verdict,
            found.judged.verdict,
            found.judged.rung,
        )
        assert found.known
        assert not found.suspect
        take_over(log, events=20)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def put_a_fifo_for(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FURTHER: dict[str, Callable[[list[Path]], None]] = {
    "the same file, elsewhere": lambda files: flip(files[1], 900),
    "a file between": lambda files: flip(files[2], 300),
    "a file before": lambda files: flip(files[0], 300),
    "a file is gone": lambda files: files[2].unlink(),
    "a file is longer": lambda files: lengthen(files[2]),
    "behind it": lambda files: flip(files[-1], files[-1].stat().st_size - 40),
    "the end is gone": lambda files: shorten(files[-1]),
    "a file is of another kind": lambda files: put_a_fifo_for(files[2]),
}


@pytest.mark.parametrize("what", FURTHER)
def test_further_damage_is_not_covered(log: SmallLog, what: str) -> None:
    inspector, damage = adopted(log)
    FURTHER[what](log.segments())
    found = inspector.inspect(in_file(log.anchor), known=damage)

    assert found.suspect
    assert not (found.known and found.judged.verdict is VerdictName.OK)


def test_a_log_whose_damage_was_mended_from_a_backup_is_ok(log: SmallLog) -> None:
    whole = log.segments()[1].read_bytes()
    inspector, damage = adopted(log)
    log.segments()[1].write_bytes(whole)
    found = inspector.inspect(in_file(log.anchor), known=damage)

    assert (VerdictName.OK, False) == (found.verdict.verdict, found.known)


def test_what_is_behind_everything_gone_is_told_from_the_first_file_there_is(log: SmallLog) -> None:
    anchors = in_file(log.anchor)
    for path in log.segments():
        path.unlink()
    found = Inspector(log.paths).inspect(anchors)
    assert (VerdictName.EMPTY_OR_MISSING, ()) == (found.verdict.verdict, found.damage and found.damage.files)
    writer = log.open()
    assert writer.suspended is not None
    writer.readopt_blocking(log.root)
    write_events(writer, 5)
    damage = Inspector(log.paths).inspect(in_file(log.anchor)).damage
    again = Inspector(log.paths).inspect(in_file(log.anchor), known=damage)
    writer.close()

    assert (VerdictName.GAP, VerdictName.OK, True) == (again.verdict.verdict, again.judged.verdict, again.known)


def test_a_log_that_can_not_be_read_is_no_verdict_against_it(log: SmallLog) -> None:
    (log.directory / "note.txt").write_text("x")
    found = Inspector(log.paths).inspect(in_file(log.anchor))
    assert (VerdictName.UNREADABLE, False) == (found.verdict.verdict, found.suspect)


@pytest.mark.parametrize("spoiled", ["missing", "garbage", "fifo"])
def test_without_its_pin_nothing_is_said_of_it(log: SmallLog, spoiled: str) -> None:
    log.paths.pin.unlink()
    if spoiled == "garbage":
        log.paths.pin.write_bytes(b"\0" * 100)
    if spoiled == "fifo":
        os.mkfifo(log.paths.pin)
    with pytest.raises(AuditError, match=r"audit\.pin"):
        Inspector(log.paths).inspect()


CHILDREN = {
    "late": ("import time; time.sleep(60)", "not verified within"),
    "silent": ("", "without a verdict"),
    "garbage": ("print('no json')", "can't be read"),
    "empty": ("print('{}')", "makes no sense"),
    "odd": ('print(\'{"verdict":{"verdict":"FINE"},"judged":{},"known":0,"damage":null}\')', "makes no sense"),
    "endless": ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "without a verdict"),
    "fault": ('print(\'{"percent":5}\\n{"fault":"the disk"}\')', "the disk"),
}


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_child_that_gives_no_verdict_is_told_as_that(log: SmallLog, kind: str) -> None:
    program, words = CHILDREN[kind]
    inspector = Inspector(log.paths, limit_s=1.0, argv=[sys.executable, "-I", "-c", program])
    with pytest.raises(AuditError, match=words):
        inspector.inspect()


class Late:
    """Inspections whose child gives no answer, each asked for in a thread of its own."""

    def __init__(self, log: SmallLog, *anchors: HeldAnchor, called_off: threading.Event | None = None) -> None:
        self.inspector = Inspector(log.paths, argv=[sys.executable, "-I", "-c", CHILDREN["late"][0]])
        self._told: list[str] = []
        self._asking: list[threading.Thread] = []
        self.ask(*anchors, called_off=called_off)

    def ask(self, *anchors: HeldAnchor, called_off: threading.Event | None = None) -> None:
        def inspect_in_vain() -> None:
            with pytest.raises(AuditError) as refused:
                self.inspector.inspect(anchors, called_off=called_off)
            self._told.append(str(refused.value))

        self._asking.append(threading.Thread(target=inspect_in_vain))
        self._asking[-1].start()

    def child(self) -> "subprocess.Popen[bytes]":
        """The process that inspects, once it was started."""
        deadline = time.monotonic() + 60
        while (child := self.inspector._child) is None:
            assert time.monotonic() < deadline
        return child

    def told(self) -> list[str]:
        """Why each of them was given up, once all of them were."""
        for one in self._asking:
            one.join(10)
        return self._told


def test_stopping_ends_the_child_and_begins_none(log: SmallLog) -> None:
    late = Late(log)
    late.child()
    late.inspector.stop()
    late.ask()
    assert ["the audit log was not verified: the daemon stops"] * 2 == late.told()


def test_the_child_sees_no_environment_and_no_descriptor(log: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-1")
    reading, writing = os.pipe()
    look = """import os
found = sorted(set(os.environ) - {'LC_CTYPE'}), len(os.listdir('/proc/self/fd'))
print('{"fault": "%s %d"}' % found)"""
    inspector = Inspector(log.paths, argv=[sys.executable, "-I", "-c", look])
    with pytest.raises(AuditError, match=r": \[\] 4$"):
        inspector.inspect()
    os.close(reading)
    os.close(writing)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_nobody_else_can_answer_in_the_childs_place_or_read_what_it_is_told(log: SmallLog) -> None:
    """Not even root opens another process's socket by its name under /proc, as anybody of the user opens a pipe."""
    late, refusals = Late(log), []
    child = late.child()
    for name, way in (("0", os.O_RDONLY), ("0", os.O_WRONLY), ("1", os.O_RDONLY), ("1", os.O_WRONLY)):
        with pytest.raises(OSError, match="No such device") as refused:
            os.open(f"/proc/{child.pid}/fd/{name}", way)
        refusals.append(refused.value.errno)
    late.inspector.stop()

    assert [errno.ENXIO] * 4 == refusals
    assert 1 == len(late.told())


def test_a_child_that_does_not_listen_is_not_waited_for_longer_than_any(log: SmallLog) -> None:
    """Also where more is to be said than fits into its ear."""
    inspector = Inspector(log.paths, limit_s=0.5, argv=[sys.executable, "-I", "-c", CHILDREN["late"][0]])
    began = time.monotonic()
    with pytest.raises(AuditError, match="not verified within"):
        inspector.inspect(in_file(log.anchor) * 4000)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("anchors", [1, 4000], ids=["heard", "not listened to"])
def test_an_inspection_that_is_called_off_ends_soon_and_so_does_one_that_waits_for_its_turn(
    log: SmallLog, anchors: int
) -> None:
    called_off = threading.Event()
    late = Late(log, *in_file(log.anchor) * anchors, called_off=called_off)
    late.ask(called_off=called_off)
    late.child()
    called_off.set()

    assert ["the audit log was not verified: it was called off"] * 2 == late.told()
    assert late.inspector.percent is None


@pytest.mark.parametrize("request_bytes", [b"", b"[]", b"{}", b'{"limit_s": 5}', b'{"limit_s": "x"}'])
def test_the_child_answers_nonsense_with_a_fault(request_bytes: bytes) -> None:
    done = subprocess.run(command(), input=request_bytes, capture_output=True, timeout=20, check=True)
    assert done.stdout.startswith(b'{"fault":')
    assert b"" == done.stderr
