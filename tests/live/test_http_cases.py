"""Answers of real services, and the lack of them, through the real daemon: envelope, upstream's log, ledger and trail.

Each case reaches the upstream exactly once. A write whose effect stays unknown is in doubt from then on, and its repeat
is refused without a byte; everything else may be asked again.
"""

import itertools
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes import upstream as up
from tests.fakes.authority import Authority
from tests.live.findings import breaches, canaries, gist, in_doubt, verdict
from tests.live.house import Agent, House, open_house
from tests.live.rough_upstream import RoughUpstream, misbehaving
from tests.live.service_answers import (
    DECLARED,
    EARLY,
    LISTED,
    ODD,
    SEALED,
    STATUSES,
    UNANSWERED,
    UNUSABLE,
    WAITS,
    WRITE_OK,
    Case,
    Gist,
    unknown,
)

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-http-cases"
REFUSED: Gist = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")
NEXT = {
    "never": "none",
    "bounded": "retry",
    "after_delay": "wait",
    "after_human": "ask_human",
    "reconcile_first": "reconcile",
}
POLICY = """
version = 1

[limits]
body_bytes = 262144

[[rules]]
id = "all"
services = ["*"]
approval = "none"

[services.rough]
kind = "http"
base_url = "{rough}/rough"
credential = "things"
ad_hoc = ["GET", "HEAD", "POST"]

[services.narrow]
kind = "http"
base_url = "{narrow}/narrow"
credential = "things"
ad_hoc = ["POST"]

[services.sealed]
kind = "http"
base_url = "{sealed}/sealed"
credential = "things"
ad_hoc = ["GET", "POST"]
tls = {{ ca = "ca.pem" }}

[services.closed]
kind = "http"
base_url = "{closed}"
credential = "things"
ad_hoc = ["POST"]

[services.nameless]
kind = "http"
base_url = "https://no-such-host.invalid"
credential = "things"
ad_hoc = ["POST"]

[services.stranger]
kind = "http"
base_url = "{sealed}/stranger"
credential = "things"
ad_hoc = ["POST"]

[services.told]
kind = "http"
base_url = "{rough}/told"
credential = "things"

[services.told.operations."things.get"]
request = {{ method = "GET", path = "/{{id}}" }}
effect = "read"
identity = {{ path = "json.id" }}
response = {{ media = "json" }}
limits = {{ max_bytes = 1000 }}

[services.told.operations."things.list"]
request = {{ method = "GET", path = "/{{id}}/list" }}
effect = "read"

[services.told.operations."things.list".completeness]
complete_when = "type(json) == 'array'"
examples.match = [{{ status = 200, json = [] }}]
examples.no_match = [{{ status = 200, json = {{}} }}]

[services.told.operations."things.create"]
request = {{ method = "POST", path = "/{{id}}", body = ["name"] }}
effect = "write"
success = {{ statuses = [200, 201, 204] }}
identity = {{ path = "json.id" }}
response = {{ media = "json" }}
limits = {{ max_bytes = 1000 }}
change_key = ["id"]

[services.told.operations."things.create".reconcile]
operation = "things.list"
args = {{ id = "{{id}}" }}
match = "json[?name == $name]"
"""


