"""What becomes of a write in doubt: read back, refused on the way, locked in between, or settled by a human's word."""

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes import upstream as up
from tests.live.findings import breaches, canaries, gist, in_doubt, trail, verdict
from tests.live.house import Agent, House, open_house, until
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-reconcile-cases"
RULES = """
version = 1

[limits]
prompts_per_minute = 60

[[rules]]
id = "writes"
services = ["*"]
effects = ["write"]
approval = "none"
"""
SERVICE = """
[[rules]]
id = "reads-{name}"
services = ["{name}"]
effects = ["read"]
approval = "{approval}"

[services.{name}]
kind = "http"
base_url = "{origin}/{name}"
credential = "things"
ad_hoc = ["POST"]

[services.{name}.operations."things.list"]
request = {{ method = "GET", path = "/list/{{case}}" }}
effect = "read"

[services.{name}.operations."things.list".completeness]
complete_when = "type(json.things) == 'array' && json.more == `false`"
examples.match = [{{ status = 200, json = {{ things = [], more = false }} }}]
examples.no_match = [{{ status = 200, json = {{ things = [], more = true }} }}]

[services.{name}.operations."things.create"]
request = {{ method = "POST", path = "/things/{{case}}", body = ["name"] }}
effect = "write"
change_key = ["case"]

[services.{name}.operations."things.create".reconcile]
operation = "things.list"
args = {{ case = "{{case}}" }}
match = "json.things[?name == $name]"
"""
SERVICES = {"free": "none", "asked": "per_call", "once": "session", "barred": "deny"}
MINE, OTHER = {"name": "n-1"}, {"name": "n-2"}

APPLIED = ("success", "reconciled", "never", "applied")
NOT_APPLIED = ("confirmed_failure", "not_found", "never", "none")
STILL_UNKNOWN = ("outcome_unknown", "connection_lost", "after_human", "unknown")
REFUSED = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")


def listing(*things: dict[str, str], more: bool = False) -> up.Behaviour:
    return up.respond(200, json.dumps({"things": things, "more": more}).encode())


class Doubt:
    """A write whose answer never came: the connection ended after the whole request."""

    numbers = itertools.count(1)

    def __init__(self, world: "World", agent: Agent, *, service: str = "free", read_back: up.Behaviour) -> None:
        self.case = f"c{next(self.numbers)}"
        self.request: dict[str, Any] = {
            "service": service,
            "operation": "things.create",
            "args": {"case": self.case, **MINE},
            "request_id": f"r-{self.case}",
        }
        self._upstream = world.upstream
        self._write, self._read = f"/{service}/things/{self.case}", f"/{service}/list/{self.case}"
        self._upstream.at(self._write, up.raw())
        self._upstream.at(self._read, read_back)
        self.envelope = agent.act(**self.request)
        self.id = str(self.envelope["correlation_id"])
        assert ("outcome_unknown", "connection_lost", "reconcile_first", "unknown") == gist(self.envelope)
        assert {"action": "reconcile", "command": f"doorward reconcile {self.id}"} == self.envelope["next"]

    def works_from_now_on(self) -> None:
        self._upstream.at(self._write, up.respond(201))

    def reads_as(self, behaviour: up.Behaviour) -> None:
        self._upstream.at(self._read, behaviour)

    @property
    def writes(self) -> int:
        """How often the change reached the upstream."""
        return len(self._upstream.seen(self._write))

    @property
    def reads(self) -> int:
        return len(self._upstream.seen(self._read))


