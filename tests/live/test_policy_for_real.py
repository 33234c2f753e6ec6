"""Policies under a real daemon: an edit is noticed, what does not load is refused, what is trusted voids cards."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.schemas import schema
from broker.daemon.clocks import SystemClock
from tests.live.house import SHOP, House, open_house, until
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

OPEN = '[[rules]]\nid = "new"\nservices = ["shop"]\noperations = ["GET"]\napproval = "deny"\n'


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with serving() as upstream, open_house(tmp_path_factory.mktemp("policy") / "h", origin=upstream.origin) as one:
        yield one


def status(house: House) -> dict[str, Any]:
    told: Any = house.human.client.status()["policy"]
    return dict(told)


def write(house: House, name: str, text: str) -> Path:
    house.human.write_policy(name, f"version = 1\n{text}")
    return house.places.policies / name


def heard(house: House) -> list[str]:
    """The states that the feed tells of, while the vault is open."""
    states: list[str] = []
    stream = house.human.client.events()

    def listen() -> None:
        with contextlib.suppress(Exception):  # the daemon is stopped in the end
            told = (event for event in stream if event is not None)
            states.extend(json.loads(event.data)["state"] for event in told if event.name == "policy")

    threading.Thread(target=listen, daemon=True).start()
    return states


def test_an_edit_is_noticed_refused_once_while_it_does_not_load_and_the_former_stays(house: House) -> None:
    states = heard(house)
    before = status(house)
    assert ("trusted", False) == (before["state"], before["pending"])

    path = write(house, "extra.toml", "nosuch = 1\n")
    assert ("refused", True) == (status(house)["state"], status(house)["pending"]), "at once, whoever asks"
    (first,) = until(lambda: house.human.events("policy.edit_refused"))
    assert (1, "extra.toml:2: nosuch: unknown key, expected one of agents, limits, rules, services, version") == (
        first["fields"]["faults"],
        first["fields"]["first"],
    )
    until(lambda: "refused" in states)
    write(house, "extra.toml", "nosuch = 1\n")
    path.chmod(0o666)
    until(lambda: len(house.human.events("policy.edit_refused")) == 2)
    assert "group or others may write it" in house.human.events("policy.edit_refused")[1]["fields"]["first"]
    assert before["digest"] == status(house)["digest"]

    path.unlink()
    until(lambda: states[-1:] == ["trusted"])
    assert "trusted" == status(house)["state"]


def test_what_would_change_is_told_with_lines_and_what_it_would_end(house: House) -> None:
    shop = (house.places.policies / "shop.toml").read_text()
    write(house, "extra.toml", OPEN)
    (house.places.policies / "shop.toml").write_text(shop.replace("max_uses = 5", "max_uses = 50"))
    pending: Any = house.human.client.policy_pending()
    shown: Any = house.human.client.policy()
    jsonschema_rs.validator_for(schema("policy-pending")).validate(pending)
    jsonschema_rs.validator_for(schema("policy")).validate(shown)

    assert ("changed", False) == (pending["state"], pending["same"])
    assert [("extra.toml", "added"), ("shop.toml", "changed")] == [
        (row["name"], row["status"]) for row in pending["edited"]
    ]
    changed = next(row for row in pending["changes"] if row["direction"] == "loosens")
    assert ("look", "shop.toml:4") == (changed["rule"], changed["place"])
    assert [("-", "max_uses = 5"), ("+", "max_uses = 50")] == [
        (row["sign"], row["text"]) for row in changed["lines"] if row["sign"] != " "
    ]
    assert {"buy", "free", "look"} == {row["id"] for row in shown["rule_list"]}
    (house.places.policies / "shop.toml").write_text(shop)
    (house.places.policies / "extra.toml").unlink()


def test_trust_voids_the_cards_that_wait_and_the_grants_that_were_made(house: House) -> None:
    with house.agent() as agent:
        first = agent.begin_act(service="shop", operation="orders.list", args={})
        house.human.approve(house.human.wait_for_card(), scope="session")
        agent.end_act(first)
        waiting = agent.begin_act(service="shop", operation="orders.create", args={"name": "x"})
        house.human.wait_for_card()
        write(house, "extra.toml", OPEN)
        assert {"cards": 1, "grants": 1} == house.human.client.policy_pending()["voids"]

        house.human.trust()
        told = agent.end_act(waiting)

    assert ("approval_timeout", "approval_void") == (told["category"], told["code"])
    assert [] == house.human.client.grants()
    (event,) = [one for one in house.human.events("policy.trusted") if one["fields"]["counter"] == 2]
    assert status(house)["digest"] == event["fields"]["digest"]


def test_a_locked_vault_tells_nothing_of_trust_and_an_unlocked_one_holds_the_last_good(house: House) -> None:
    write(house, "extra.toml", "nosuch = 1\n")
    house.human.client.lock()
    assert ("unknown", False) == (status(house)["state"], status(house)["pending"])
    house.human.unlock()
    house.human.open_session()

    assert "refused" == status(house)["state"]
    assert status(house)["digest"] is not None


MACHINES = ("-I", str(Path(__file__).with_name("machine_daemon.py")))
LATER = ("-I", str(Path(__file__).with_name("later_daemon.py")))


def machine_file(system: Path, name: str, text: str) -> None:
    system.mkdir(exist_ok=True, mode=0o755)
    path = system / name
    path.with_suffix(".new").write_text(f"version = 1\n{text}")
    path.with_suffix(".new").chmod(0o644)
    path.with_suffix(".new").rename(path)


def test_the_machines_own_files_take_force_by_themselves_and_end_what_was_allowed_before(tmp_path: Path) -> None:
    system = tmp_path / "etc"
    with serving() as upstream, House(tmp_path / "h") as house:
        machine_file(system, "base.toml", "")
        house.init().start(str(system), program=MACHINES).open(origin=upstream.origin)
        before = house.human.client.policy()
        assert [str(system / "base.toml")] == [file["name"] for file in before["system"]]  # type: ignore[index,union-attr,call-overload]  # rows
        assert "trusted" == status(house)["state"]
        with house.agent() as agent:
            waiting = agent.begin_act(service="shop", operation="orders.create", args={"name": "x"})
            house.human.wait_for_card()
            shut = '[[rules]]\nid = "shut"\nservices = ["shop"]\neffects = ["write"]\napproval = "deny"\n'
            machine_file(system, "base.toml", shut)
            told = agent.end_act(waiting)
            assert ("approval_timeout", "approval_void") == (told["category"], told["code"])
            again = agent.act(service="shop", operation="orders.create", args={"name": "x"})
            assert ("policy_denied", "rule_denied") == (again["category"], again["code"])
        (event,) = house.human.events("policy.reloaded")
        assert status(house)["digest"] == event["fields"]["digest"] != before["digest"]
        assert ("trusted", 1) == (status(house)["state"], status(house)["counter"])

        machine_file(system, "base.toml", "nosuch = 1\n")
        until(lambda: house.human.events("policy.edit_refused"))
        assert "refused" == status(house)["state"]
        house.kill()
        house.start(str(system), program=MACHINES).open()
        assert status(house)["digest"] is None, "no last good one: nothing is allowed"
        with house.agent() as agent:
            assert "invalid_request" == agent.act(service="open", method="GET", path="/x")["category"]


def test_a_rule_speaks_at_its_hours_by_the_clock_of_the_daemon(tmp_path: Path) -> None:
    now = SystemClock().moment()
    begin, end = ((now.minute + shift) % (24 * 60) for shift in (-120, 120))
    hours = f'hours = ["{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"]'
    policy = SHOP.replace('services = ["open"]', f'services = ["open"]\n{hours}')
    tip: dict[str, Any] = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin, policy=policy) as house:
        with house.agent() as agent:
            assert "success" == agent.act(**tip)["category"]
        house.stop()
        house.start(str(6 * 3600), program=LATER).open()
        with house.agent() as agent:
            told = agent.act(**tip)
            assert ("policy_denied", "no_rule") == (told["category"], told["code"])
        (rule,) = [row for row in house.human.client.policy()["rule_list"] if row["id"] == "free"]  # type: ignore[index,union-attr,call-overload]  # rows
        assert rule["active"] is False  # type: ignore[index,call-overload]  # a row
        trace: Any = house.human.client.explain({key: tip[key] for key in ("service", "method", "path")})["trace"]
        assert "hours" == next(step["failed"] for step in trace if step["rule"] == "free")
