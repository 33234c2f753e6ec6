"""T06: every route of control.sock but the status refuses whatever holds a session, or was started by what does."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.core.identity import identify
from broker.server.admission import Need
from tests.fakes.faces import ControlFace, Told
from tests.fakes.processes import other_program
from tests.live.house import AGENT, House, open_house
from tests.live.plain_upstream import serving

PLACES = {"{id}": "ap_0123456789ab"}


def filled(path: str) -> str:
    return path.replace("{id}", PLACES["{id}"])


async def become_agent(face: ControlFace) -> None:
    """Let the test's own process hold a session, as any agent does."""
    await face.ask("GET", "/v1/status")
    facts = next(iter(face.connections._known.values())).facts
    face.sessions.open(identify(facts, agents={}, holders={}))


def told_of(told: Told) -> tuple[int, str]:
    return told.status, told.code


async def test_no_route_but_the_status_answers_an_agent(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        assert face.api is not None
        await become_agent(face)
        table = face.api.table()
        refused = {}
        for route in table:
            told = await face.ask(route.method, filled(route.path))
            if route.need is not Need.OPEN:
                refused[f"{route.method} {route.path}"] = told_of(told)
        feed = await face.ask("GET", "/v1/events")
        routes = {(route.method, route.path) for route in face.api.routes()}

        assert {(403, "agent_session")} == set(refused.values())
        assert (403, "agent_session") == told_of(feed)
        assert {("GET", "/v1/status")} == {(route.method, route.path) for route in table if route.need is Need.OPEN}
        assert routes == {(route.method, route.path) for route in table} | {("GET", "/v1/events")}
        assert ["status"] * 2 == face.office.names(), "nothing was done, whatever was asked"
        assert len(table) == len(face.office.refusals), "and each refusal is on record, the feed's included"


async def test_a_signature_does_not_make_an_agent_a_human(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        statement = await face.statement("thaw", {})
        await become_agent(face)

        assert (403, "agent_session") == told_of(await face.ask("POST", "/v1/thaw", face.signed(statement)))
        assert "thaw" not in face.office.names()


async def test_a_control_session_of_old_does_not_outlive_becoming_an_agent(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        await face.open_session(pid=os.getpid())
        assert 200 == (await face.ask("GET", "/v1/credentials")).status
        await become_agent(face)

        assert (403, "agent_session") == told_of(await face.ask("GET", "/v1/credentials"))


NAMED = """
version = 1

[agents.python-agent]
exe = "{exe}"
"""


@pytest.mark.live
def test_a_program_that_the_policy_names_is_an_agent_before_it_asked_anything(tmp_path: Path) -> None:
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as house:
        house.human.write_policy("agents.toml", NAMED.format(exe="*/env-agent/bin/another"))
        house.human.trust()
        (tmp_path / "env-agent").mkdir()
        program = other_program(tmp_path / "env-agent")
        told: Any = subprocess.run(
            [str(program), "-I", str(AGENT), house.places.control_socket, "POST", "/v1/lock", "{}"],
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert b'"agent_session"' in told.stdout
        assert "ready" == house.human.client.status()["vault"]["state"]  # type: ignore[index,call-overload]  # an object


@pytest.mark.live
def test_the_same_user_without_a_key_can_only_take_away(tmp_path: Path) -> None:
    """Not an agent that anybody knows of: it can lock, and it can open, add, trust and read nothing."""
    with House(tmp_path / "h") as house:
        house.init().open()

        def stranger(method: str, path: str, body: str = "") -> str:
            done = subprocess.run(
                [
                    sys.executable,
                    "-I",
                    str(AGENT),
                    house.places.control_socket,
                    method,
                    path,
                    *([body] if body else []),
                ],
                capture_output=True,
                check=True,
                timeout=60,
            )
            return done.stdout.decode()

        for path in ("credentials", "operations", "audit/events", "approvals/ap_0123456789ab"):
            assert '"control_session_required"' in stranger("GET", f"/v1/{path}")
        for path in ("thaw", "credentials"):
            assert '"schema"' in stranger("POST", f"/v1/{path}", "{}")
        assert '"status": 200' in stranger("POST", "/v1/lock", "{}")
