"""T33: an agent that is refused as often as it can ask makes the log grow by so much and no more."""

from pathlib import Path

import pytest

from broker.server.floods import IN_FULL
from tests.live.house import Agent, House, open_house

pytestmark = pytest.mark.live

BURST = 400


def burst(house: House, agent: Agent) -> int:
    """So many requests over one connection; how much the log grew."""
    before = sum(path.stat().st_size for path in house.places.audit.glob("*.seg"))
    for number in range(BURST):
        agent.ask("POST", "/v1/http", {"service": "nothing", "method": "GET", "path": f"/{number}"}, keep=1)
    return sum(path.stat().st_size for path in house.places.audit.glob("*.seg")) - before


def test_a_flood_of_refusals_ends_as_a_number(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        with house.agent() as agent:
            grown = [burst(house, agent) for _ in range(3)]
            told = agent.ask("GET", "/v1/health")
        assert grown[0] > BURST * 200, "each is recorded"
        assert grown[2] < grown[0] / 20, "and then none"
        assert 200 == told["status"]
        house.stop()
        house.start()
        house.human.unlock()
        house.human.open_session()

        (summary,) = house.human.events("flood.summary")
        assert 3 * BURST - IN_FULL == summary["fields"]["count"]
        assert "unknown_service" == summary["fields"]["code"]


def test_a_freeze_that_is_said_again_and_again_is_recorded_once(tmp_path: Path) -> None:
    with open_house(tmp_path / "f") as house:
        for _ in range(3):
            assert house.human.ask("POST", "/v1/freeze", {})[0] == 200

        assert 1 == len(house.human.events("daemon.frozen"))
