"""T43: neither a copy of the program nor a process that no policy names gets round a mute or a denial."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.house import House, open_house
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

NAMED = """

[agents]
snake = {{ exe = "*/snake" }}
"""


def copied(directory: Path, name: str) -> tuple[str, ...]:
    """The same interpreter under another name, as another file."""
    path = directory / name
    shutil.copy(os.path.realpath(sys.executable), path)
    return (str(path), "-I")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    from tests.live.house import SHOP  # noqa: PLC0415 - beside its one use

    home = tmp_path_factory.mktemp("copies") / "h"
    with serving() as upstream, open_house(home, origin=upstream.origin, policy=SHOP + NAMED) as made:
        yield made


def order(name: str) -> dict[str, Any]:
    return {"service": "shop", "operation": "orders.create", "args": {"name": name}, "wait_s": 0}


def test_what_a_named_agent_was_denied_no_unnamed_process_asks_for_again(house: House, tmp_path: Path) -> None:
    with house.agent(copied(tmp_path, "snake")) as agent, house.agent(copied(tmp_path, "worm")) as unnamed:
        asking = agent.begin_act(**{**order("one"), "wait_s": 60})
        card = house.human.wait_for_card()
        assert "snake" == house.human.cards()[0]["agent"]
        house.human.deny(card)
        assert "declined" == agent.end_act(asking)["code"]
        again, other = unnamed.act(**order("one")), unnamed.act(**order("another"))

    assert ["denied_recently", "waiting"] == [again["code"], other["code"]]


def test_a_copy_of_a_muted_program_is_muted_and_another_name_is_not(house: House, tmp_path: Path) -> None:
    with house.agent(copied(tmp_path, "worm")) as worm, house.agent(copied(tmp_path, "snake")) as snake:
        assert "waiting" == worm.act(**order("before"))["code"]
        (session,) = [one["id"] for one in house.human.client.sessions() if one["pid"] == worm.pid]
        house.human.client.mute(str(session))
        with house.agent(copied(tmp_path, "worm2")) as copy:
            assert "muted" == copy.act(**order("copied"))["code"]
        assert "waiting" == snake.act(**order("snake"))["code"], "who has a name of its own is not concerned"
        house.human.client.unmute(str(session), house.key)
        with house.agent(copied(tmp_path, "worm3")) as copy:
            assert "waiting" == copy.act(**order("heard"))["code"]


def test_who_mutes_again_and_again_makes_no_log_grow(house: House, tmp_path: Path) -> None:
    """T33: muting needs no signature, so that any process of this user may ask for it as often as it likes."""
    with house.agent(copied(tmp_path, "snake")) as snake:
        snake.act(**order("muted"))
        (session,) = [one["id"] for one in house.human.client.sessions() if one["pid"] == snake.pid]
        for _ in range(5):
            house.human.client.mute(str(session))
        told = [one for one in house.human.events("session.muted") if one["session_id"] == session]
        house.human.client.unmute(str(session), house.key)

    assert 1 == len(told)