class World:
    """A house with agents that may all, three upstreams, and what every request is to have left in the log."""

    def __init__(self, house: House, upstreams: dict[str, RoughUpstream]) -> None:
        self.house = house
        self.upstreams = upstreams
        self.numbers = itertools.count(1)
        self.left: dict[str, list[str]] = {}

    def holds(
        self, agent: Agent, case: Case, method: str, expected: Gist, *, service: str, operation: str | None = None
    ) -> None:
        upstream = self.upstreams[service]
        path, request = self._request(case, method, service, operation)
        upstream.at(path, case.answer)
        first = agent.act(**request)

        assert expected == gist(first)
        self._answers(case, first)
        self.left[first["correlation_id"]] = ["dispatch.started", case.event, "action.result"]
        self._repeats(agent, request, first, upstream, path)

    def _request(self, case: Case, method: str, service: str, operation: str | None) -> tuple[str, dict[str, Any]]:
        number = next(self.numbers)
        path = f"/c{number}"
        request: dict[str, Any] = {"service": service, "method": method, "path": path}
        if operation is not None:
            args = {"id": path[1:]} | ({"name": "n-1"} if method == "POST" else {})
            request = {"service": service, "operation": operation, "args": args}
        elif method == "POST":
            request["body"] = case.body
        if case.deadline is not None:
            request["deadline"] = case.deadline
        return f"/{service}{path}" + ("/list" if operation == "things.list" else ""), request

    def _answers(self, case: Case, envelope: dict[str, Any]) -> None:
        assert [] == breaches(envelope)
        retry, step = envelope["retry"], envelope["next"]
        by_category = {"authentication_failed": "ask_human"} if retry == "never" else {}
        by_category |= {"partial": "continue"} if retry == "bounded" else {}
        assert by_category.get(envelope["category"], NEXT[retry]) == step["action"]
        assert case.wait_s == envelope["retry_after_s"] == step.get("after_s")
        answer = envelope["http"] or {}
        assert case.status == answer.get("status")
        assert case.shown == next((key for key in ("body", "body_json", "body_b64") if key in answer), None)
        reasons = (envelope["completeness"] or {}).get("incomplete_reasons", [])
        assert (False if case.incomplete else case.complete) == (envelope["completeness"] or {}).get("complete")
        assert list(case.incomplete) == [reason["code"] for reason in reasons]
        assert list(case.warns) == [warning["code"] for warning in envelope["warnings"]]
        assert "canary-" not in json.dumps(envelope)

    def _repeats(
        self, agent: Agent, request: dict[str, Any], first: dict[str, Any], upstream: RoughUpstream, path: str
    ) -> None:
        """Once at the upstream so far; a doubt is kept and its repeat refused, and all else may be asked again."""
        assert 1 == len(upstream.seen(path))
        is_broken = first["category"] == "malformed_response" and first["retry"] == "reconcile_first"
        is_open = first["category"] != "partial" and first["remote_effect"] == "unknown"
        assert (is_broken or is_open) == (first["correlation_id"] in in_doubt(self.house))
        before = upstream.accepted, upstream.bytes_received
        again = agent.act(**request)
        if is_broken or is_open:
            assert REFUSED == gist(again)
            assert before == (upstream.accepted, upstream.bytes_received)
            assert first["correlation_id"] == again["previous_correlation_id"]
            assert f"doorward reconcile {first['correlation_id']}" == again["next"]["command"]
            assert 1 == len(upstream.seen(path))
        else:
            assert gist(first)[:2] == gist(again)[:2]
            assert 2 == len(upstream.seen(path))


def closed_port() -> str:
    """An origin where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    authority = Authority()
    with (
        misbehaving() as rough,
        misbehaving(narrow=True) as narrow,
        misbehaving(authority.server()) as tls,
        open_house(tmp_path_factory.mktemp("http") / "h") as house,
    ):
        human = house.human
        origins = {"rough": rough.origin, "narrow": narrow.origin, "sealed": tls.origin, "closed": closed_port()}
        human.add_bearer("things", TOKEN, *origins.values(), "https://no-such-host.invalid")
        human.write_policy("http.toml", POLICY.format(**origins))
        (house.places.policies / "ca.pem").write_text(authority.pem)
        (house.places.policies / "ca.pem").chmod(0o600)
        human.trust()
        yield World(house, {"rough": rough, "told": rough, "narrow": narrow, "sealed": tls})


@pytest.fixture(scope="module")
def agent(world: World) -> Iterator[Agent]:
    with world.house.agent() as asking:
        yield asking


def each(cases: list[Case]) -> pytest.MarkDecorator:
    asked = [
        pytest.param(case, method, expected, id=f"{case.name}, to a {kind}")
        for case in cases
        for kind, method, expected in (
            ("read", "GET", case.read),
            ("write", "POST", case.write),
            ("HEAD", "HEAD", case.head),
        )
        if expected is not None
    ]
    assert asked
    return pytest.mark.parametrize(("case", "method", "expected"), asked)


@each(STATUSES)
def test_a_status_means_what_the_effect_of_the_request_allows(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="rough")


@each(WAITS)
def test_a_wait_is_read_strictly_and_never_without_bounds(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="rough")


@each(UNUSABLE)
def test_an_answer_that_breaks_the_rules_is_not_used_and_its_body_stays_here(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="rough")


@each(UNANSWERED)
def test_without_an_answer_a_read_may_be_repeated_and_a_write_is_in_doubt(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="rough")


@each(ODD)
def test_what_is_odd_is_read_for_what_it_is(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="rough")


@each(EARLY)
def test_an_answer_to_half_a_request_may_refuse_it_and_proves_nothing_else(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="narrow")


@each(SEALED)
def test_a_stream_that_is_cut_under_tls_is_whole_only_where_something_tells_its_end(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="sealed")


@each(DECLARED)
def test_an_operation_is_held_to_what_it_declares(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    operation = "things.create" if method == "POST" else "things.get"
    world.holds(agent, case, method, expected, service="told", operation=operation)


@each(LISTED)
def test_a_list_is_whole_only_where_the_operation_says_how_one_can_tell(
    world: World, agent: Agent, case: Case, method: str, expected: Gist
) -> None:
    world.holds(agent, case, method, expected, service="told", operation="things.list")


@pytest.mark.parametrize(
    ("service", "code", "retry"),
    [
        ("closed", "connect_refused", "bounded"),
        ("nameless", "dns_failed", "bounded"),
        ("stranger", "tls_untrusted", "after_human"),
    ],
)
def test_before_the_first_byte_a_write_has_done_nothing_and_may_be_repeated(
    world: World, agent: Agent, service: str, code: str, retry: str
) -> None:
    sealed = world.upstreams["sealed"]
    before = len(sealed.requests)
    first, again = [agent.act(service=service, method="POST", path="/things", body="{}") for _ in range(2)]

    assert ("local_failure", code, retry, "none") == gist(first) == gist(again)
    assert [] == breaches(first)
    assert None is first["http"]
    assert before == len(sealed.requests)
    assert first["correlation_id"] not in in_doubt(world.house)
    world.left[first["correlation_id"]] = ["dispatch.started", "transport.failed", "action.result"]


def write(agent: Agent, name: str) -> dict[str, Any]:
    return agent.act(service="rough", method="POST", path=f"/{name}", body="{}")


def test_a_connection_that_ends_between_two_writes_is_not_used_for_the_second(world: World, agent: Agent) -> None:
    """What many clients retry here is the race: https://github.com/hyperium/hyper/issues/3553."""
    rough = world.upstreams["rough"]
    rough.at("/rough/first", up.respond(201))
    rough.at("/rough/second", up.respond(201))
    assert WRITE_OK == gist(write(agent, "first"))
    rough.hang_up()

    assert WRITE_OK == gist(write(agent, "second"))
    (one,), (other,) = rough.seen("/rough/first"), rough.seen("/rough/second")
    assert one.connection != other.connection


