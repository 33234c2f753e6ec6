"""T01: a file that a request names is read once, before it is shown: what is changed afterwards is not sent."""

import sys
from pathlib import Path

import pytest

from tests.live.house import House
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

SHOWN, CHANGED = '{"name":"as shown"}', '{"name":"changed"}'


def test_what_is_written_into_the_file_while_the_card_waits_is_not_sent(
    house: House, upstream: Upstream, tmp_path: Path
) -> None:
    file = tmp_path / "order.json"
    file.write_text(SHOWN, encoding="utf-8")
    home = house.environ["DOORWARD_HOME"]
    words = ["/usr/bin/env", f"DOORWARD_HOME={home}", sys.executable, "-I", "-m", "broker.cli", "http", "POST", "shop"]
    with house.agent() as agent:
        asking = agent.order("run", argv=[*words, "/orders", "-d", f"@{file}", "--json"])
        card = house.human.wait_for_card()
        file.write_text(CHANGED, encoding="utf-8")
        shown = house.human.approve(card)
        told = agent.end(asking)

    assert 0 == told["code"], told
    assert SHOWN == shown.card.body.text
    assert [{"name": "as shown"}] == upstream.orders