class World:
    def __init__(self, house: House, upstream: RoughUpstream) -> None:
        self.house = house
        self.human = house.human
        self.upstream = upstream

    def doubt(self, agent: Agent, *, service: str = "free", read_back: up.Behaviour) -> Doubt:
        return Doubt(self, agent, service=service, read_back=read_back)

    def reconciled(self, envelope: dict[str, Any], doubt: Doubt) -> tuple[str, str, str, str]:
        """The gist of what a reconcile answered; it has an id of its own and names what it is about."""
        assert [] == breaches(envelope)
        assert envelope["correlation_id"] != doubt.id == envelope["previous_correlation_id"]
        assert "canary-" not in json.dumps(envelope)
        return gist(envelope)

    def trail(self, envelope: dict[str, Any]) -> list[str]:
        return [event["event"] for event in trail(self.house, envelope["correlation_id"])]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with misbehaving() as upstream, open_house(tmp_path_factory.mktemp("doubts") / "h") as house:
        house.human.add_bearer("things", TOKEN, upstream.origin)
        services = [SERVICE.format(name=name, approval=way, origin=upstream.origin) for name, way in SERVICES.items()]
        house.human.write_policy("doubts.toml", RULES + "".join(services))
        house.human.trust()
        yield World(house, upstream)


@pytest.fixture
def agent(world: World) -> Iterator[Agent]:
    with world.house.agent() as asking:
        yield asking


@pytest.fixture
def another(world: World) -> Iterator[Agent]:
    with world.house.agent() as asking:
        yield asking


def reconcile(agent: Agent, doubt: Doubt) -> dict[str, Any]:
    value: dict[str, Any] = agent.ask("POST", "/v1/reconcile", {"correlation_id": doubt.id})["value"]
    return value


def begin_reconcile(agent: Agent, doubt: Doubt) -> int:
    return agent.begin("POST", "/v1/reconcile", {"correlation_id": doubt.id})


def again(agent: Agent, doubt: Doubt, request_id: str) -> dict[str, Any]:
    """The same change under another request id."""
    return agent.act(**{**doubt.request, "request_id": request_id})


SETTLED = {
    "one match": (listing(MINE, OTHER), APPLIED),
    "one match in a list that goes on": (listing(MINE, more=True), APPLIED),
    "none in a whole list": (listing(OTHER), NOT_APPLIED),
    "an empty list": (listing(), NOT_APPLIED),
}


@pytest.mark.parametrize("name", SETTLED)
def test_a_read_back_that_proves_something_settles_it_for_everybody(
    world: World, agent: Agent, another: Agent, name: str
) -> None:
    read_back, expected = SETTLED[name]
    doubt = world.doubt(agent, read_back=read_back)
    assert REFUSED == gist(again(another, doubt, "b-1"))
    first = reconcile(agent, doubt)
    second, theirs = reconcile(agent, doubt), reconcile(another, doubt)
    doubt.works_from_now_on()

    assert expected == world.reconciled(first, doubt)
    assert first == second == theirs  # what settled it is told to whoever asks later, and nothing is read again
    assert (1, 1) == (doubt.writes, doubt.reads)
    assert ["reconcile.started", "reconcile.settled", "action.result"] == world.trail(first)
    assert doubt.id not in in_doubt(world.house)
    assert ("success", "ok", "never", "applied") == gist(again(another, doubt, "b-2"))
    assert 2 == doubt.writes


