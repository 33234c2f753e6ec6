"""T38: who writes a policy file and asks what it would change learns nothing of what the vault holds."""

import base64
import json
from pathlib import Path

import pytest

from broker.client.control_answers import part
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


def test_an_unlock_that_brings_nothing_opens_nothing_and_no_stranger_changes_how_it_is_opened(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        house.human.client.lock()
        with house.agent() as agent:
            told = [
                agent.child(house.places.control_socket, "POST", path, body, orphan=True)
                for path, body in (
                    ("/v1/unlock", {}),
                    ("/v1/unlock", {"kek_b64": base64.b64encode(bytes(32)).decode()}),
                    ("/v1/vault/methods", {}),
                    ("/v1/vault/methods/remove", {}),
                    ("/v1/vault/passphrase", {}),
                )
            ]
        assert [422, 403, 422, 422, 422] == [answer["status"] for answer in told]
        vault = part(house.human.client.status(), "vault")
        assert ("locked", ["passphrase"]) == (vault["state"], vault["methods"])
        assert {"state", "term", "kdf", "reason", "locked_for", "methods", "ready_since_ms", "idle_lock_in_ms"} == set(
            vault
        ), "what anybody reads of it"
