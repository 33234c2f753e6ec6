"""The projection: the newest events of the log, held in memory so that views answer at once. Never on disk.

What it shows is a fold over the events that it holds, and those are the last ones of the log, up to a bound: deleted
and read again it shows the same, in whatever pieces and from whichever end it was filled. Content is held as the bytes
that were sealed and parsed when it is shown. `clear` drops everything; CPython may leave copies in freed memory.
Not for use by two threads at once.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from broker.audit.activity import OPENERS, Row, Told, alone, heads_a_row, request
from broker.audit.attendance import Attendance, attendances, concerns_a_session
from broker.audit.reader import event_of
from broker.audit.seal import Entry
from broker.contract.wire import JsonObject

EVENTS_KEPT = 65_536
BYTES_KEPT = 48 << 20


class Held:
    """One record: its content, and where it belongs. Nobody changes it; made by the ten thousand, so made plainly."""

    __slots__ = ("content", "correlation_id", "heads", "of_session", "opens", "seq")

    def __init__(self, entry: Entry) -> None:
        self.seq, self.content = entry
        event = event_of(self.content)
        correlation_id = event.get("correlation_id")
        self.correlation_id = correlation_id if isinstance(correlation_id, str) else None
        self.opens = self.correlation_id is not None and event.get("event") in OPENERS
        self.heads = heads_a_row(event)
        self.of_session = concerns_a_session(event)

    @property
    def event(self) -> JsonObject:
        return event_of(self.content)


class Projection:
    """Fill it by `append` at the new end and `prepend` at the old one, without gaps."""

    def __init__(self, *, most_events: int = EVENTS_KEPT, most_bytes: int = BYTES_KEPT) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._size_bytes = 0
        self._cut = False  # whether older events were left out
        self._held: deque[Held] = deque()
        self._heads: deque[Held] = deque()
        self._of_sessions: deque[Held] = deque()
        self._trails: dict[str, list[Held]] = {}  # a trail is short, and a short list is small
        self._rows: dict[int, Row] = {}  # by the number of the head; out of date where the trail has grown

    def __len__(self) -> int:
        return len(self._held)

    @property
    def full(self) -> bool:
        """Whether older events find no room."""
        return self._cut or len(self._held) >= self._most_events

    def append(self, batch: Sequence[Entry]) -> None:
        """Take newer events, in order; the oldest make room for them."""
        for entry in batch:
            held = Held(entry)
            self._size_bytes += len(held.content)
            self._held.append(held)
            if held.heads:
                self._heads.append(held)
            if held.of_session:
                self._of_sessions.append(held)
            if held.correlation_id is not None:
                self._trails.setdefault(held.correlation_id, []).append(held)
            while self._is_over():
                self._forget()

    def prepend(self, batch: Sequence[Entry]) -> None:
        """Take older events, given in order; of these the oldest are left out where there is no room."""
        for entry in reversed(batch):
            size_bytes = self._size_bytes + len(entry[1])
            if self.full or (self._held and size_bytes > self._most_bytes):
                self._cut = True
                return
            held = Held(entry)
            self._size_bytes = size_bytes
            self._held.appendleft(held)
            if held.heads:
                self._heads.appendleft(held)
            if held.of_session:
                self._of_sessions.appendleft(held)
            if held.correlation_id is not None:
                trail = self._trails.setdefault(held.correlation_id, [])
                if held.opens:
                    for later in trail:
                        self._rows.pop(later.seq, None)
                trail.insert(0, held)

    def clear(self) -> None:
        for kept in (self._held, self._heads, self._of_sessions, self._trails, self._rows):
            kept.clear()
        self._size_bytes, self._cut = 0, False

    def events(self) -> Iterator[Held]:
        return iter(self._held)

    def events_back(self) -> Iterator[Held]:
        return reversed(self._held)

    def trail(self, correlation_id: str) -> list[Told]:
        return [(held.seq, held.event) for held in self._trails.get(correlation_id, ())]

    def rows_back(self) -> Iterator[Row]:
        """The rows of the Activity view, the one that began last first."""
        for head in reversed(self._heads):
            row = self._row(head)
            if row is not None:
                yield row

    def attendances(self) -> list[Attendance]:
        """The Sessions view."""
        rows = list(self.rows_back())
        rows.reverse()
        return attendances(((held.seq, held.event) for held in self._of_sessions), rows)

    def _row(self, head: Held) -> Row | None:
        """None where an earlier record opened the same request."""
        known = self._rows.get(head.seq)
        if not head.opens or head.correlation_id is None:
            if known is None:
                known = self._rows[head.seq] = alone(head.seq, head.event)
            return known
        trail = self._trails[head.correlation_id]
        if known is None or known.last_seq != trail[-1].seq:
            first = next(held for held in trail if held.opens)
            if first is not head:
                return None
            told = [(held.seq, held.event) for held in trail if held.seq >= head.seq]
            known = self._rows[head.seq] = request(head.correlation_id, told)
        return known

    def _is_over(self) -> bool:
        return len(self._held) > self._most_events or (self._size_bytes > self._most_bytes and len(self._held) > 1)

    def _forget(self) -> None:
        """The oldest event goes."""
        self._cut = True
        held = self._held.popleft()
        self._size_bytes -= len(held.content)
        if held.heads:
            self._heads.popleft()
            self._rows.pop(held.seq, None)
        if held.of_session:
            self._of_sessions.popleft()
        if held.correlation_id is not None:
            trail = self._trails[held.correlation_id]
            del trail[0]
            if not trail:
                del self._trails[held.correlation_id]
