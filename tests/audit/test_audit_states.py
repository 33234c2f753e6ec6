"""Whatever is done to a log in whatever order: the verdict is exactly the one that its history calls for."""

import shutil
import tempfile
import time
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from broker.audit.checkpoint import origin_of, parse_note
from broker.audit.payload import Endorser
from broker.audit.reader import read_events
from broker.audit.seal import EpochReason
from broker.audit.verdict import VerdictName
from broker.audit.writer import AuditWriter
from tests.fakes.forger import COMMIT, EPOCH, Raw, records_of
from tests.fakes.logs import SmallLog, an_event, new_log

ROOT, NOBODY = int(Endorser.ROOT), int(Endorser.NOBODY)


class LogHistory(RuleBasedStateMachine):
    """A log, the writer that has it, and what a reader of the rules knows of both."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.log: SmallLog = new_log(self.base / "log")
        self.writer: AuditWriter | None = None
        self.written: list[int] = []
        self.endorsed = True  # somebody vouches for the end of the log
        self.seed_held = True
        self.behind = False  # acknowledged records were cut off, and nobody took that over
        self.checkpoints: list[bytes] = []

    @override
    def teardown(self) -> None:
        if self.writer is not None:
            self.writer.close()
        shutil.rmtree(self.base)

    @initialize()
    def begin(self) -> None:
        self.start()

    # -- a writer is there

    def opened(self) -> AuditWriter:
        assert self.writer is not None
        return self.writer

    def writes(self) -> bool:
        return self.writer is not None and not self.behind

    @precondition(writes)
    @rule(posted=st.integers(0, 12), size=st.integers(0, 300))
    def append(self, posted: int, size: int) -> None:
        for _ in range(posted):
            self.opened().post(an_event(self._next(), text="x" * size))
        self.opened().append_blocking(an_event(self._next()))

    @precondition(writes)
    @rule()
    def lock(self) -> None:
        self.opened().new_epoch_blocking(EpochReason.LOCK)

    @precondition(writes)
    @rule(adopt=st.booleans())
    def unlock(self, *, adopt: bool) -> None:
        self.opened().new_epoch_blocking(EpochReason.UNLOCK, self.log.root, adopt=adopt)
        self.endorsed = True

    @precondition(writes)
    @rule(root=st.booleans())
    def checkpoint(self, *, root: bool) -> None:
        note = self.opened().checkpoint_blocking(self.log.root if root else None)
        parsed = parse_note(note)
        self.checkpoints.append(note)

        assert parsed is not None
        assert root == any(line.name == origin_of(bytes.fromhex(self.log.pin.log_id)) for line in parsed.signatures)

    @precondition(lambda self: self.writer is not None)
    @rule()
    def readopt(self) -> None:
        self.opened().readopt_blocking(self.log.root)
        self.endorsed, self.behind, self.seed_held = True, False, True

    @precondition(lambda self: self.writer is not None)
    @rule()
    def stop(self) -> None:
        self.opened().close()
        self.writer = None

    @precondition(writes)
    @rule()
    def die(self) -> None:
        """As a process that is killed: the files stay as they are, without an END."""
        deadline = time.monotonic() + 60
        while self.log.anchor.seq != self.opened().head[0]:  # the receipt comes first
            assert time.monotonic() < deadline
        copy = Path(shutil.copytree(self.log.base, self.base / "killed"))
        self.opened().close()
        self.writer = None
        shutil.rmtree(self.log.base)
        copy.rename(self.log.base)

    # -- none is

    @precondition(lambda self: self.writer is None)
    @rule()
    def start(self) -> None:
        self.writer = self.log.open()
        if not self.seed_held and not self.behind:
            self.endorsed = False
        self.seed_held = self.seed_held or not self.behind

    @precondition(lambda self: self.writer is None)
    @rule()
    def lose_seed(self) -> None:
        for path in self.log.paths.seeds.iterdir():
            path.unlink()
        self.seed_held = False

    @precondition(lambda self: self.writer is None and not self.behind)
    @rule(size=st.integers(1, 1500))
    def tear(self, size: int) -> None:
        with self.log.segments()[-1].open("ab") as file:
            file.write(bytes(size))
        assert self.log.verdict().verdict in {VerdictName.TORN_TAIL, VerdictName.FORGED_SIGNATURE}
        self.start()

    @precondition(lambda self: self.writer is None and not self.behind)
    @rule()
    def roll_back(self) -> None:
        """Cut off the last group, which was acknowledged; with its file, if it is the first there."""
        events = self._events()
        commits = [record for record in self._records() if record.kind == COMMIT]
        last, before = commits[-1], commits[-2]
        if last.file == before.file:
            with last.file.open("rb+") as file:
                file.truncate(before.end)
        else:
            last.file.unlink()
        self.written = [number for seq, number in events if seq < before.seq]
        self.checkpoints = [note for note in self.checkpoints if self._size(note) <= before.seq + 1]
        vouchers = [record.payload[0] for record in self._records() if record.kind == EPOCH]
        self.endorsed = NOBODY not in vouchers[_last(vouchers, ROOT) :]
        self.behind = True

    # -- what must hold

    @invariant()
    def the_verdict_is_the_one_of_its_history(self) -> None:
        verdict = self.log.verdict()
        if not self.endorsed:
            due = VerdictName.FORGED_SIGNATURE
        elif self.behind:
            due = VerdictName.TRUNCATED
        else:
            due = VerdictName.OK

        assert due == verdict.verdict, verdict.to_json()

    @invariant()
    def the_writer_knows_where_it_stands(self) -> None:
        if self.writer is None:
            return
        suspended = self.writer.suspended
        assert self.behind == (suspended is not None)
        assert (self.endorsed and not self.behind) == self.writer.endorsed == self.writer.room()
        assert self.writer.poisoned is None

    @invariant()
    def every_record_is_there_once_and_in_order(self) -> None:
        assert self.written == [number for _, number in self._events()]

    @invariant()
    def a_checkpoint_of_any_time_still_fits(self) -> None:
        if self.checkpoints and self.endorsed and not self.behind:
            assert VerdictName.OK == self.log.verdict(anchored=False, checkpoint=self.checkpoints[-1]).verdict

    def _next(self) -> int:
        self.written.append(self.written[-1] + 1 if self.written else 0)
        return self.written[-1]

    def _events(self) -> list[tuple[int, int]]:
        """Number of the record, and the number that was put into it."""
        found = []
        for seq, event in read_events(self.log.directory, self.log.secrets.audit_sk):
            fields = event["fields"]
            assert isinstance(fields, dict)
            found.append((seq, fields["number"]))
        return found

    def _records(self) -> list[Raw]:
        return [record for path in self.log.segments() for record in records_of(path)]

    @staticmethod
    def _size(note: bytes) -> int:
        parsed = parse_note(note)
        return 0 if parsed is None else parsed.size


def _last(vouchers: list[int], wanted: int) -> int:
    return len(vouchers) - 1 - vouchers[::-1].index(wanted)


LogHistory.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestLogHistory = LogHistory.TestCase
