"""Activity, Sessions and the events of a real daemon's log, through locks, crashes and restarts."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.plain_views import plain_attendances, plain_fold
from tests.live.house import ROOT, House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

CREATE = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}
TIP = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}
LIST = {"service": "shop", "operation": "orders.list", "args": {}}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path / "h", origin=upstream.origin) as made:
        yield made


def everything(house: House) -> list[tuple[int, dict[str, Any]]]:
    """All events, page by page, as a plain fold takes them."""
    out: list[tuple[int, dict[str, Any]]] = []
    after = 0
    while True:
        page: dict[str, Any] = dict(house.human.client.audit_events(after_seq=after, limit=40))
        out += [(event.pop("seq"), event) for event in page["events"]]
        if page["next_seq"] is None:
            return out
        after = page["next_seq"]


def activity(house: House, **query: Any) -> list[dict[str, Any]]:
    told: Any = until(lambda: _rebuilt(house.human.client.audit_activity(limit=1000, **query)))
    rows: list[dict[str, Any]] = told["rows"]
    return rows


def sessions(house: House) -> list[dict[str, Any]]:
    told: Any = until(lambda: _rebuilt(house.human.client.audit_sessions(limit=1000)))
    found: list[dict[str, Any]] = told["sessions"]
    return found


def _rebuilt(told: dict[str, Any]) -> dict[str, Any] | None:
    return told if told["rebuilt"] else None


def agree(house: House) -> None:
    """The views are folds over the events and nothing else."""
    events = everything(house)
    until(lambda: len(everything(house)) == len(events))  # nothing is under way any more
    assert [row.to_json() for row in reversed(plain_fold(events))] == activity(house)
    assert [one.to_json() for one in plain_attendances(events)] == sessions(house)


def some_work(house: House) -> None:
    """A refusal by policy, a grant, a yes, a no, and a request that needs nobody."""
    with house.agent() as agent:
        agent.act(**TIP)
        agent.act(service="shop", method="DELETE", path="/orders/1")
        first = agent.begin_act(**LIST)
        house.human.approve(house.human.wait_for_card(), scope="session")
        agent.end_act(first)
        second = agent.begin_act(**CREATE)
        house.human.approve(house.human.wait_for_card())
        agent.end_act(second)
        third = agent.begin_act(**CREATE)
        house.human.deny(house.human.wait_for_card(), "not now")
        agent.end_act(third)
    until(lambda: not house.human.client.sessions())


def test_the_views_are_folds_over_the_log_and_stay_so(house: House) -> None:
    some_work(house)
    agree(house)
    before = activity(house)

    house.human.client.lock()
    house.human.unlock()
    house.human.open_session()
    assert before == [row for row in activity(house) if row["seq"] <= before[0]["seq"]]
    agree(house)

    house.kill()
    house.start().open()
    assert before == [row for row in activity(house) if row["seq"] <= before[0]["seq"]]
    some_work(house)
    agree(house)


def test_a_row_tells_what_was_asked_where_and_how_it_ended(house: House, upstream: Upstream) -> None:
    some_work(house)
    rows = [row for row in activity(house) if row["event"] == "action.requested"]
    denied, created, listed, refused, tipped = rows

    assert ("WRITE", "shop.orders.create", "call_denied", "not now") == (
        denied["effect"],
        denied["operation"],
        denied["category"],
        denied["reason"],
    )
    assert ("approve", "success", "applied", ["buy"]) == (
        created["decision"],
        created["category"],
        created["remote_effect"],
        created["rules"],
    )
    assert ("READ", 200) == (listed["effect"], listed["status"])
    assert ("policy_denied", "DELETE", None) == (refused["category"], refused["effect"], refused["elapsed_ms"])
    assert tipped["elapsed_ms"] is not None
    assert 3 == len(upstream.requests)


def test_rows_and_events_can_be_asked_for_by_what_they_are(house: House) -> None:
    some_work(house)
    client = house.human.client
    (session,) = sessions(house)
    agent = session["agent"]

    assert ["call_denied"] == [row["category"] for row in activity(house, category="call_denied")]
    assert 3 == len(activity(house, operation="shop.orders.create") + activity(house, operation="shop.orders.list"))
    assert 5 == len([row for row in activity(house, agent=agent) if row["event"] == "action.requested"])
    assert [] == activity(house, agent="nobody")
    told: Any = client.audit_events(session=session["id"], limit=1000)["events"]
    assert {"session.opened", "session.ended", "grant.made"} <= {event["event"] for event in told}
    newest: Any = client.audit_events(before_seq=1 << 40, limit=3)
    assert newest["events"] == client.audit_events(after_seq=newest["next_seq"] - 1, limit=3)["events"]
    assert ("exited", 1, 2) == (session["why"], len(session["grants"]), session["denied"])


def test_sealed_views_are_per_process_and_end_with_the_lock(house: House) -> None:
    paths = ("/v1/audit/events", "/v1/audit/activity", "/v1/audit/sessions")
    stranger = (
        "import json, sys\n"
        "from tests.live.agent_process import Link, exchange\n"
        "link = Link(sys.argv[1])\n"
        "for path in sys.argv[2:]:\n"
        "    told = exchange(link, {'method': 'GET', 'path': path, 'body': None})\n"
        "    print(told['status'], told['value']['error']['code'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", stranger, house.places.control_socket, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ["401 control_session_required"] * 3 == done.stdout.splitlines()
    assert [200] * 3 == [house.human.ask("GET", path)[0] for path in paths]

    house.human.client.lock()
    assert [401] * 3 == [house.human.ask("GET", path)[0] for path in paths]
