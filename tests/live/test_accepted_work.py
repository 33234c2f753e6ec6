"""Work that an upstream accepts first and finishes later, through the real daemon: result, upstream's log, trail."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.upstream import Behaviour, Conversation, respond
from tests.live.findings import breaches, gist, in_doubt, trail
from tests.live.house import Agent, House, open_house
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-accepted-tasks"
POLICY = """
version = 1

[[rules]]
id = "tasks"
services = ["tasks"]
approval = "none"

[services.tasks]
kind = "http"
base_url = "{origin}/tasks"
credential = "tasks"

[services.tasks.operations.start]
request = {{ method = "POST", path = "/{{name}}", body = ["size"] }}
effect = "write"
change_key = ["name"]

[services.tasks.operations.start.async]
poll = ["headers.operation-location"]
default_s = 1

[services.tasks.operations.start.async.done_when]
when = "json.state=='done'"
examples.match = [{{ status = 200, json = {{ state = "done" }} }}]
examples.no_match = [{{ status = 200, json = {{ state = "running" }} }}]

[services.tasks.operations.start.async.failed_when]
when = "json.state=='failed'"
examples.match = [{{ status = 200, json = {{ state = "failed" }} }}]
examples.no_match = [{{ status = 200, json = {{ state = "running" }} }}]
"""


def states(*told: str) -> Behaviour:
    """One after another; the last for good."""
    left = list(told)

    async def behave(talk: Conversation) -> None:
        word = left.pop(0) if len(left) > 1 else left[0]
        await respond(200, f'{{"state": "{word}"}}'.encode())(talk)

    return behave


def accepted(target: str) -> Behaviour:
    headers = (("content-type", "application/json"), ("operation-location", target))
    return respond(202, b'{"state": "running"}', headers=headers)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, RoughUpstream, RoughUpstream, Agent]]:
    with (
        misbehaving() as upstream,
        misbehaving() as stranger,
        open_house(tmp_path_factory.mktemp("tasks") / "h") as house,
    ):
        house.human.add_bearer("tasks", TOKEN, upstream.origin)
        house.human.write_policy("tasks.toml", POLICY.format(origin=upstream.origin))
        house.human.trust()
        with house.agent() as agent:
            yield house, upstream, stranger, agent


def start(agent: Agent, name: str, **more: Any) -> dict[str, Any]:
    envelope = agent.act(service="tasks", operation="start", args={"name": name, "size": 3}, **more)
    assert [] == breaches(envelope)
    return envelope


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("done", ("success", "ok", "never", "applied")),
        ("failed", ("confirmed_failure", "declared", "after_human", "unknown")),
    ],
)
def test_work_is_looked_at_until_it_is_over(
    world: tuple[House, RoughUpstream, RoughUpstream, Agent], word: str, expected: tuple[str, ...]
) -> None:
    house, upstream, _, agent = world
    upstream.at(f"/tasks/{word}", accepted(f"/tasks/looks/{word}"))
    upstream.at(f"/tasks/looks/{word}", states("running", word))
    envelope = start(agent, word)

    assert expected == gist(envelope)
    assert {"state": word} == envelope["http"]["body_json"]
    assert ["POST"] == [seen.method for seen in upstream.seen(f"/tasks/{word}")]
    looks = upstream.seen(f"/tasks/looks/{word}")
    assert ["GET", "GET"] == [seen.method for seen in looks]
    assert {f"Bearer {TOKEN}"} == {seen.headers["authorization"] for seen in looks}
    names = [event["event"] for event in trail(house, envelope["correlation_id"])]
    assert (3, 3) == (names.count("dispatch.started"), names.count("remote.answered"))
    assert (word == "failed") == (envelope["correlation_id"] in in_doubt(house))


def test_work_that_outlasts_the_call_stays_accepted(world: tuple[House, RoughUpstream, RoughUpstream, Agent]) -> None:
    _, upstream, _, agent = world
    upstream.at("/tasks/slow", accepted("/tasks/looks/slow"))
    upstream.at("/tasks/looks/slow", states("running"))
    envelope = start(agent, "slow", deadline={"total_s": 2.5})

    assert ("partial", "accepted", "after_delay", "unknown") == gist(envelope)
    assert 1 <= len(upstream.seen("/tasks/looks/slow")) <= 2


def test_work_is_not_looked_at_elsewhere(world: tuple[House, RoughUpstream, RoughUpstream, Agent]) -> None:
    _, upstream, stranger, agent = world
    upstream.at("/tasks/away", accepted(f"{stranger.origin}/tasks/looks"))
    envelope = start(agent, "away")

    assert ("partial", "accepted", "after_delay", "unknown") == gist(envelope)
    assert 0 == stranger.bytes_received
    assert stranger.origin not in str(envelope["completeness"])
