"""A real daemon that nobody uses: it locks itself, while what is under way ends well and is on record."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client.control_answers import part
from tests.fakes.upstream import Behaviour, Conversation, respond
from tests.live.house import House, until
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

SLEPT = ("-I", str(Path(__file__).with_name("slept_daemon.py")))
POLICY = """
version = 1

[limits]
idle_lock_s = 7200

[[rules]]
id = "free"
services = ["shop"]
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET"]
"""
LIMIT_S = 60.0


QUICK = respond(200, b"{}", headers=(("content-type", "application/json"),))


def answered_after(go_on: threading.Event) -> Behaviour:
    async def behave(talk: Conversation) -> None:
        while not go_on.is_set():  # noqa: ASYNC110 - it is set by a thread
            await asyncio.sleep(0.01)
        await QUICK(talk)

    return behave


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def upstream() -> Iterator[RoughUpstream]:
    with misbehaving(behaviours={"/quick": QUICK}) as made:
        yield made


def vault(house: House) -> dict[str, object]:
    return dict(part(house.human.client.status(), "vault"))


def test_a_vault_that_nobody_uses_locks_itself_and_what_runs_ends_well(
    tmp_path: Path, upstream: RoughUpstream, go_on: threading.Event
) -> None:
    slept = tmp_path / "slept"
    with House(tmp_path / "h") as house:
        house.init().start(str(slept), program=SLEPT).open(POLICY, origin=upstream.origin)
        left_ms = vault(house)["idle_lock_in_ms"]
        assert isinstance(left_ms, int)
        assert 7_000_000 < left_ms <= 7_200_000
        with house.agent() as agent:
            assert "success" == agent.act(service="shop", method="GET", path="/quick")["category"]
            upstream.at("/slow", answered_after(go_on))
            seen = len(upstream.requests)
            asking = agent.begin_act(service="shop", method="GET", path="/slow")
            until(lambda: len(upstream.requests) > seen, limit_s=LIMIT_S)

            slept.write_text("7000")
            assert "ready" == vault(house)["state"], "not yet"
            slept.write_text("7300")
            until(lambda: vault(house)["locked_for"] == "idle", limit_s=LIMIT_S)
            assert ("locked", None) == (vault(house)["state"], vault(house)["idle_lock_in_ms"])
            assert [] == house.human.client.sessions()
            assert "vault_locked" == agent.act(service="shop", method="GET", path="/quick")["category"]
            go_on.set()
            assert "success" == agent.end_act(asking)["category"]
        house.human.unlock()
        house.human.open_session()
        (locked,) = house.human.events("vault.locked")
        assert "idle" == locked["fields"]["reason"]
        assert 3 == len(house.human.events("action.result"))
        assert "ready" == vault(house)["state"], "an unlock is use"
