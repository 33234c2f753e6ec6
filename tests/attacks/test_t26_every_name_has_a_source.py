"""T26, beyond requests: every name of an event is recorded by something that really happens, or listed here as open.

The story is one installation's life: made, unlocked wrongly and rightly, used, killed, torn, put back, stopped. What
requests leave is walked by test_t26_every_state_one_event.py. And whatever is recorded, no record holds a body, a word
of an answer or a credential: fields come from the kernel, the frozen request and typed results.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.client.approver import ApproverKey
from broker.client.control_people import People
from broker.client.faults import Refused
from broker.contract.key_id import key_id
from broker.core.events import EventName
from broker.daemon.repeated_refusals import IN_FULL
from tests import canary_scan
from tests.attacks.test_t26_every_state_one_event import GRAPH
from tests.fakes.upstream import Conversation, respond
from tests.live.house import AGENT, House, until
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

# Each with what has to come first. This list only ever gets shorter.
NO_SOURCE_YET: dict[EventName, str] = {}
OF_COMMANDS = {  # shown by the live tests of SSH
    EventName.HOSTKEY_ACCEPTED,
    EventName.HOSTKEY_FORGOTTEN,
    EventName.MARKERS_ASKED,
    EventName.MARKERS_COLLECTED,
}
OF_KEYRINGS = {EventName.VAULT_METHOD_ADDED, EventName.VAULT_METHOD_REMOVED}  # shown by the live tests of the keyring
OF_CONTAINERS = {EventName.LISTENER_OPENED}  # shown by the live tests of containers

OF_MACHINES = {EventName.POLICY_RELOADED}  # shown by the live tests of policies, with files that root alone writes
ELSEWHERE = OF_COMMANDS | OF_KEYRINGS | OF_CONTAINERS | OF_MACHINES

POLICY = """
version = 1

[[rules]]
id = "free"
services = ["shop"]
effects = ["read"]
approval = "none"

[[rules]]
id = "buy"
services = ["shop"]
effects = ["write"]
approval = "session"
max_uses = 9

[[rules]]
id = "each"
services = ["each"]
approval = "per_call"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET", "POST"]

[services.shop.operations."orders.list"]
request = {{ method = "GET", path = "/orders" }}
effect = "read"

[services.shop.operations."orders.list".completeness]
complete_when = "type(json.orders) == 'array'"
examples.match = [{{ status = 200, json = {{ orders = [] }} }}]
examples.no_match = [{{ status = 200, json = {{}} }}]

[services.shop.operations."orders.create"]
request = {{ method = "POST", path = "/orders", body = ["name"] }}
effect = "write"
change_key = ["name"]

[services.shop.operations."orders.create".reconcile]
operation = "orders.list"
args = {{}}
match = "json.orders[?name == $name]"

