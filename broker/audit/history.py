"""Asking the log's events: by filters, forwards or backwards, a bounded page at a time.

An event matches by what it says itself, or by what was said of the same request before: its agent and its operation.
For that the CONTEXT_RECORDS before the place asked for are read too. Each call looks at a bounded number of records
and says where to go on.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.audit.activity import Row
from broker.audit.projection import Held, Projection
from broker.audit.reader import LogReading, begins_at, event_of, segments_of
from broker.contract.wire import JsonObject, JsonValue
from broker.core.audit_query import AuditQuery
from broker.core.secret import Secret

SCAN_MOST = 100_000  # events that one call looks at, and the rest of a file once begun
PAGE_MOST_BYTES = 1 << 20
REQUESTS_REMEMBERED = 65_536
_RECORDS_PER_EVENT = 4  # a guess at how many records stand between events; it only decides how far to jump back
CONTEXT_RECORDS = 8_192
OLDER_RECORDS = 32_768
OVERLAP_RECORDS = 8_192  # how far the trail of an older request is followed


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`next_seq` is what to go on from in the same direction; None where there is no more."""

    items: list[JsonValue]
    next_seq: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the request that an event belongs to."""

    agent: str | None = None
    operation: str | None = None


NOTHING = Facts()


def matches(query: AuditQuery, event: JsonObject, of_request: Facts = NOTHING) -> bool:
    at_ms, told = event.get("at_ms"), event.get("fields")
    fields = told if isinstance(told, Mapping) else {}
    if query.event is not None and event.get("event") != query.event:
        return False
    if query.correlation_id is not None and event.get("correlation_id") != query.correlation_id:
        return False
    if query.session is not None and query.session not in {event.get("session_id"), _text(fields.get("session"))}:
        return False
    if query.category is not None and fields.get("category") != query.category:
        return False
    if not _within(query, at_ms if isinstance(at_ms, int) else None):
        return False
    own = facts_in(event)
    if query.agent is not None and query.agent not in {own.agent, of_request.agent}:
        return False
    return query.operation is None or _names(query.operation, own.operation or of_request.operation)


def row_matches(query: AuditQuery, row: Row) -> bool:
    return (
        (query.correlation_id is None or query.correlation_id in {row.id, row.of})
        and (query.session is None or query.session == row.session_id)
        and (query.category is None or query.category == row.category)
        and (query.agent is None or query.agent == row.agent)
        and (query.event is None or query.event == row.event)
        and (query.operation is None or _names(query.operation, row.operation))
        and _within(query, row.at_ms)
    )


def facts_in(event: JsonObject) -> Facts:
    """What an event says itself."""
    told = event.get("fields")
    fields = told if isinstance(told, Mapping) else {}
    asked = fields.get("request")
    of_request = asked.get("operation") if isinstance(asked, Mapping) else None
    return Facts(_text(fields.get("agent")), _text(fields.get("operation")) or _text(of_request))


class _Requests:
    """What was said so far of each request; the ones not heard of for longest are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Facts] = OrderedDict()

    def before(self, event: JsonObject) -> Facts:
        """What was known when this event came; and what it says is known from now on."""
        name = event.get("correlation_id")
        if not isinstance(name, str):
            return NOTHING
        known, own = self._known.pop(name, NOTHING), facts_in(event)
        self._known[name] = Facts(own.agent or known.agent, own.operation or known.operation)
        if len(self._known) > REQUESTS_REMEMBERED:
            self._known.popitem(last=False)
        return known


