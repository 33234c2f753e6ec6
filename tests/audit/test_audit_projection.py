"""The projection equals a plain fold over the events, however it was filled."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.audit.activity import Row, heads_a_row
from broker.audit.projection import Projection
from broker.audit.reader import event_of
from broker.audit.seal import Entry
from broker.contract.wire import canonical
from broker.core.events import EventName
from tests.fakes.plain_views import plain_attendances, plain_fold

REQUESTS = ("op_1", "op_2", "op_3")
SESSIONS = ("se_1", "se_2", None)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "agent": st.sampled_from(["codex", "claude-code", 7]),
    "decision": st.sampled_from(["approve", "deny", "expired", "none"]),
    "category": st.sampled_from(["success", "call_denied", "outcome_unknown", None]),
    "code": st.sampled_from(["ok", "declined"]),
    "grant": st.sampled_from(["gr_1", "gr_2"]),
    "why": st.just("exited"),
    "elapsed_ms": st.integers(0, 9),
    "identifies": st.just("acme/site"),
    "rules": st.just(["r1"]),
    "request": st.fixed_dictionaries(
        {"effect": st.sampled_from(["read", "write", "exec", "odd"]), "destructive": st.booleans()}
    ),
    "recorded": st.just("op_0"),
    "returned": st.integers(0, 3),
}


def spelled(event: dict[str, Any]) -> bytes:
    return canonical(event)


CONTENTS = st.fixed_dictionaries(
    {
        "event": st.sampled_from([name.value for name in EventName]),
        "at_ms": st.integers(0, 99),
        "correlation_id": st.sampled_from([*REQUESTS, None]),
        "session_id": st.sampled_from(SESSIONS),
        "fields": st.fixed_dictionaries({}, optional=FIELDS),
    }
).map(spelled) | st.sampled_from(["its seal does not open", b"[1]", b'{"event":5}', b"\xff"])


@dataclass
class Log:
    """What was written so far, with gaps between the numbers as signatures leave them."""

    entries: list[Entry] = field(default_factory=list)

    def write(self, contents: Sequence[bytes | str]) -> list[Entry]:
        first = self.entries[-1][0] + 2 if self.entries else 3
        new: list[Entry] = [(first + 2 * at, content) for at, content in enumerate(contents)]
        self.entries += new
        return new


def window(entries: list[Entry], most_events: int, most_bytes: int) -> list[Entry]:
    """The last events of a log that the bounds leave."""
    kept: list[Entry] = []
    size = 0
    for entry in reversed(entries):
        size += len(entry[1])
        if len(kept) == most_events or (kept and size > most_bytes):
            break
        kept.insert(0, entry)
    return kept


def same_as_a_fold(projection: Projection, entries: list[Entry]) -> None:
    told = [(seq, event_of(content)) for seq, content in entries]
    rows: list[Row] = plain_fold(told)

    assert [seq for seq, _ in told] == [held.seq for held in projection.events()]
    assert [row.to_json() for row in reversed(rows)] == [row.to_json() for row in projection.rows_back()]
    expected = [one.to_json() for one in plain_attendances(told)]
    assert expected == [one.to_json() for one in projection.attendances()]


def rebuilt(entries: list[Entry], cuts: list[int], projection: Projection) -> None:
    """From the log alone, in chunks, the newest first."""
    places = sorted({cut % (len(entries) + 1) for cut in cuts} | {0, len(entries)})
    for start, end in reversed(list(itertools.pairwise(places))):
        projection.prepend(entries[start:end])


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["live", "lock", "look"]),
        st.lists(CONTENTS, max_size=6),
        st.lists(st.integers(0, 99), max_size=4),
    ),
    max_size=8,
)


@given(STEPS, st.sampled_from([(1000, 1 << 20), (7, 1 << 20), (1000, 900), (5, 600)]))
@settings(max_examples=300, deadline=None)
def test_it_equals_a_fold_after_any_sequence_of_feeds_and_rebuilds(
    steps: list[tuple[str, list[bytes | str], list[int]]], bounds: tuple[int, int]
) -> None:
    log, projection = Log(), Projection(most_events=bounds[0], most_bytes=bounds[1])
    for what, contents, cuts in steps:
        new = log.write(contents)
        if what == "lock":  # what is written meanwhile nobody reads; afterwards everything is read anew
            projection.clear()
            assert [] == list(projection.rows_back())
            rebuilt(log.entries, cuts, projection)
        else:
            projection.append(new)
        if what == "look":
            list(projection.rows_back())  # fills what is kept of rows
        same_as_a_fold(projection, window(log.entries, *bounds))


@given(st.lists(CONTENTS, max_size=20), st.lists(st.integers(0, 99), max_size=4))
@settings(deadline=None)
def test_deleted_and_rebuilt_it_gives_the_same_answer(contents: list[bytes | str], cuts: list[int]) -> None:
    log, projection = Log(), Projection()
    projection.append(log.write(contents))
    before = [row.to_json() for row in projection.rows_back()]
    projection.clear()
    rebuilt(log.entries, cuts, projection)

    assert before == [row.to_json() for row in projection.rows_back()]


def told(
    name: EventName, correlation_id: str | None = "op_1", session_id: str | None = "se_1", **fields: object
) -> bytes:
    return canonical(
        {
            "event": name.value,
            "at_ms": 1000,
            "correlation_id": correlation_id,
            "session_id": session_id,
            "fields": fields,  # type: ignore[dict-item]  # a test spells plain values
        }
    )


CALL = (
    told(EventName.ACTION_REQUESTED, session_id=None, agent="codex", pid=4711),
    told(
        EventName.POLICY_DECIDED,
        identifies="acme/site 12",
        rules=["issues-write"],
        request={"effect": "write", "destructive": False, "operation": "github.issues.create"},
    ),
    told(EventName.APPROVAL_REQUESTED),
    told(EventName.APPROVAL_DECIDED, decision="approve"),
    told(EventName.DISPATCH_STARTED),
    told(EventName.REMOTE_ANSWERED, status=422, elapsed_ms=180, sent_body_bytes=74),
    told(EventName.ACTION_RESULT, category="confirmed_failure", code="client_error", remote_effect="none"),
)


def test_a_request_is_one_row_that_says_who_what_where_and_how_it_ended() -> None:
    log, projection = Log(), Projection()
    projection.append(log.write(CALL))
    approved, row = projection.rows_back()

    assert ("approval.decided", "op_1") == (approved.event, approved.of)
    assert ("codex", "WRITE", "github.issues.create", "acme/site 12") == (
        row.agent,
        row.effect,
        row.operation,
        row.target,
    )
    assert ("ended", "confirmed_failure", 422, 180, 7) == (
        row.state,
        row.category,
        row.status,
        row.elapsed_ms,
        row.events,
    )
    assert [seq for seq, _ in log.entries] == [seq for seq, _ in projection.trail("op_1")]


def test_a_row_tells_how_far_its_request_is() -> None:
    log, projection = Log(), Projection()
    states = []
    for content in CALL:
        projection.append(log.write([content]))
        states.append(next(row.state for row in projection.rows_back() if row.id == "op_1"))

    assert ["asked", "asked", "waiting", "asked", "sent", "sent", "ended"] == states


def test_what_never_opens_is_shown_and_breaks_nothing() -> None:
    log, projection = Log(), Projection()
    projection.append(log.write(["its seal does not open"]))
    (row,) = projection.rows_back()

    assert ("unreadable", {"unreadable": "its seal does not open"}) == (row.event, row.fields)


def test_a_session_is_told_with_its_grants_counts_and_end() -> None:
    log, projection = Log(), Projection()
    log.write([told(EventName.SESSION_OPENED, None, agent="codex", pid=4711, span="tree")])
    log.write([told(EventName.GRANT_MADE, None, grant="gr_1", rule="r1", max_uses=5, agent="codex")])
    log.write(CALL)
    log.write([told(EventName.ACTION_REQUESTED, "op_2", agent="codex")])
    log.write([told(EventName.ACTION_RESULT, "op_2", category="policy_denied", code="no_rule")])
    log.write([told(EventName.SESSION_ENDED, None, why="exited", agent="codex")])
    projection.append(log.entries)
    (session,) = projection.attendances()

    assert ("codex", 4711, 2, 1, 0) == (session.agent, session.pid, session.requests, session.denied, session.open)
    assert ("exited", {"WRITE": 1}) == (session.why, dict(session.effects))
    assert {"at_ms": 1000, "id": "op_2", "category": "policy_denied", "code": "no_rule"} == session.last_denial
    assert [("gr_1", 5, 1000)] == [
        (grant["id"], grant["max_uses"], grant["ended_at_ms"]) for grant in session.grants.values()
    ]


def test_what_is_held_is_bounded_by_number_and_by_bytes() -> None:
    by_number, by_bytes = Projection(most_events=50), Projection(most_bytes=10_000)
    log = Log()
    for _ in range(100):
        new = log.write(CALL)
        by_number.append(new)
        by_bytes.append(new)

    assert 50 == len(by_number)
    assert 10_000 >= sum(len(held.content) for held in by_bytes.events()) > 9_000
    assert by_number.full
    assert by_bytes.full


def test_every_event_of_the_closed_list_has_a_place_in_the_views() -> None:
    """Shown as a row, part of a request's trail, or told by the Sessions view."""
    in_trails = {"action", "approval", "dispatch", "remote", "deadline", "transport", "reconcile", "evidence"}
    for name in EventName:
        noun = name.value.partition(".")[0]
        told_elsewhere = noun in in_trails | {"session", "grant"} or name in {
            EventName.POLICY_DECIDED,
            EventName.OPERATION_IN_DOUBT,
        }
        assert heads_a_row({"event": name.value}) or told_elsewhere, name
