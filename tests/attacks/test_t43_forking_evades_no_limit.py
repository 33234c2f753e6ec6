"""T43: new processes get round no prompt budget, no mute and no memory of a denial."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.house import House, open_house
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as made:
        yield made


def order(name: str) -> dict[str, object]:
    return {"service": "shop", "operation": "orders.create", "args": {"name": name}, "wait_s": 0}


def test_a_swarm_of_processes_shares_the_budget_of_its_program(house: House) -> None:
    with house.agent() as parent:
        codes = [
            parent.child(house.places.agent_socket, "POST", "/v1/http", order(f"n{number}"))["value"]["code"]
            for number in range(20)
        ]

    assert codes.count("waiting") <= 16, "twice what one session has a minute"
    assert "muted" == codes[-1]
    (flood,) = {event["fields"]["why"] for event in house.human.events("session.muted")}
    assert "cards in a minute" in flood


def test_a_denial_is_remembered_whoever_asks_again(house: House) -> None:
    with house.agent() as agent:
        asking = agent.begin_act(**{**order("one"), "wait_s": 60})
        house.human.deny(house.human.wait_for_card())
        assert "declined" == agent.end_act(asking)["code"]
        child = agent.child(house.places.agent_socket, "POST", "/v1/http", order("one"))
        orphan = agent.child(house.places.agent_socket, "POST", "/v1/http", order("one"), orphan=True)
        other = agent.child(house.places.agent_socket, "POST", "/v1/http", order("two"))

    assert ["denied_recently", "denied_recently", "waiting"] == [
        told["value"]["code"] for told in (child, orphan, other)
    ]


def test_a_mute_holds_for_every_process_of_the_program_whatever_it_asks(house: House) -> None:
    with house.agent() as agent:
        agent.act(**order("first"))
        (session,) = house.human.client.sessions()
        house.human.client.mute(str(session["id"]))
        asked = len(house.human.cards())
        told = [
            agent.child(house.places.agent_socket, "POST", "/v1/http", order(f"m{number}"), orphan=orphan)
            for number, orphan in enumerate((False, True, False, True))
        ]
        with house.agent() as another:
            told.append({"value": another.act(**order("m9"))})
        assert asked == len(house.human.cards())
        house.human.client.unmute(str(session["id"]), house.key)
        heard = agent.act(**order("heard"))

    assert ["muted"] * 5 == [one["value"]["code"] for one in told]
    assert "waiting" == heard["code"]
    assert house.key.key_id == house.human.events("session.unmuted")[-1]["fields"]["key"]
