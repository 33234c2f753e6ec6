"""T38: who writes a policy file and asks what it would change learns nothing of what the vault holds."""

import json
from pathlib import Path

import pytest

from tests.live.house import open_house
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

GUESSES = """
version = 1

[services.right]
kind = "http"
base_url = "https://elsewhere.example"
credential = "shop"
ad_hoc = ["GET"]

[services.wrong]
kind = "http"
base_url = "https://elsewhere.example/b"
credential = "no-such-credential"
ad_hoc = ["GET"]
"""


def test_a_policy_file_is_no_way_to_ask_for_names_and_bindings_of_credentials(tmp_path: Path) -> None:
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as house:
        house.human.write_policy("guesses.toml", GUESSES)
        with house.agent() as agent:  # a process outside of every session, that proved nothing
            told = agent.child(house.places.control_socket, "GET", "/v1/policy/pending", orphan=True)["value"]

        assert [] == told["faults"]
        assert "no such credential" not in json.dumps(told)
        assert "bindings" not in json.dumps(told)

        approver = json.dumps(house.human.client.policy_pending())
        assert "the vault holds no such credential" in approver
        assert "its bindings don't cover base_url" in approver
