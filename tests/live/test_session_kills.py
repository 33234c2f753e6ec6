"""`doorward run` and `doorward sessions revoke --kill` as people type them: nothing that the agent started runs on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.contract.cgroup_names import PREFIX, mount_in, path_in
from broker.contract.wire import parse_object
from tests.live.house import House, open_house, until
from tests.live.plain_upstream import Upstream, serving
from tests.server.test_kills import TREE, noted, runs

pytestmark = pytest.mark.live

CLI = (sys.executable, "-I", "-m", "broker.cli")


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("kill") / "h", origin=upstream.origin) as made:
        yield made


@contextmanager
def launched(house: House, place: Path) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, int]]]:
    """An agent under `doorward run` with a child, and an orphan of two forks in a session of its own."""
    place.write_text("")
    words = [*CLI, "run", "--", sys.executable, "-I", "-c", TREE, str(place), "lets go"]
    with subprocess.Popen(words, env=house.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as launcher:
        try:
            until(lambda: len(noted(place)) == 3)
            yield launcher, noted(place)
        finally:
            launcher.kill()
            for pid in noted(place).values():
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)


def cgroups_left() -> list[str]:
    mount = mount_in(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    within = path_in(Path("/proc/self/cgroup").read_text(encoding="utf-8"))
    if mount is None or within is None:
        return []
    return [entry.name for entry in Path(mount[0] + within).iterdir() if entry.name.startswith(PREFIX)]


def row(house: House, pid: int) -> dict[str, Any]:
    (found,) = [one for one in house.human.client.sessions() if one["pid"] == pid]
    return dict(found)


def test_a_revoke_that_kills_reaches_orphans_in_the_way_that_it_says(house: House, tmp_path: Path) -> None:
    with launched(house, tmp_path / "t") as (launcher, tree):
        shown = row(house, launcher.pid)
        done = subprocess.run(
            [*CLI, "sessions", "revoke", str(shown["id"]), "--kill", "--json"],
            env=house.environ, capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        told = parse_object(done.stdout)
        kill = told["kill"]

        assert isinstance(kill, dict)
        assert [("cgroup" if shown["cgroup"] else "tree"), 0, True] == [kill["way"], kill["left"], told["killed"]]
        assert [] == [role for role, pid in tree.items() if runs(pid)]
        assert -9 == launcher.wait(15)
    assert [] == [one for one in house.human.client.sessions() if one["id"] == shown["id"]]
    assert not [name for name in cgroups_left() if name.startswith(f"{PREFIX}{launcher.pid}-")]
    killed = house.human.events("session.killed")[-1]
    assert (shown["id"], kill) == (killed["session_id"], killed["fields"])


def test_a_revoke_without_that_leaves_processes_and_takes_grants(house: House, tmp_path: Path) -> None:
    with launched(house, tmp_path / "t") as (launcher, tree):
        shown = row(house, launcher.pid)
        done = subprocess.run(
            [*CLI, "sessions", "revoke", str(shown["id"])],
            env=house.environ,
            capture_output=True,
            check=True,
            timeout=60,
        )

        assert f"ended {shown['id']}\n" == done.stdout.decode()
        assert ["root", "child", "orphan"] == [role for role in ("root", "child", "orphan") if runs(tree[role])]
        assert launcher.poll() is None


def test_an_agent_that_ends_leaves_no_cgroup_behind(house: House) -> None:
    words = [*CLI, "run", "--", "/bin/sh", "-c", "grep ^0:: /proc/self/cgroup"]
    with subprocess.Popen(words, env=house.environ, stdout=subprocess.PIPE) as launcher:
        out, _ = launcher.communicate(timeout=60)
    before = path_in(Path("/proc/self/cgroup").read_text(encoding="utf-8"))

    assert 0 == launcher.returncode
    assert f"{PREFIX}{launcher.pid}-" in out.decode() or path_in(out.decode()) == before, "where it is delegated"
    assert not [name for name in cgroups_left() if name.startswith(f"{PREFIX}{launcher.pid}-")]


def test_what_a_tree_left_for_good_is_reached_by_its_cgroup_or_named_as_escaped(house: House, tmp_path: Path) -> None:
    """A launcher adopts orphans, so something leaves its tree only where an agent declared one without adopting."""
    with house.agent() as agent:
        agent.ask("POST", "/v1/session", {"tree": True})
        place = tmp_path / "t"
        place.write_text("")
        agent.order("run", argv=[sys.executable, "-I", "-c", TREE, str(place), "lets go"])
        until(lambda: len(noted(place)) == 3)
        tree = noted(place)
        shown = row(house, agent.pid)
        told = house.human.client.revoke_session(str(shown["id"]), kill=True)
        kill = told["kill"]
        try:
            assert isinstance(kill, dict)
            assert (False, "tree", 0) == (shown["cgroup"], kill["way"], kill["left"])
            assert "could not be seen" in str(kill["escape"])
            assert [False, False, True] == [runs(pid) for pid in (agent.pid, tree["root"], tree["orphan"])]
        finally:
            os.kill(tree["orphan"], 9)


def test_an_action_in_flight_is_finished_and_recorded_though_its_session_is_killed(
    house: House, upstream: Upstream
) -> None:
    upstream.answers.clear()
    with house.agent() as agent:
        agent.begin_act(service="open", method="POST", path="/tips", body={"cents": 5})
        upstream.wait_for_request()
        (under_way,) = until(lambda: row(house, agent.pid)["in_flight"])
        assert ("open.POST", "write") == (under_way["operation"], under_way["effect"])
        told = house.human.client.revoke_session(str(row(house, agent.pid)["id"]), kill=True)
        assert told["killed"]
        upstream.answers.set()

        def ended() -> list[dict[str, Any]]:
            return [
                event
                for event in house.human.events("action.result")
                if event["correlation_id"] == under_way["correlation_id"]
            ]

        (result,) = until(ended)
    assert "success" == result["fields"]["category"]