def test_a_kept_connection_that_ends_under_a_write_leaves_it_in_doubt_and_sends_it_once(
    world: World, agent: Agent
) -> None:
    rough = world.upstreams["rough"]
    rough.at("/rough/kept", up.respond(201))
    rough.at("/rough/under-way", up.raw())
    assert WRITE_OK == gist(write(agent, "kept"))
    lost = write(agent, "under-way")

    assert unknown("connection_lost") == gist(lost)
    (one,), (other,) = rough.seen("/rough/kept"), rough.seen("/rough/under-way")
    assert (one.connection, one.number + 1) == (other.connection, other.number)
    assert REFUSED == gist(write(agent, "under-way"))
    assert 1 == len(rough.seen("/rough/under-way"))
    assert lost["correlation_id"] in in_doubt(world.house)


def test_an_answer_that_comes_late_is_nobodys(world: World, agent: Agent) -> None:
    """The connection of a request that ran out of time is closed, so its answer can't be the next one's."""
    rough = world.upstreams["rough"]
    rough.at("/rough/late", up.silence)
    rough.at("/rough/next", up.respond(201, b'{"id": "next"}'))
    late = agent.act(service="rough", method="POST", path="/late", body="{}", deadline={"first_byte_s": 0.1})
    then = write(agent, "next")

    assert unknown("first_byte_timeout") == gist(late)
    assert {"id": "next"} == then["http"]["body_json"]
    (one,), (other,) = rough.seen("/rough/late"), rough.seen("/rough/next")
    assert one.connection != other.connection


async def echo(talk: up.Conversation) -> None:
    """Give the credential back wherever an answer has room for it."""
    told = talk.seen.headers["authorization"]
    token = told.removeprefix("Bearer ")
    body = json.dumps({"you": told, token: [token[:30] + "\u0000", told.encode().hex()]}).encode()
    more = (("x-request-id", told), ("etag", f'"{token}"'), ("link", f'</rough/more?t={token}>; rel="next"'))
    await up.respond(
        500 if talk.seen.method == "POST" else 200, body, headers=(("content-type", "application/json"), *more)
    )(talk)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_upstream_that_echoes_the_credential_gives_nobody_a_copy(world: World, agent: Agent, method: str) -> None:
    world.upstreams["rough"].at(f"/rough/echo-{method}", echo)
    body = {"body": "{}"} if method == "POST" else {}
    told = agent.act(service="rough", method=method, path=f"/echo-{method}", **body)

    text = json.dumps(told)
    assert "canary-" not in text
    assert TOKEN.encode().hex() not in text
    assert "[redacted]" in text
    assert "done" == told["scrub"]["state"]
    assert [] == breaches(told)


def test_every_request_that_left_has_one_record_of_what_came_back_and_one_end(world: World) -> None:
    client, after, events = world.house.human.client, 0, []
    while page := client.audit_events(limit=1000, after_seq=after)["events"]:
        assert isinstance(page, list)
        events += [dict(event) for event in page]
        after = events[-1]["seq"]
    trails: dict[str, list[str]] = {}
    for event in events:
        trails.setdefault(event["correlation_id"], []).append(event["event"])

    assert world.left
    assert world.left == {one: trails[one][-3:] for one in world.left}
    assert all(["action.requested", "policy.decided"] == trails[one][:2] for one in world.left)
    assert "canary-" not in json.dumps(events)


def test_after_all_of_it_the_log_verifies_offline_and_nothing_holds_the_credential(world: World) -> None:
    assert "canary-" not in world.house.log()
    world.house.stop()

    assert "OK" == verdict(world.house)
    assert [] == canaries(world.house)
