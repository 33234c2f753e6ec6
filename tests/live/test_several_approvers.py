"""Several approvers at one daemon: each by their own key, on record by its name, and the first answer is the answer."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.approver import ApproverKey, create_key_file, derive
from broker.client.control import ControlClient, Served
from broker.client.control_people import People
from broker.client.faults import Refused
from broker.contract.kdf import REDUCED_FLOOR
from broker.contract.key_id import key_id
from broker.core.secret import Secret
from tests.live.house import CHEAP, House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

BUY: dict[str, Any] = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("approvers") / "h", origin=upstream.origin) as made:
        yield made


@pytest.fixture
def second(house: House, tmp_path: Path) -> Iterator[ApproverKey]:
    """Another human's key, with a passphrase of their own, enrolled by the first."""
    tmp_path.chmod(0o700)
    path = tmp_path / "other.key"
    kek = derive(Secret(b"canary passphrase of the other"), CHEAP, floor=REDUCED_FLOOR).approver_kek
    public_key = create_key_file(path, house.log_id, CHEAP, kek)
    people = People(house.human.client)
    people.enrol(public_key.hex(), house.key)
    with ApproverKey.load(path, kek) as key:
        yield key
    if key_id(public_key) in {one["key_id"] for one in people.approvers()}:
        people.remove(key_id(public_key), house.key)


def armed(client: ControlClient, card: str) -> Served:
    served = client.approval(card)
    until(lambda: time.time() * 1000 > served.served_at_ms + served.arming_ms + 5)
    return served


def last(house: House, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = house.human.events(name)[-1]["fields"]
    return fields


def test_the_yes_of_either_counts_and_is_on_record_by_its_key(house: House, second: ApproverKey) -> None:
    by = []
    with house.agent() as agent:
        for number, key in enumerate((second, house.key)):
            asking = agent.begin_act(**{**BUY, "args": {"name": f"either-{number}"}})
            house.human.client.open_session(key)
            house.human.client.approve(armed(house.human.client, house.human.wait_for_card()), key)
            assert "success" == agent.end_act(asking)["category"]
            by.append(last(house, "approval.decided")["key"])

    assert [second.key_id, house.key.key_id] == by
    assert {"approver": second.key_id, "key": house.key.key_id}.items() <= last(house, "approver.enrolled").items()


def test_of_two_at_once_the_first_wins_and_the_other_is_told(house: House, second: ApproverKey) -> None:
    with house.agent() as agent:
        asking = agent.begin_act(**{**BUY, "args": {"name": "both"}})
        card = house.human.wait_for_card()
        served = armed(house.human.client, card)
        told: list[str] = []
        ready = threading.Barrier(2)

        def answer(key: ApproverKey) -> None:
            with ControlClient(house.places) as client:
                ready.wait(timeout=30)
                try:
                    told.append(str(client.approve(served, key)["state"]))
                except Refused as refused:
                    told.append(refused.code)

        answering = [threading.Thread(target=answer, args=(key,)) for key in (house.key, second)]
        for thread in answering:
            thread.start()
        for thread in answering:
            thread.join(30)
        assert "success" == agent.end_act(asking)["category"]

    assert ["approved", "settled"] == sorted(told)
    decided = [one for one in house.human.events("approval.decided") if one["fields"]["approval_id"] == card]
    refused = [one for one in house.human.events("approval.refused") if one["fields"]["approval_id"] == card]
    assert (1, ["settled"]) == (len(decided), [one["fields"]["code"] for one in refused])


def test_a_key_that_was_removed_decides_nothing_any_more(house: House, second: ApproverKey) -> None:
    people = People(house.human.client)
    people.remove(second.key_id, house.key)
    with pytest.raises(Refused) as no_session:
        house.human.client.open_session(second)
    house.human.open_session()
    with house.agent() as agent:
        asking = agent.begin_act(**{**BUY, "args": {"name": "removed"}})
        card = house.human.wait_for_card()
        with pytest.raises(Refused) as unsigned:
            house.human.client.approve(armed(house.human.client, card), second)
        house.human.deny(card)
        assert "declined" == agent.end_act(asking)["code"]

    assert ("bad_signature", "bad_signature") == (no_session.value.code, unsigned.value.code)
    assert second.key_id == last(house, "approver.removed")["approver"]


def test_only_who_is_enrolled_enrols_and_the_last_one_stays(house: House, second: ApproverKey) -> None:
    people = People(house.human.client)
    people.remove(second.key_id, house.key)
    with pytest.raises(Refused, match="signature"):
        people.enrol("1f" * 32, second)
    with pytest.raises(Refused, match="last approver"):
        people.remove(house.key.key_id, house.key)

    assert [house.key.key_id] == [one["key_id"] for one in people.approvers()]
