"""A repeat of a lost change at a real daemon: the human reads back first, and is asked again without the doubt."""

from collections.abc import Iterator

import pytest

from tests.live.house import SHOP, House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

POLICY = SHOP.replace('id = "buy"', 'id = "buy"\nin_doubt = "ask"')
BUY = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("read-back") / "h", origin=upstream.origin, policy=POLICY) as made:
        yield made


def test_a_yes_to_reading_back_reads_once_and_asks_again(house: House, upstream: Upstream) -> None:
    client, key = house.human.client, house.key
    with house.agent() as agent:
        upstream.answers.clear()
        asking = agent.begin_act(**BUY, deadline={"first_byte_s": 1})
        house.human.approve(house.human.wait_for_card())
        lost = agent.end_act(asking)
        assert "outcome_unknown" == lost["category"]
        upstream.answers.set()
        upstream.orders.clear()  # it was not made after all
        again = agent.begin_act(**BUY)
        first = house.human.wait_for_card()
        served = client.approval(first)
        assert [("orders.list", lost["correlation_id"])] == [
            (one.read_back, one.correlation_id) for one in served.card.doubts
        ]
        until(lambda: client.approval(first).served_at_ms > served.served_at_ms + served.arming_ms + 5)
        assert "superseded" == client.approve(served, key, choice="read_back")["state"]
        looking = until(lambda: [card for card in house.human.cards() if card["id"] != first])
        if looking[0]["operation"] == "shop.orders.list":  # the read asks by its own rule
            house.human.approve(looking[0]["id"])
        (card,) = until(lambda: [one for one in house.human.cards() if one["operation"] == "shop.orders.create"])
        shown = house.human.approve(card["id"])
        told = agent.end_act(again)

    assert () == shown.card.doubts, "the read-back settled it"
    assert "success" == told["category"]
    assert ["POST /orders", "GET /orders", "POST /orders"] == upstream.requests