UNSETTLED = {
    "two matches": listing(MINE, MINE),
    "none in a list that goes on": listing(OTHER, more=True),
    "no list": up.respond(200, b'{"things": {"name": "n-1"}, "more": false}'),
    "another shape": up.respond(200, b'{"items": []}'),
    "500": up.respond(500),
    "401": up.respond(401),
    "429": up.respond(429, headers=(("retry-after", "3"),)),
    "elsewhere": up.respond(302, headers=(("location", "/elsewhere"),)),
    "no json": up.respond(200, b"{"),
    "cut": up.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{"),
    "no answer": up.raw(),
    "a page": up.respond(200, b"<title>Sign in</title>", headers=(("content-type", "text/html"),)),
}


@pytest.mark.parametrize("name", UNSETTLED)
def test_a_read_back_that_proves_nothing_leaves_it_in_doubt(
    world: World, agent: Agent, another: Agent, name: str
) -> None:
    doubt = world.doubt(agent, read_back=UNSETTLED[name])
    told = reconcile(agent, doubt)

    assert STILL_UNKNOWN == world.reconciled(told, doubt)
    assert "ask_human" == told["next"]["action"]
    assert ["reconcile.started", "action.result"] == world.trail(told)
    assert doubt.id in in_doubt(world.house)
    assert REFUSED == gist(again(another, doubt, "b-1")) == gist(again(agent, doubt, "a-1"))
    assert (1, 1) == (doubt.writes, doubt.reads)
    doubt.reads_as(listing(MINE))
    assert APPLIED == world.reconciled(reconcile(another, doubt), doubt)  # a later one may still prove it


def test_who_is_refused_because_of_anothers_doubt_can_do_what_the_refusal_says(
    world: World, agent: Agent, another: Agent
) -> None:
    doubt = world.doubt(agent, read_back=listing())
    refused = again(another, doubt, "b-1")

    assert {"action": "reconcile", "command": f"doorward reconcile {doubt.id}"} == refused["next"]
    assert doubt.id == refused["previous_correlation_id"]
    told = reconcile(another, doubt)
    assert NOT_APPLIED == world.reconciled(told, doubt)
    started = trail(world.house, told["correlation_id"])[0]["fields"]
    assert doubt.id == started["of"]
    made = trail(world.house, doubt.id)[0]["fields"]
    assert started["anchor"] != made["anchor"]
    result = another.ask("GET", f"/v1/results/{doubt.id}")["value"]
    assert ("invalid_request", "unknown_correlation_id") == gist(result)[:2]  # the answer stays its maker's


@pytest.mark.parametrize(
    ("service", "category"), [("asked", "call_denied"), ("once", "session_denied")], ids=["call", "session"]
)
def test_a_person_who_denies_the_read_back_leaves_it_in_doubt(
    world: World, agent: Agent, service: str, category: str
) -> None:
    doubt = world.doubt(agent, service=service, read_back=listing(MINE))
    asked = begin_reconcile(agent, doubt)
    world.human.deny(world.human.wait_for_card(), "do not look")
    told = agent.end_act(asked)

    assert (category, "declined", "never", "none") == world.reconciled(told, doubt)
    assert "stays in doubt" in told["message"]
    assert "do not look" in told["message"]
    assert ["reconcile.started", "action.result"] == world.trail(told)
    assert doubt.id in in_doubt(world.house)
    assert REFUSED == gist(again(agent, doubt, "a-1"))
    assert (1, 0) == (doubt.writes, doubt.reads)


def test_a_person_who_allows_the_read_back_allows_nothing_else(world: World, agent: Agent) -> None:
    doubt = world.doubt(agent, service="asked", read_back=listing(MINE))
    asked = begin_reconcile(agent, doubt)
    drawn: Any = world.human.approve(world.human.wait_for_card()).raw
    told = agent.end_act(asked)

    assert APPLIED == world.reconciled(told, doubt)
    assert "granted" == told["gate"]["call"]
    assert "GET" in json.dumps(drawn)
    assert (1, 1) == (doubt.writes, doubt.reads)


def test_a_policy_that_denies_the_read_back_leaves_it_in_doubt(world: World, agent: Agent) -> None:
    doubt = world.doubt(agent, service="barred", read_back=listing(MINE))
    told = reconcile(agent, doubt)

    assert STILL_UNKNOWN == world.reconciled(told, doubt)
    assert "policy_denied" in told["message"]
    assert f"doorward operations settle {doubt.id} --as applied|not_applied" == told["next"]["command"]
    assert doubt.id in in_doubt(world.house)
    assert (1, 0) == (doubt.writes, doubt.reads)


def unlocked(world: World) -> None:
    world.human.unlock()
    world.human.open_session()


def test_a_vault_that_is_locked_reads_nothing_back(world: World, agent: Agent) -> None:
    doubt = world.doubt(agent, read_back=listing(MINE))
    world.human.client.lock()
    told = reconcile(agent, doubt)
    unlocked(world)

    assert ("vault_locked", "locked", "after_human", "none") == world.reconciled(told, doubt)
    assert {"action": "ask_human", "command": "doorward unlock"} == told["next"]
    assert doubt.id in in_doubt(world.house)
    assert (1, 0) == (doubt.writes, doubt.reads)


def test_a_vault_that_is_locked_while_the_card_of_the_read_back_waits_leaves_it_in_doubt(
    world: World, agent: Agent
) -> None:
    doubt = world.doubt(agent, service="asked", read_back=listing(MINE))
    asked = begin_reconcile(agent, doubt)
    world.human.wait_for_card()
    world.human.client.lock()
    told = agent.end_act(asked)
    unlocked(world)

    assert ("vault_locked", "locked", "after_human", "none") == world.reconciled(told, doubt)
    assert "stays in doubt" in told["message"]
    assert ["reconcile.started", "action.result"] == world.trail(told)
    assert doubt.id in in_doubt(world.house)
    assert (1, 0) == (doubt.writes, doubt.reads)


class Gate:
    """A read-back that is answered when the test says so."""

    def __init__(self, then: up.Behaviour) -> None:
        self._then = then
        self.open = threading.Event()

    async def __call__(self, talk: up.Conversation) -> None:
        assert await asyncio.to_thread(self.open.wait, 20)
        await self._then(talk)


def test_a_vault_that_is_locked_while_it_is_read_back_settles_nothing_and_says_so(world: World, agent: Agent) -> None:
    gate = Gate(listing(MINE))
    doubt = world.doubt(agent, read_back=gate)
    asked = begin_reconcile(agent, doubt)
    until(lambda: doubt.reads)
    world.human.client.lock()
    gate.open.set()
    told = agent.end_act(asked)
    unlocked(world)

    assert ("vault_locked", "locked", "after_human", "none") == world.reconciled(told, doubt)
    assert "stays in doubt" in told["message"]
    assert ["reconcile.started", "action.result"] == world.trail(told)
    assert doubt.id in in_doubt(world.house)
    assert APPLIED == world.reconciled(reconcile(agent, doubt), doubt)


def test_two_who_reconcile_at_once_are_told_the_same(world: World, agent: Agent, another: Agent) -> None:
    gate = Gate(listing(MINE))
    doubt = world.doubt(agent, read_back=gate)
    first, second = begin_reconcile(agent, doubt), begin_reconcile(another, doubt)
    until(lambda: doubt.reads == 2)
    gate.open.set()
    one, other = agent.end_act(first), another.end_act(second)

    assert APPLIED == world.reconciled(one, doubt)
    assert one == other
    assert 1 == len([event for event in world.human.events("reconcile.settled") if event["fields"]["of"] == doubt.id])


@pytest.mark.parametrize(
    ("word", "expected"), [("applied", APPLIED), ("not_applied", NOT_APPLIED)], ids=["applied", "not applied"]
)
def test_a_humans_word_settles_it_and_is_told_as_theirs(
    world: World, agent: Agent, another: Agent, word: str, expected: tuple[str, str, str, str]
) -> None:
    doubt = world.doubt(agent, read_back=up.respond(500))
    world.human.client.settle(doubt.id, word, "looked myself", world.house.key)
    doubt.works_from_now_on()
    told = reconcile(agent, doubt)

    assert expected == world.reconciled(told, doubt)
    assert told == reconcile(another, doubt)
    assert ("write", "A human settled it") == (told["effect"], told["message"][:18])
    (event,) = trail(world.house, told["correlation_id"])
    assert ("operation.settled", doubt.id, word == "applied", "looked myself") == (
        event["event"],
        *(event["fields"][key] for key in ("of", "applied", "reason")),
    )
    assert doubt.id not in in_doubt(world.house)
    assert (1, 0) == (doubt.writes, doubt.reads)
    assert ("success", "ok", "never", "applied") == gist(again(another, doubt, "b-1"))


def test_a_humans_word_stands_against_a_read_back_that_comes_later(world: World, agent: Agent) -> None:
    gate = Gate(listing(MINE))
    doubt = world.doubt(agent, read_back=gate)
    asked = begin_reconcile(agent, doubt)
    until(lambda: doubt.reads)
    world.human.client.settle(doubt.id, "not_applied", "took it away again", world.house.key)
    gate.open.set()

    assert NOT_APPLIED == world.reconciled(agent.end_act(asked), doubt)
    assert [] == [event for event in world.human.events("reconcile.settled") if event["fields"]["of"] == doubt.id]


@pytest.mark.parametrize("way", ["read back", "human"])
def test_under_its_own_request_id_the_first_answer_stays_what_it_was(world: World, agent: Agent, way: str) -> None:
    """The recorded envelope, byte for byte: what became of it since is told by reconcile."""
    doubt = world.doubt(agent, read_back=listing())
    if way == "human":
        world.human.client.settle(doubt.id, "not_applied", "looked", world.house.key)
    else:
        reconcile(agent, doubt)
    doubt.works_from_now_on()

    assert doubt.envelope == agent.act(**doubt.request)
    assert doubt.envelope == agent.ask("GET", f"/v1/results/{doubt.id}")["value"]
    assert 1 == doubt.writes
    changed = {**doubt.request, "args": {**doubt.request["args"], "name": "n-3"}}
    assert ("invalid_request", "request_id_conflict") == gist(agent.act(**changed))[:2]
    assert ("success", "ok", "never", "applied") == gist(again(agent, doubt, f"new-{way[:4]}"))
    assert 2 == doubt.writes


def test_a_human_reads_back_and_goes_on_as_a_human(world: World, agent: Agent) -> None:
    doubt = world.doubt(agent, read_back=listing(MINE))
    told = world.human.client.reconcile(doubt.id)

    assert APPLIED == world.reconciled(told, doubt)
    assert ["reconcile.started", "reconcile.settled", "action.result"] == world.trail(told)
    assert APPLIED == world.reconciled(reconcile(agent, doubt), doubt)


def test_what_no_read_back_is_declared_for_is_put_before_a_human(world: World, agent: Agent) -> None:
    world.upstream.at("/free/ad-hoc", up.raw())
    first = agent.act(service="free", method="POST", path="/ad-hoc", body="{}")
    told = agent.ask("POST", "/v1/reconcile", {"correlation_id": first["correlation_id"]})["value"]

    assert STILL_UNKNOWN == gist(first) == gist(told)
    assert f"doorward operations settle {first['correlation_id']} --as applied|not_applied" == told["next"]["command"]
    assert REFUSED == gist(agent.act(service="free", method="POST", path="/ad-hoc", query={"again": "1"}, body="{ }"))
    assert 1 == len(world.upstream.seen("/free/ad-hoc"))


def test_what_was_never_in_doubt_is_nobody_elses_to_reconcile(world: World, agent: Agent, another: Agent) -> None:
    world.upstream.at("/free/done", up.respond(201, b'{"for": "its maker"}'))
    first = agent.act(service="free", method="POST", path="/done", body="{}")
    asked = {"correlation_id": first["correlation_id"]}

    assert first == agent.ask("POST", "/v1/reconcile", asked)["value"]
    told = another.ask("POST", "/v1/reconcile", asked)["value"]
    assert ("invalid_request", "unknown_correlation_id", "never", "none") == gist(told)
    assert "its maker" not in json.dumps(told)


def test_after_all_of_it_the_log_verifies_offline_and_nothing_holds_the_credential(world: World) -> None:
    events = world.human.events()
    assert "canary-" not in json.dumps(events)
    assert "canary-" not in world.house.log()
    world.house.stop()

    assert "OK" == verdict(world.house)
    assert [] == canaries(world.house)
