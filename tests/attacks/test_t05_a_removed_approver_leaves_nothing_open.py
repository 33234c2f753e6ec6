"""T05: with an approver's key goes what it may have opened: nobody knows which yes was whose thief's."""

from pathlib import Path
from typing import Any

import pytest

from broker.client.approver import ApproverKey, create_key_file, derive
from broker.client.control_people import People
from broker.contract.kdf import REDUCED_FLOOR
from broker.core.secret import Secret
from tests.live.house import CHEAP, open_house, until
from tests.live.plain_upstream import serving

pytestmark = pytest.mark.live

LOOK: dict[str, Any] = {"service": "shop", "operation": "orders.list", "args": {}, "wait_s": 60}


def test_no_grant_outlives_the_removal_of_an_approver(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    with serving() as upstream, open_house(tmp_path / "h", origin=upstream.origin) as house, house.agent() as agent:
        people = People(house.human.client)
        kek = derive(Secret(b"canary passphrase of the other"), CHEAP, floor=REDUCED_FLOOR).approver_kek
        people.enrol(create_key_file(keys / "key", house.log_id, CHEAP, kek).hex(), house.key)
        with ApproverKey.load(keys / "key", kek) as other:
            asking = agent.begin_act(**LOOK)
            card = house.human.wait_for_card()
            served = house.human.client.approval(card)
            until(lambda: house.human.client.approval(card).served_at_ms > served.served_at_ms + served.arming_ms + 5)
            house.human.client.approve(served, other, scope="session")
            assert "success" == agent.end_act(asking)["category"]
            assert "success" == agent.act(**LOOK)["category"], "the grant holds"

            people.remove(other.key_id, house.key)

        assert [] == house.human.client.grants()
        assert "waiting" == agent.act(**{**LOOK, "wait_s": 0})["code"]
        assert 1 == len(house.human.events("grant.ended"))
