"""The feed: in order, with resume, and nobody who reads slowly holds up the rest."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from broker.server import events as events_module
from broker.server.events import EventHub, TooManyListenersError


async def take(feed: AsyncGenerator[bytes, None], number: int) -> list[bytes]:
    async with asyncio.timeout(60):
        return [await anext(feed) for _ in range(number)]


async def test_a_listener_gets_what_happens_from_then_on() -> None:
    hub = EventHub()
    hub.publish("status", {})
    feed = hub.listen(None)
    assert [b": doorward\n\n"] == await take(feed, 1)
    hub.publish("approval", {"id": "ap_1"})

    assert [b'id: 2\nevent: approval\ndata: {"id":"ap_1"}\n\n'] == await take(feed, 1)
    await feed.aclose()
    assert 0 == hub.listeners


async def test_who_comes_back_gets_what_it_missed() -> None:
    hub = EventHub()
    for number in range(3):
        hub.publish("status", {"number": number})
    feed = hub.listen(1)
    frames = await take(feed, 3)

    assert [b"id: 2", b"id: 3"] == [frame.splitlines()[0] for frame in frames[1:]]
    await feed.aclose()


@pytest.mark.parametrize("last", [0, 99])
async def test_who_was_away_too_long_is_told_to_fetch_anew(last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "KEPT", 1)
    hub = EventHub()
    for _ in range(3):
        hub.publish("status", {})
    feed = hub.listen(last)
    frames = await take(feed, 2)

    assert frames[1].startswith(b"id: 3\nevent: reset\n")
    await feed.aclose()


async def test_an_empty_feed_resumes_at_its_beginning() -> None:
    feed = EventHub().listen(0)
    await take(feed, 1)
    await feed.aclose()


async def test_who_does_not_keep_up_is_dropped_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "QUEUE_MAX", 3)
    hub = EventHub()
    slow, quick = hub.listen(None), hub.listen(None)
    await take(slow, 1)
    await take(quick, 1)
    for _ in range(4):
        hub.publish("status", {})
        await take(quick, 1)

    assert 1 == hub.listeners
    assert 2 == len([frame async for frame in slow])
    await quick.aclose()


async def test_there_are_so_many_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "LISTENERS_MAX", 1)
    hub = EventHub()
    feed = hub.listen(None)
    await take(feed, 1)
    with pytest.raises(TooManyListenersError):
        await anext(hub.listen(None))
    await feed.aclose()


async def test_no_process_takes_all_the_places_and_an_approver_finds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """T33."""
    monkeypatch.setattr(events_module, "LISTENERS_MAX", 3)
    monkeypatch.setattr(events_module, "LISTENERS_PER_PROCESS", 2)
    hub = EventHub()
    greedy = [hub.listen(None, process="greedy") for _ in range(2)]
    for feed in greedy:
        await take(feed, 1)
    with pytest.raises(TooManyListenersError):
        await anext(hub.listen(None, process="greedy"))
    other = hub.listen(None, process="other")
    await take(other, 1)
    with pytest.raises(TooManyListenersError):
        await anext(hub.listen(None, process="third"))
    approvers = [hub.listen(None, process=f"approver {number}", is_approver=True) for number in range(3)]
    for feed in approvers:
        await take(feed, 1)

    assert [] == [frame for feed in (*greedy, other) async for frame in feed]
    assert 3 == hub.listeners
    with pytest.raises(TooManyListenersError):
        await anext(hub.listen(None, process="approver 4", is_approver=True))
    for feed in approvers:
        await feed.aclose()


async def test_silence_is_filled_with_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "PING_S", 0.001)
    feed = EventHub().listen(None)

    assert b": still here\n\n" == (await take(feed, 2))[1]
    await feed.aclose()


async def test_at_the_stop_every_feed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "QUEUE_MAX", 1)
    hub = EventHub()
    idle, full = hub.listen(None), hub.listen(None)
    await take(idle, 1)
    await take(full, 1)
    hub.publish("status", {})
    await take(idle, 1)
    hub.close()

    assert [] == [frame async for frame in idle]
    await full.aclose()