class History:
    """The events of one log, read from its files."""

    def __init__(self, directory: Path, audit_sk: Secret) -> None:
        self._directory = directory
        self._audit_sk = audit_sk

    def forwards(self, query: AuditQuery) -> Page:
        """Oldest first, from after `after_seq`. Raises AuditError."""
        after = -1 if query.after_seq is None else query.after_seq
        found: list[JsonValue] = []
        size = looked_at = 0
        for seq, content_bytes, event, facts in self._scan(query, self._files(after + 1), after + 1):
            if seq <= after:
                continue
            looked_at += 1
            if matches(query, event, facts):
                if found and size + content_bytes > PAGE_MOST_BYTES:
                    return Page(items=found, next_seq=after)
                found.append({"seq": seq, **event})
                size += content_bytes
            after = seq
            if len(found) >= query.limit or looked_at >= SCAN_MOST:
                return Page(items=found, next_seq=after)
        return Page(items=found, next_seq=None)

    def backwards(self, query: AuditQuery) -> Page:
        """The last ones before `before_seq`, oldest first. Raises AuditError."""
        before = query.before_seq or 0
        found: deque[tuple[int, int, JsonObject]] = deque()
        looked_at, span = 0, query.limit * _RECORDS_PER_EVENT
        for path in reversed(self._files_before(before)):
            first_seq = begins_at(path)
            while before > first_seq:
                start = first_seq if _is_filtered(query) else max(first_seq, before - span)
                part, count, recent = self._part(query, path, start, before, query.limit - len(found))
                found.extendleft(reversed(part))
                looked_at += count
                before, span = start, span * (1 if count else _RECORDS_PER_EVENT)  # beyond the end there is nothing
                if len(found) >= query.limit or looked_at >= SCAN_MOST:
                    return _fitting(found, before if len(found) < query.limit else found[0][0])
                if not recent:
                    return _fitting(found, None)
        return _fitting(found, None)

    def older(self, query: AuditQuery) -> Page:
        """Rows of requests that began before `before_seq`, the last first: for what is not held in memory.

        A row whose trail goes on for more than OVERLAP_RECORDS is told as far as it was followed.
        """
        before = query.before_seq or 0
        start = max(0, before - OLDER_RECORDS)
        held = Projection(most_events=OLDER_RECORDS + OVERLAP_RECORDS)
        reading = LogReading(self._directory, self._audit_sk, start_seq=start)
        for batch in reading.committed():
            held.append([entry for entry in batch if entry[0] < before + OVERLAP_RECORDS])
            if batch[-1][0] >= before + OVERLAP_RECORDS:
                break
        rows = (row for row in held.rows_back() if row.seq < before)
        return page_of_rows(query, rows, then=start or None)

    def _part(
        self, query: AuditQuery, path: Path, start: int, before: int, room: int
    ) -> tuple[list[tuple[int, int, JsonObject]], int, bool]:
        """The last matches between two records, how many were looked at, and if any is not too old."""
        kept: deque[tuple[int, int, JsonObject]] = deque(maxlen=max(room, 1))
        looked_at, recent = 0, query.since_ms is None
        for seq, content_bytes, event, facts in self._scan(query, [path], start):
            if seq >= before:
                break
            looked_at += 1
            at_ms = event.get("at_ms")
            recent = recent or not isinstance(at_ms, int) or at_ms >= (query.since_ms or 0)
            if matches(query, event, facts):
                kept.append((seq, content_bytes, event))
        return list(kept), looked_at, recent

    def _scan(self, query: AuditQuery, paths: list[Path], start: int) -> Iterator[tuple[int, int, JsonObject, Facts]]:
        """Number, size, event, and what was said of its request before; a break in one file does not hide the next."""
        asks_of_request = query.agent is not None or query.operation is not None
        begin = max(0, start - CONTEXT_RECORDS) if asks_of_request else start
        before = [path for path in self._files(begin) if path < paths[0]] if asks_of_request else []
        requests = _Requests()
        for path in [*before, *paths]:
            reading = LogReading(self._directory, self._audit_sk, start_seq=begin, first=path, alone=True)
            for batch in reading.committed():
                for seq, content in batch:
                    event = event_of(content)
                    facts = requests.before(event) if asks_of_request else NOTHING
                    if seq >= start:
                        yield seq, len(content), event, facts

    def _files(self, seq: int) -> list[Path]:
        files = list(segments_of(self._directory))
        while len(files) > 1 and begins_at(files[1]) <= seq:
            files.pop(0)
        return files

    def _files_before(self, seq: int) -> list[Path]:
        files = list(segments_of(self._directory))
        while len(files) > 1 and begins_at(files[-1]) >= seq:
            files.pop()
        return files


