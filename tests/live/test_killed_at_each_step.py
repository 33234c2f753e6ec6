import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import plain_upstream
from tests.live.house import House, until
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

CRASHING = str(Path(__file__).with_name("crashing_daemon.py"))
WRITE = {
    "service": "open",
    "method": "POST",
    "path": "/orders",
    "body": {"name": "n-1"},
    "request_id": "r-1",
}

# Where the daemon dies, whether the upstream may have seen the request, and whether the change is in doubt afterwards.
STEPS = [
    ("before", "action.requested", False, False),
    ("after", "action.requested", False, False),
    ("before", "policy.decided", False, False),
    ("after", "policy.decided", False, False),
    ("before", "find", False, False),
    ("after", "find", False, False),
    ("before", "doubts", False, False),
    ("after", "doubts", False, False),
    ("before", "begin", False, False),
    ("after", "begin", False, True),
    ("before", "dispatch.started", False, True),
    ("after", "dispatch.started", False, True),
    ("before", "execute", False, True),
    ("after", "execute", True, True),
    ("before", "remote.answered", True, True),
    ("after", "remote.answered", True, True),
    ("before", "action.result", True, True),
    ("after", "action.result", True, True),
    ("before", "finish", True, True),
    ("after", "finish", True, False),
]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with plain_upstream.serving() as serving:
        yield serving


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    """A house whose state is ready and whose daemon is not running."""
    with House(tmp_path / "h") as built:
        built.init().open(origin=upstream.origin)
        built.stop()
        yield built


def verdict(house: House) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "audit", "verify", "--json"],
        env=house.environ,
        capture_output=True,
        check=False,
        timeout=60,
    )
    found: str = json.loads(done.stdout)["verdict"]
    return found


def in_doubt(house: House) -> list[dict[str, Any]]:
    return [dict(row) for row in house.human.client.operations(state="in_doubt")]


def died(house: House) -> None:
    """The daemon killed itself, and not for another reason."""
    assert house.process is not None
    assert -9 == house.wait(), house.log()


@pytest.mark.parametrize(("side", "point", "seen", "doubtful"), STEPS, ids=str)
def test_after_a_kill_the_log_verifies_and_what_is_in_doubt_is_listed(
    house: House, upstream: Upstream, side: str, point: str, *, seen: bool, doubtful: bool
) -> None:
    house.start(program=("-I", CRASHING, side, point)).open()
    with house.agent() as agent:
        asked = agent.begin_act(**WRITE)
        died(house)
        assert agent.end(asked).get("fault"), "a daemon that died answered"
    house.start().open()

    assert "OK" == verdict(house)
    assert seen == ("POST /open/orders" in upstream.requests)
    assert doubtful == (1 == len(in_doubt(house)))
    assert 1 == house.human.client.status()["operations"]["in_doubt"] if doubtful else True  # type: ignore[index, call-overload]  # plain JSON


@pytest.mark.parametrize("point", ["begin", "dispatch.started"])
def test_the_same_change_is_refused_after_the_restart_until_a_human_settles_it(
    house: House, upstream: Upstream, point: str
) -> None:
    house.start(program=("-I", CRASHING, "after", point)).open()
    with house.agent() as agent:
        agent.begin_act(**WRITE)
        died(house)
    house.start().open()
    with house.agent() as another:
        refused = another.act(**{**WRITE, "request_id": "r-2"})
        (operation,) = in_doubt(house)
        house.human.client.settle(operation["correlation_id"], "not_applied", "it was never sent", house.key)
        sent = another.act(**{**WRITE, "request_id": "r-3"})

    assert ("reconcile_required", "unknown") == (refused["category"], refused["remote_effect"])
    assert "success" == sent["category"]
    assert ["POST /open/orders"] == upstream.requests


def test_a_kill_while_a_card_waits_leaves_nothing_to_approve(house: House, upstream: Upstream) -> None:
    house.start().open()
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-1"})
        house.human.wait_for_card()
        house.kill()
    house.start().open()

    assert [] == house.human.cards()
    assert [] == in_doubt(house)
    assert "OK" == verdict(house)
    assert [] == upstream.requests


def test_the_process_that_asked_learns_after_the_restart_that_nothing_was_recorded(
    house: House, upstream: Upstream
) -> None:
    house.start(program=("-I", CRASHING, "after", "execute")).open()
    with house.agent() as agent:
        agent.begin_act(**WRITE)
        died(house)
        house.start().open()
        until(lambda: upstream.requests)
        told = agent.act(**WRITE)

    assert ("outcome_unknown", "unrecorded", "unknown") == (told["category"], told["code"], told["remote_effect"])
    assert ["POST /open/orders"] == upstream.requests