[services.each]
kind = "http"
base_url = "{origin}/each"
ad_hoc = ["POST"]
"""
BODY = "canary-in-a-body"
ANSWER = "canary-in-an-answer"


async def orders(talk: Conversation) -> None:
    """A list with one order for who asks; who creates one gets no answer."""
    if talk.seen.method == "POST":
        await talk.body()
        talk.close()
        return
    body = json.dumps({"orders": [{"name": "n-1", "note": ANSWER}]}).encode()
    await respond(200, body, headers=(("content-type", "application/json"), ("x-note", ANSWER)))(talk)


@pytest.fixture
def upstream() -> Iterator[RoughUpstream]:
    failing = respond(500, ANSWER.encode(), headers=(("x-note", ANSWER), ("content-type", "text/plain")))
    with misbehaving(behaviours={"/orders": orders, "/fails": failing}) as made:
        yield made


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path / "h") as made:
        yield made.init().start()


def begin(house: House, upstream: RoughUpstream) -> None:
    """A wrong passphrase, the right one, credentials, a policy."""
    human = house.human
    with pytest.raises(Refused):
        human.client.unlock(bytes(32))
    until(lambda: unlocked(house))
    human.open_session()
    human.add_bearer("shop", "canary-token-of-the-house", upstream.origin)
    human.add_bearer("other", "canary-other-token", upstream.origin)
    human.client.rotate_credential("other", {"token": "canary-rotated-token"}, house.key)
    human.client.remove_credential("other", house.key)
    human.write_policy("shop.toml", POLICY.format(origin=upstream.origin))
    human.trust()


def unlocked(house: House) -> bool:
    try:
        house.human.unlock()
    except Refused:  # too soon after a wrong one
        return False
    return True


def use(house: House) -> None:
    """Requests of each kind, grants, a mute; and strangers who are refused."""
    human = house.human
    with house.agent() as agent:
        agent.act(service="shop", method="GET", path="/fails", headers={"x-note": "of the agent"})
        agent.ask("POST", "/v1/collect", {"service": "shop", "operation": "orders.list"})
        asking = agent.begin_act(service="shop", method="POST", path="/fails", body=BODY, reason=BODY)
        card = human.wait_for_card()
        human.approve(card, scope="session")
        agent.end_act(asking)
        with pytest.raises(Refused):
            human.deny(card)
        (grant,) = human.client.grants()
        human.client.revoke_grant(str(grant["id"]))
        (session,) = human.client.sessions()
        human.client.mute(str(session["id"]))
        human.client.unmute(str(session["id"]), house.key)
        asking = agent.begin_act(service="each", method="POST", path="/x", body=BODY)
        human.deny(human.wait_for_card(), reason="no")
        agent.end_act(asking)
        human.client.revoke_session(str(session["id"]), kill=True)
    words = [sys.executable, "-I", str(AGENT), house.places.control_socket, "GET", "/v1/credentials"]
    subprocess.run(words, capture_output=True, check=True, timeout=60)
    human.client.freeze()
    human.client.thaw(house.key)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    People(human.client).enrol(other.hex(), house.key)
    People(human.client).remove(key_id(other), house.key)
    human.client.change_passphrase(house.keys.vault_kek, house.keys.vault_kek, house.kdf.to_json(), house.key)


def doubt(house: House, name: str) -> str:
    """A change whose answer never comes."""
    with house.agent() as agent:
        asking = agent.begin_act(service="shop", operation="orders.create", args={"name": name})
        house.human.approve(house.human.wait_for_card())
        told = agent.end_act(asking)
    assert "outcome_unknown" == told["category"], told
    return str(told["correlation_id"])


def edit(house: House) -> None:
    """A policy that does not load."""
    house.human.write_policy("broken.toml", "version = 1\nnosuch = 1\n")
    until(lambda: house.human.events("policy.edit_refused"))
    (house.places.policies / "broken.toml").unlink()


def settle(house: House) -> None:
    assert "success" == house.human.client.reconcile(doubt(house, "n-1"))["category"]
    house.human.client.settle(doubt(house, "n-2"), "not_applied", "it never came", house.key)


def die(house: House, upstream: RoughUpstream) -> None:
    """In the middle of a change, and with half a record at the end of the log."""
    upstream.at("/orders", hold)
    seen = len(upstream.requests)
    with house.agent() as agent:
        agent.begin_act(service="shop", operation="orders.create", args={"name": "n-3"})
        house.human.approve(house.human.wait_for_card())
        until(lambda: len(upstream.requests) > seen)
        house.kill()
    last = max(house.places.audit.glob("*.seg"))
    with last.open("ab") as file:
        file.write(bytes([0, 0, 1, 0x50, 3, 0, 0]))
    house.start().open()


async def hold(talk: Conversation) -> None:
    await talk.hold()


def put_back(house: House, upstream: RoughUpstream) -> None:
    """After a flood of wrong signatures an older vault: quarantine, until a human takes it over."""
    for _ in range(IN_FULL + 2):
        with pytest.raises(Refused):
            house.human.client.thaw(ApproverKey(log_id=house.log_id, seed=bytes(32)))
    house.stop()
    older = house.places.data / "older.db"
    shutil.copy(house.places.vault, older)
    house.start().open()
    house.human.add_bearer("later", "canary-later-token", upstream.origin)
    house.stop()
    older.rename(house.places.vault)
    house.start()
    with pytest.raises(Refused, match="quarantined"):
        house.human.unlock()
    house.human.readopt()
    house.human.open_session()


def everything(house: House) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["seq"] if found else 0
        told = house.human.client.audit_events(after_seq=after, limit=1000)["events"]
        assert isinstance(told, list)
        if not told:
            return found
        found += [dict(one) for one in told]


def test_every_name_is_recorded_by_something_that_happens_and_no_record_holds_what_it_must_not(
    house: House, upstream: RoughUpstream
) -> None:
    begin(house, upstream)
    use(house)
    edit(house)
    settle(house)
    die(house, upstream)
    put_back(house, upstream)
    records = everything(house)
    names = Counter(record["event"] for record in records)

    walked = {EventName(name) for name in GRAPH if "." in name}
    recorded = {EventName(name) for name in names}
    assert set() == recorded & set(NO_SOURCE_YET), "take it off the list"
    assert set(EventName) == recorded | walked | set(NO_SOURCE_YET) | ELSEWHERE

    (recovered,) = [record["fields"] for record in records if record["event"] == "audit.recovered"]
    assert (7, 1) == (recovered["bytes"], recovered["segment"])
    assert {"segment", "offset", "bytes", "sha256", "anchored_seq"} == set(recovered)
    told = json.dumps(records).encode()
    for canary in (BODY, ANSWER):
        assert canary.encode() not in told
    assert [] == canary_scan.hits(told)
    for record in records:
        hold_to_the_rule(record)
    each_request_once(records)


TEXTS = {  # fields whose words are a human's or the caller's own name for something, by event
    "approval.decided": {"reason", "statement"},
    "operation.settled": {"reason"},
}


def hold_to_the_rule(record: dict[str, Any]) -> None:
    """No field is long text, but for a frozen request, whose bodies stand as length and digest."""
    for name, value in record["fields"].items():
        if name == "request" and isinstance(value, dict):
            assert {"len", "sha256"} == set(value["body"]), record
            continue
        if name in TEXTS.get(record["event"], set()):
            continue
        assert len(json.dumps(value)) <= 600, (record["event"], name)


def each_request_once(records: list[dict[str, Any]]) -> None:
    """Of every request in the log: one event per state, and one end unless the daemon died in it."""
    by_request: dict[str, list[str]] = {}
    for record in records:
        if record["correlation_id"] is not None:
            by_request.setdefault(record["correlation_id"], []).append(record["event"])
    assert len(by_request) >= 8
    for names in by_request.values():
        assert {1} == set(Counter(name for name in names if name != "approval.refused").values()), names
        if names[0] == "action.requested":
            assert ("action.result" in names) != ("operation.in_doubt" in names), names