def held_forwards(projection: Projection, query: AuditQuery) -> Page:
    """Like History.forwards, for a place that is held in memory."""
    after = -1 if query.after_seq is None else query.after_seq
    newer: list[Held] = []
    for held in projection.events_back():
        if held.seq <= after:
            break
        newer.append(held)
    found: list[JsonValue] = []
    size = 0
    for held in reversed(newer):
        event = held.event
        if not matches(query, event, _facts_before(projection, query, held)):
            continue
        size += len(held.content)
        if found and size > PAGE_MOST_BYTES:
            return Page(items=found, next_seq=after)
        after = held.seq
        found.append({"seq": held.seq, **event})
        if len(found) >= query.limit:
            return Page(items=found, next_seq=after)
    return Page(items=found, next_seq=None)


def held_backwards(projection: Projection, query: AuditQuery) -> Page:
    """Like History.backwards, as far as is held in memory; `next_seq` is then where the log's files take over."""
    before = query.before_seq
    found: deque[tuple[int, int, JsonObject]] = deque()
    oldest = before or 0
    for held in projection.events_back():
        if before is not None and held.seq >= before:
            continue
        event, oldest = held.event, held.seq
        if matches(query, event, _facts_before(projection, query, held)):
            found.appendleft((held.seq, len(held.content), event))
            if len(found) >= query.limit:
                break
    return _fitting(found, oldest)


def page_of_rows(query: AuditQuery, rows: Iterator[Row], *, then: int | None) -> Page:
    """The rows that match, the last first; `then` is where to go on when there are no more of these."""
    found: list[JsonValue] = []
    last: int | None = None
    for row in rows:
        if query.before_seq is not None and row.seq >= query.before_seq:
            continue
        if query.after_seq is not None and row.last_seq <= query.after_seq:
            continue
        if row_matches(query, row):
            if len(found) >= query.limit:
                return Page(items=found, next_seq=last)
            found.append(row.to_json())
            last = row.seq
    return Page(items=found, next_seq=then)


def _facts_before(projection: Projection, query: AuditQuery, held: Held) -> Facts:
    if held.correlation_id is None or (query.agent is None and query.operation is None):
        return NOTHING
    agent = operation = None
    for seq, event in projection.trail(held.correlation_id):
        if seq >= held.seq:
            break
        own = facts_in(event)
        agent, operation = own.agent or agent, own.operation or operation
    return Facts(agent, operation)


def _fitting(found: deque[tuple[int, int, JsonObject]], next_seq: int | None) -> Page:
    """The newest of what was found that fit a page."""
    size = sum(content_bytes for _, content_bytes, _ in found)
    while len(found) > 1 and size > PAGE_MOST_BYTES:
        size -= found.popleft()[1]
        next_seq = found[0][0]
    return Page(items=[{"seq": seq, **event} for seq, _, event in found], next_seq=next_seq)


def _is_filtered(query: AuditQuery) -> bool:
    asked = (query.agent, query.session, query.operation, query.category, query.correlation_id, query.event)
    return any(value is not None for value in (*asked, query.since_ms, query.until_ms))


def _within(query: AuditQuery, at_ms: int | None) -> bool:
    if query.since_ms is None and query.until_ms is None:
        return True
    if at_ms is None:
        return False
    return (query.since_ms is None or at_ms >= query.since_ms) and (query.until_ms is None or at_ms < query.until_ms)


def _names(asked: str, operation: str | None) -> bool:
    """An operation by its name, or all of a service."""
    return operation is not None and (operation == asked or operation.startswith(f"{asked}."))


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
