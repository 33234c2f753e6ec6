"""A notice carries no markup and nothing that an agent wrote, believes the service alone, and approves nothing."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from broker.desktop.notice_text import NAME_MOST_CELLS, NoticeCard, notice
from broker.desktop.notices import DENIED
from tests.fakes.bus import PrivateBus, Someone, soon
from tests.fakes.notice_cards import CARD
from tests.fakes.notification_service import NAME, PATH, NotificationService
from tests.hostile_text import NAMES, TEXTS, encodable, obeyed
from tests.live.house import House
from tests.live.plain_upstream import serving

SAID = [field.name for field in fields(NoticeCard) if field.name not in {"id", "proven", "expires_at_ms"}]
CARDS = 4  # into which all texts are put; more would be muted as a flood
SHORT = 200
MARKUP = '<b>bold</b> <a href="https://evil.example">here</a> <img src="x"/> &amp;'


@pytest.mark.parametrize("text", [*TEXTS, MARKUP], ids=[*NAMES, "markup"])
def test_a_notice_shows_no_raw_character_and_no_markup_whatever_a_name_holds(text: str) -> None:
    for said in SAID:
        changes: dict[str, Any] = {said: text}
        told = notice([replace(CARD, **changes), CARD])
        alone = notice([replace(CARD, **changes)])
        assert told is not None
        assert alone is not None
        for drawn in (told.summary, alone.summary, *told.body.split("\n"), *alone.body.split("\n")):
            assert not any(obeyed(character) or character in "<>&" for character in drawn), (said, drawn)
            drawn.encode()
            assert len(drawn) < 16 * NAME_MOST_CELLS
        assert (3, 2) == (told.body.count("\n") + 1, alone.body.count("\n") + 1)
        assert "Answer by" in told.body.split("\n")[-1]


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateBus]:
    with PrivateBus(tmp_path_factory.mktemp("b") / "bus") as made:
        yield made


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, bus: PrivateBus) -> Iterator[House]:
    with serving() as upstream, House(tmp_path_factory.mktemp("h") / "h") as made:
        made.environ = {**made.environ, "DBUS_SESSION_BUS_ADDRESS": bus.address}
        yield made.init().open(origin=upstream.origin)


def waiting(house: House) -> list[str]:
    return [row["id"] for row in house.human.cards()]


async def raised(service: NotificationService) -> dict[str, Any]:
    await soon(lambda: len(service.shown) == 1)
    return service.one


@pytest.mark.live
async def test_nothing_that_an_agent_writes_reaches_a_notice(house: House, bus: PrivateBus) -> None:
    texts = [text for text in (MARKUP, *TEXTS) if encodable(text) and len(text) < SHORT]
    async with NotificationService(bus) as service:
        for at in range(CARDS):
            words = " ".join(texts[at::CARDS])
            with house.agent() as agent:
                body = {"name": words}
                number = agent.begin_act(service="shop", operation="orders.create", args=body, reason=words[:SHORT])
                made = await raised(service)
                first, second = made["body"].split("\n")
                assert "doorward: an unnamed agent asks to WRITE" == made["summary"]
                assert "shop orders.create at 127.0.0.1" == first
                assert re.fullmatch(r"Answer by \d\d:\d\d:\d\d\.", second)
                house.human.deny(waiting(house)[0])
                await asyncio.to_thread(agent.end_act, number)
            await soon(lambda: not service.shown)


@pytest.mark.live
async def test_no_click_of_the_service_itself_approves(house: House, bus: PrivateBus) -> None:
    async with NotificationService(bus) as service:
        with house.agent() as agent:
            number = agent.begin_act(service="shop", operation="orders.create", args={"name": "canary"})
            made = await raised(service)
            (card_id,) = waiting(house)
            assert [f"deny:{card_id}", "Deny", f"open:{card_id}", "Open"] == made["actions"]
            for action in ("approve", "yes", "default", "a", "session", "once", "trust", "collect", "limit"):
                for key in (action, f"{action}:{card_id}", f"deny:{card_id}:{action}", f"{card_id}:{action}"):
                    await service.say(PATH, NAME, "ActionInvoked", "us", made["id"], key)
            await service.say(PATH, NAME, "ActivationToken", "us", made["id"], "canary")
            await service.say(PATH, NAME, "NotificationReplied", "us", made["id"], "approve")
            await service.click(f"open:{card_id}")
            await raised(service)  # no screen is open, and it says so: all that was said before has been heard
            assert [card_id] == waiting(house)
            assert not agent.answered(number)
            await service.click(f"deny:{card_id}")
            answer = await asyncio.to_thread(agent.end_act, number)
            assert ("declined", True) == (answer["code"], DENIED in answer["message"])
            await soon(lambda: not service.shown)


@pytest.mark.live
async def test_who_does_not_own_the_service_is_not_heard(house: House, bus: PrivateBus) -> None:
    async with NotificationService(bus) as service, Someone(bus) as forger:
        with house.agent() as agent:
            number = agent.begin_act(service="shop", operation="orders.create", args={"name": "forged"})
            made = await raised(service)
            (card_id,) = waiting(house)
            to = service.senders[-1]
            before = forged(house)
            await forger.say(PATH, NAME, "ActionInvoked", "us", made["id"], f"deny:{card_id}", to=to)
            await forger.say(PATH, NAME, "NotificationClosed", "uu", made["id"], 2, to=to)
            await soon(lambda: forged(house) == before + 2)
            assert [card_id] == waiting(house)
            house.human.deny(card_id)
            await asyncio.to_thread(agent.end_act, number)


def forged(house: House) -> int:
    told = house.human.client.status()["desktop"]
    assert isinstance(told, dict)
    count = told["forged_signals"]
    assert isinstance(count, int)
    return count


def test_the_desktop_is_given_no_way_to_approve() -> None:
    """The one document that it ever sends is a denial."""
    root = Path(__file__).resolve().parents[2]
    sources = [*(root / "broker/desktop").glob("*.py"), root / "broker/daemon/desktop.py"]
    words = [path.read_text(encoding="utf-8") for path in sources]
    (deciding,) = [text for text in words if ".decide(" in text]
    assert [1, 1] == [deciding.count(said) for said in (".decide(", '{"decision": "deny", "reason": DENIED}')]
    assert [] == [
        said for said in ('"approve"', "broker.client", "broker.vault", "ApproverKey") if said in "".join(words)
    ]
