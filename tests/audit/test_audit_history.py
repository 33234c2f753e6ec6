"""Pages of the log, from its files and from memory: together they are what a plain filter over everything gives."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.audit import history
from broker.audit.history import History, Page, held_backwards, held_forwards
from broker.audit.projection import Projection
from broker.audit.reader import LogReading, read_events
from broker.core.audit_query import AuditQuery
from broker.core.events import AuditEvent, EventName
from tests.fakes.logs import SmallLog, new_log

AGENTS = ("codex", "claude-code", "aider")


def call(number: int) -> list[AuditEvent]:
    """One request: who asks is told in its first event, what in its second, how it ended in its third."""
    common: dict[str, Any] = {
        "at_ms": 1000 * number,
        "correlation_id": f"op_{number}",
        "session_id": f"se_{number % 2}",
    }
    service = "github" if number % 3 else "shop"
    category = "success" if number % 4 else "policy_denied"
    return [
        AuditEvent(name=EventName.ACTION_REQUESTED, fields={"agent": AGENTS[number % 3]}, **common),
        AuditEvent(name=EventName.POLICY_DECIDED, fields={"request": {"operation": f"{service}.list"}}, **common),
        AuditEvent(name=EventName.ACTION_RESULT, fields={"category": category}, **common),
    ]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SmallLog:
    """Several files, several epochs in each."""
    made = new_log(tmp_path_factory.mktemp("log"))
    with made.writer() as writer:
        for number in range(60):
            for event in call(number):
                writer.append_blocking(event)
    assert 3 < len(made.segments())
    return made


@pytest.fixture(scope="module")
def whole(log: SmallLog) -> list[dict[str, Any]]:
    return [{"seq": seq, **event} for seq, event in read_events(log.directory, log.secrets.audit_sk)]


@pytest.fixture
def files(log: SmallLog) -> History:
    return History(log.directory, log.secrets.audit_sk)


@pytest.fixture
def held(log: SmallLog) -> Projection:
    projection = Projection()
    for batch in LogReading(log.directory, log.secrets.audit_sk).committed():
        projection.append(batch)
    return projection


FILTERS: dict[str, tuple[AuditQuery, Any]] = {
    "all": (AuditQuery(limit=7), lambda _: True),
    "event": (AuditQuery(limit=7, event="action.result"), lambda one: one["event"] == "action.result"),
    "session": (AuditQuery(limit=7, session="se_1"), lambda one: one["session_id"] == "se_1"),
    "one request": (AuditQuery(limit=7, correlation_id="op_31"), lambda one: one["correlation_id"] == "op_31"),
    "category": (
        AuditQuery(limit=7, category="policy_denied"),
        lambda one: one["fields"].get("category") == "policy_denied",
    ),
    "times": (AuditQuery(limit=7, since_ms=20_000, until_ms=40_000), lambda one: 20_000 <= one["at_ms"] < 40_000),
    "agent": (AuditQuery(limit=7, agent="aider"), lambda one: int(one["correlation_id"][3:]) % 3 == 2),
    "service": (
        AuditQuery(limit=7, operation="shop"),
        lambda one: one["event"] != "action.requested" and int(one["correlation_id"][3:]) % 3 == 0,
    ),
    "operation": (
        AuditQuery(limit=7, operation="github.list"),
        lambda one: one["event"] != "action.requested" and int(one["correlation_id"][3:]) % 3 != 0,
    ),
    "nothing": (AuditQuery(limit=7, agent="nobody"), lambda _: False),
}


def forwards(source: Any, query: AuditQuery) -> list[dict[str, Any]]:
    """All pages, one after the other."""
    out: list[Any] = []
    for _ in range(1000):
        page: Page = source(query)
        assert len(page.items) <= query.limit
        out += page.items
        if page.next_seq is None:
            return out
        query = replace(query, after_seq=page.next_seq)
    raise AssertionError("it does not end")


def backwards(source: Any, query: AuditQuery, until: int = 0) -> list[dict[str, Any]]:
    out: list[Any] = []
    query = replace(query, before_seq=1 << 40)
    for _ in range(1000):
        page: Page = source(query)
        assert len(page.items) <= query.limit
        out = [*page.items, *out]
        if page.next_seq is None or page.next_seq <= until:
            return out
        query = replace(query, before_seq=page.next_seq)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("name", FILTERS)
def test_pages_forwards_are_what_a_plain_filter_gives(
    name: str, files: History, held: Projection, whole: list[dict[str, Any]]
) -> None:
    query, wanted = FILTERS[name]
    expected = [one for one in whole if wanted(one)]

    assert expected == forwards(files.forwards, query)
    assert expected == forwards(lambda asked: held_forwards(held, asked), query)


@pytest.mark.parametrize("name", FILTERS)
def test_pages_backwards_are_what_a_plain_filter_gives(
    name: str, files: History, held: Projection, whole: list[dict[str, Any]]
) -> None:
    query, wanted = FILTERS[name]
    expected = [one for one in whole if wanted(one)]

    assert expected == backwards(files.backwards, query)
    assert expected == backwards(lambda asked: held_backwards(held, asked), query, until=whole[0]["seq"])


@pytest.mark.parametrize("bound", ["SCAN_MOST", "PAGE_MOST_BYTES"])
@pytest.mark.parametrize("name", FILTERS)
def test_small_bounds_make_more_pages_and_the_same_answer(
    bound: str, name: str, files: History, whole: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, bound, 20 if bound == "SCAN_MOST" else 600)
    query, wanted = FILTERS[name]
    expected = [one for one in whole if wanted(one)]

    assert expected == forwards(files.forwards, query)
    assert expected == backwards(files.backwards, query)


def test_a_break_in_one_file_does_not_hide_the_next(log: SmallLog, tmp_path: Path) -> None:
    copy = tmp_path / "audit"
    copy.mkdir()
    for path in log.segments():
        (copy / path.name).write_bytes(path.read_bytes())
    broken = copy / log.segments()[1].name
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 1
    broken.write_bytes(content)
    told = forwards(History(copy, log.secrets.audit_sk).forwards, AuditQuery(limit=50))

    assert 1 == sum("broken here" in str(one.get("unreadable")) for one in told)
    assert "op_59" == told[-1]["correlation_id"]


def test_older_rows_are_read_from_the_files(
    files: History, held: Projection, monkeypatch: pytest.MonkeyPatch, whole: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(history, "OLDER_RECORDS", 40)
    expected = [row.to_json() for row in held.rows_back()]
    found: list[Any] = []
    query = AuditQuery(limit=9, before_seq=1 << 40)
    query = replace(query, before_seq=whole[-1]["seq"] + 1)
    while query.before_seq:
        page = files.older(query)
        found += page.items
        query = replace(query, before_seq=page.next_seq)

    assert expected == found
