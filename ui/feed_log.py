"""The part of the feed that is about the log: its views, a trail, a verdict by a program of its own, a checkpoint.

Activity is read once from the newest back and then by what has changed. The verifier runs as a child and in a thread
of its own: no answer on a card waits for it.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from broker.client.control import ControlClient
from broker.client.faults import Broken
from broker.client.places import Places
from broker.contract.wire import WireError, parse_object
from ui import served, served_log
from ui.messages import ActivityNews, CheckpointNews, LogFactsNews, News, PastNews, TrailNews, VerdictNews
from ui.served_log import Checkpoint, LogFacts, SaidVerdict

ROWS_KEPT = 10_000
PAGE = 1000
FIRST_PAGE = 200
TRAIL_MOST = 500
VERIFY_S = 600.0
PAST_MOST = 200


class LogFeed:
    """Called by the feed's own task thread, but for `verify`."""

    def __init__(self, places: Places, tell: Callable[[News], object]) -> None:
        self._places = places
        self._tell = tell
        self._head: int | None = None  # up to where the rows are known
        self._child: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def forget(self) -> None:
        """What is sealed was dropped: the next reading begins anew."""
        self._head = None

    def activity(self, client: ControlClient) -> None:
        if self._head is None:
            self._whole(client)
            return
        answer = client.audit_activity(after_seq=self._head, limit=PAGE)
        rows = served_log.activity(answer)
        if len(rows) == PAGE and served.Fields(answer).number_or_none("next_seq") is not None:
            self._head = None  # more has changed than one page tells
            self._whole(client)
            return
        self._head = served.Fields(answer).number("head")
        if rows:
            self._tell(ActivityNews(rows=rows, anew=False))

    def _whole(self, client: ControlClient) -> None:
        before: int | None = None
        head, count, anew = None, 0, True
        while count < ROWS_KEPT:
            answer = client.audit_activity(before_seq=before, limit=FIRST_PAGE if before is None else PAGE)
            fields, rows = served.Fields(answer), served_log.activity(answer)
            head = fields.number("head") if head is None else head
            self._tell(ActivityNews(rows=rows, anew=anew))
            count, anew, before = count + len(rows), False, fields.number_or_none("next_seq")
            if before is None or before <= fields.number("from_seq"):
                break  # what is older is left to `doorward audit show`
        self._head = head

    def past(self, client: ControlClient) -> None:
        self._tell(PastNews(sessions=served_log.past_sessions(client.audit_sessions(limit=PAST_MOST))))

    def trail(self, client: ControlClient, correlation_id: str) -> None:
        answer = client.audit_events(correlation_id=correlation_id, before_seq=(1 << 53) - 1, limit=TRAIL_MOST)
        self._tell(TrailNews(correlation_id=correlation_id, events=served.events(answer)))

    def facts(self) -> None:
        """How large the log is and how much room its disk has, as far as this process may see."""
        with contextlib.suppress(OSError):
            size = sum(path.stat().st_size for path in self._places.audit.glob("*.seg"))
            room = os.statvfs(self._places.audit)
            self._tell(LogFactsNews(facts=LogFacts(size_bytes=size, free_bytes=room.f_bavail * room.f_frsize)))

    def checkpoint(self, client: ControlClient) -> str:
        answer = served.Fields(client.audit_checkpoint())
        found = Checkpoint(
            at_ms=time.time_ns() // 1_000_000,
            note=answer.text("note"),
            size=answer.number("size"),
            countersigned=answer.flag("countersigned"),
        )
        if not found.note:
            raise Broken("the daemon sent no checkpoint")
        self._tell(CheckpointNews(checkpoint=found))
        return "a checkpoint is written; keep a copy of its note elsewhere"

    def verify(self) -> None:
        """Start the verifier, if none runs. What it finds comes as news."""
        if self._one_at_a_time.acquire(blocking=False):
            self._tell(VerdictNews(verdict=None))
            threading.Thread(target=self._verify, name="doorward-verify", daemon=True).start()

    def stop(self) -> None:
        child = self._child
        if child is not None:
            child.kill()

    def _verify(self) -> None:
        began = time.monotonic()
        try:
            output = self._verified()
            fields = served.Fields(parse_object(output))
            found = SaidVerdict(
                verdict=fields.text("verdict"),
                rung=fields.text("rung"),
                note=fields.text("note"),
                records=fields.number("records"),
                segment=fields.text_or_none("segment"),
                offset=fields.number_or_none("offset"),
                seq=fields.number_or_none("seq"),
                proven_to=fields.number_or_none("proven_to"),
                at_ms=time.time_ns() // 1_000_000,
                took_s=time.monotonic() - began,
            )
        except (OSError, subprocess.SubprocessError, WireError, Broken):
            found = SaidVerdict.none(at_ms=time.time_ns() // 1_000_000)
        finally:
            self._child = None
            self._one_at_a_time.release()
        self._tell(VerdictNews(verdict=found))

    def _verified(self) -> bytes:
        command = [sys.executable, "-I", "-m", "broker.cli", "audit", "verify", "--json"]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
        ) as child:
            self._child = child
            try:
                return child.communicate(timeout=VERIFY_S)[0]
            finally:
                child.kill()
