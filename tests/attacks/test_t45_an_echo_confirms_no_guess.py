"""T45: an agent that has a service repeat its guesses learns nothing by counts, and is muted at the third hit."""

import json
from pathlib import Path

import pytest

from tests.fakes.upstream import Conversation
from tests.live.house import open_house
from tests.live.rough_upstream import misbehaving

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-house"
POLICY = """
version = 1

[[rules]]
id = "free"
services = ["shop"]
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["POST"]
"""


async def parrot(talk: Conversation) -> None:
    body = await talk.body()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\n\r\n"
    await talk.send(head.encode() + body)


def test_the_third_echo_of_the_credential_ends_it_for_the_program(tmp_path: Path) -> None:
    with (
        misbehaving(behaviours={"/say": parrot}) as upstream,
        open_house(tmp_path / "h", origin=upstream.origin, policy=POLICY) as house,
    ):
        with house.agent() as agent, house.agent() as other:
            guess = {"service": "shop", "method": "POST", "path": "/say"}
            wrong = [agent.act(**guess, body="canary-guess-that-is-wrong") for _ in range(4)]
            hits = [who.act(**guess, body=f"is it {TOKEN}?") for who in (agent, other, agent)]
            after = [who.act(**guess, body="canary-next-guess") for who in (agent, other)]

            assert ["canary-guess-that-is-wrong"] * 4 == [envelope["http"]["body"] for envelope in wrong]
            assert ["is it [redacted]?"] * 3 == [envelope["http"]["body"] for envelope in hits]
            assert ["done"] * 3 == [envelope["scrub"]["state"] for envelope in hits]
            assert "hits" not in json.dumps(hits)
            assert [("session_denied", "muted")] * 2 == [(one["category"], one["code"]) for one in after]
            assert 7 == len(upstream.seen("/say"))
        assert 1 <= len(house.human.events("session.muted"))


def test_a_short_credential_takes_the_whole_body_with_it_and_the_third_hit_is_the_last(tmp_path: Path) -> None:
    with (
        misbehaving(behaviours={"/say": parrot}) as upstream,
        open_house(tmp_path / "h", origin=upstream.origin, policy=POLICY) as house,
    ):
        house.human.client.rotate_credential("shop", {"token": "k7Q"}, house.key)
        with house.agent() as agent:
            guess = {"service": "shop", "method": "POST", "path": "/say"}
            hits = [agent.act(**guess, body=f"is it k7Q, or {number}?") for number in range(3)]
            after = agent.act(**guess, body="is it k7R?")

        assert 3 == len(upstream.seen("/say"))
    assert [None] * 3 == [envelope["http"].get("body") for envelope in hits]
    assert "k7Q" not in json.dumps(hits)
    assert "hits" not in json.dumps(hits)
    assert ("session_denied", "muted") == (after["category"], after["code"])
