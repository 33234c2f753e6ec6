"""A human at a real daemon: opening and closing it, what it holds, and what stands on record."""

import base64
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.control_answers import part
from broker.client.faults import Refused
from broker.contract.statements import statement_bytes
from tests.live.house import House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live

CREATE = {"service": "shop", "operation": "orders.create", "args": {"name": "one"}}
TIP = {"service": "open", "method": "POST", "path": "/tips", "body": {"cents": 5}}


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path / "h", origin=upstream.origin) as made:
        yield made


def fails(house: House, method: str, path: str, body: object = None) -> tuple[int, str]:
    status, value = house.human.ask(method, path, body)
    return status, value["error"]["code"]


def kek(octets: bytes) -> dict[str, str]:
    return {"kek_b64": base64.b64encode(octets).decode()}


def break_the_log(house: House) -> None:
    """From the next record on the audit log takes nothing any more."""
    (segment,) = house.places.audit.glob("*.seg")
    os.link(segment, house.places.audit / "linked")


def test_a_wrong_passphrase_is_slowed_and_on_record(tmp_path: Path) -> None:
    with House(tmp_path / "h") as house:
        house.init().start()
        assert (403, "wrong_passphrase") == fails(house, "POST", "/v1/unlock", kek(b"x" * 32))
        status, told = house.human.ask("POST", "/v1/unlock", kek(house.keys.vault_kek.reveal()))
        assert (403, "wrong_passphrase") == (status, told["error"]["code"]), "the right one is not looked at so soon"
        assert told["error"]["retry_after_s"] > 0
        until(lambda: house.human.ask("POST", "/v1/unlock", kek(house.keys.vault_kek.reveal()))[0] == 200)
        house.human.open_session()

        assert ["wrong_passphrase"] == [event["fields"]["why"] for event in house.human.events("vault.unlock_failed")]
        assert "too_soon" in {event["fields"]["code"] for event in house.human.events("control.refused")}


def test_unlocking_again_checks_the_key_and_changes_nothing(house: House) -> None:
    before = lasting(house)
    house.human.unlock()
    assert (403, "wrong_passphrase") == fails(house, "POST", "/v1/unlock", kek(b"x" * 32))

    assert before == lasting(house)
    assert 1 == len(house.human.events("vault.unlocked"))


def lasting(house: House) -> dict[str, object]:
    """What the status says of the vault, but for the time that runs."""
    vault = part(house.human.client.status(), "vault")
    return {name: value for name, value in vault.items() if name != "idle_lock_in_ms"}


def test_a_lock_ends_sessions_cards_grants_and_control_sessions(house: House) -> None:
    with house.agent() as agent:
        look = agent.begin_act(service="shop", operation="orders.list")
        house.human.approve(house.human.wait_for_card(), scope="session")
        assert "success" == agent.end_act(look)["category"]
        assert 1 == len(house.human.client.grants())
        asking = agent.begin_act(**CREATE)
        house.human.wait_for_card()
        locked = house.human.client.lock()

        assert "locked" == locked["state"]
        assert "asked" == part(house.human.client.status(), "vault")["locked_for"]
        assert ("vault_locked", "locked") == gist(agent.end_act(asking))
        assert ("vault_locked", "locked") == gist(agent.act(service="shop", operation="orders.list"))
        assert [] == house.human.client.grants() == house.human.client.sessions() == house.human.cards()
        assert (401, "control_session_required") == fails(house, "GET", "/v1/credentials")
        house.human.unlock()
        house.human.open_session()
        look = agent.begin_act(service="shop", operation="orders.list")
        house.human.deny(house.human.wait_for_card())
        assert ("session_denied", "declined") == gist(agent.end_act(look)), "no grant outlived the lock"


def test_a_lock_is_done_whole_though_whoever_asked_hangs_up(house: House) -> None:
    with socket.socket(socket.AF_UNIX) as hasty:
        hasty.connect(house.places.control_socket)
        hasty.sendall(b"POST /v1/lock HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")

    until(lambda: house.human.client.status()["vault"]["state"] == "locked")  # type: ignore[index,call-overload]  # an object
    house.human.unlock()
    house.human.open_session()
    assert 1 == len(house.human.events("vault.locked"))


def test_what_can_not_be_recorded_is_not_opened_and_is_closed_all_the_same(house: House) -> None:
    """T22: with a dead audit log a human can still lock, deny and end; and nothing runs."""
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        card = house.human.wait_for_card()
        break_the_log(house)
        assert ("broker_unavailable", "audit_unwritable") == gist(agent.act(**TIP))
        assert (503, "audit_unwritable") == fails(house, "POST", f"/v1/approvals/{card}/decision", {"decision": "deny"})
        assert ("broker_unavailable", "audit_unwritable") == gist(agent.end_act(asking))
        session = str(house.human.client.sessions()[0]["id"])
        assert 200 == house.human.ask("DELETE", f"/v1/sessions/{session}")[0]
        assert (503, "audit_unwritable") == fails(house, "POST", "/v1/lock", {})
        assert "locked" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]
        assert (503, "audit_unwritable") == fails(house, "POST", "/v1/unlock", kek(house.keys.vault_kek.reveal()))
        status = house.human.ask("GET", "/v1/status")[1]
        assert ("locked", False) == (status["vault"]["state"], status["audit"]["anchored"])
        assert status["warnings"]
    assert 0 == house.stop()


def gist(envelope: dict[str, Any]) -> tuple[str, str]:
    return envelope["category"], envelope["code"]


def test_freezing_ends_what_waits_and_thawing_is_signed(house: House) -> None:
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        house.human.wait_for_card()
        house.human.client.freeze()
        assert ("broker_unavailable", "frozen") == gist(agent.end_act(asking))
        assert ("broker_unavailable", "frozen") == gist(agent.act(**TIP))
        assert (422, "schema") == fails(house, "POST", "/v1/thaw", {})
        assert house.human.client.status()["frozen"]
        house.human.client.thaw(house.key)
        assert ("success", "ok") == gist(agent.act(**TIP))


def test_what_was_approved_under_a_former_value_ends_with_it(house: House, upstream: Upstream) -> None:
    human = house.human
    with house.agent() as agent:
        look = agent.begin_act(service="shop", operation="orders.list")
        human.approve(human.wait_for_card(), scope="session")
        agent.end_act(look)
        asking = agent.begin_act(**CREATE)
        human.wait_for_card()
        human.client.rotate_credential("shop", {"token": "canary-next-token"}, house.key)

        assert ("approval_timeout", "approval_void") == gist(agent.end_act(asking))
        assert [] == human.client.grants()
        look = agent.begin_act(service="shop", operation="orders.list")
        human.approve(human.wait_for_card())
        assert ("success", "ok") == gist(agent.end_act(look))
    assert "Bearer canary-next-token" == upstream.authorizations[-1]


def test_a_credential_that_is_not_bound_there_opens_nothing(house: House, upstream: Upstream) -> None:
    human = house.human
    human.client.rebind_credential("shop", ["https://elsewhere.example"], {"token": "canary-x"}, house.key)
    with house.agent() as agent:
        assert ("policy_denied", "rule_denied") == gist(agent.act(service="shop", operation="orders.list"))
        human.client.remove_credential("shop", house.key)
        told = agent.act(service="shop", operation="orders.list")
        assert ("policy_denied", "rule_denied") == gist(told)
        assert "doorward credential add shop" == told["next"]["command"]
    assert [] == upstream.requests


def test_faulty_credentials_are_refused_one_by_one(house: House) -> None:
    add, key = house.human.client.add_credential, house.key
    good = {"name": "two", "kind": "bearer", "origins": ["https://two.example"]}
    for params, secret, code in (
        (good, {"value": "canary-of-another-kind"}, "schema"),
        (good, {"token": "with\nline"}, "schema"),
        ({**good, "origins": ["http://two.example"]}, {"token": "canary-token-two"}, "schema"),
        ({**good, "name": "shop"}, {"token": "canary-token-two"}, "exists"),
    ):
        with pytest.raises(Refused) as refused:
            add(params, secret, key)
        assert code == refused.value.code, params
        assert "canary" not in str(refused.value)
    with pytest.raises(Refused, match="no credential"):
        house.human.client.rotate_credential("none", {"token": "canary-token"}, key)
    with pytest.raises(Refused) as missing:
        house.human.client.remove_credential("none", key)
    assert "unknown" == missing.value.code
    assert ["shop"] == [row["name"] for row in house.human.client.credentials()]


def test_every_kind_of_credential_goes_in_and_no_value_comes_out(house: House) -> None:
    client, key = house.human.client, house.key
    client.add_credential(
        {"name": "b", "kind": "basic", "origins": ["https://b.example"]},
        {"username": "ann", "password": "canary-password"},
        key,
    )
    client.add_credential(
        {"name": "h", "kind": "header", "origins": ["https://h.example"], "header": "x-key", "template": "v1 {value}"},
        {"value": "canary-value-of-header"},
        key,
    )
    client.rotate_credential("b", {"username": "ann", "password": "canary-password-2"}, key)

    listed = client.credentials()
    assert [("b", "basic", 2), ("h", "header", 1), ("shop", "bearer", 1)] == sorted(
        (row["name"], row["kind"], row["version"]) for row in listed
    )
    assert "canary" not in json.dumps([listed, house.human.events()])


def test_a_policy_is_in_force_as_it_was_signed_and_not_as_it_lies_there(house: House) -> None:
    human = house.human
    in_force = human.client.policy()
    human.write_policy("more.toml", 'version = 1\n[[rules]]\nid = "x"\nservices = ["open"]\napproval = "deny"\n')
    with house.agent() as agent:
        assert ("success", "ok") == gist(agent.act(**TIP)), "an edited file changes nothing"
    pending = human.client.policy_pending()
    assert not pending["same"]
    assert pending["changes"]
    assert in_force["digest"] == human.client.policy()["digest"]
    with pytest.raises(Refused) as stale:
        human.client.trust_policy(str(in_force["digest"]), 2, house.key)
    assert "changed" == stale.value.code
    with pytest.raises(Refused) as later:
        human.client.trust_policy(str(pending["digest"]), 3, house.key)
    assert "changed" == later.value.code
    human.trust()
    with house.agent() as agent:
        assert ("policy_denied", "rule_denied") == gist(agent.act(**TIP))
    assert 2 == human.client.policy()["counter"]


def test_a_faulty_policy_is_shown_with_every_fault_and_trusted_by_nobody(house: House) -> None:
    house.human.write_policy("bad.toml", 'version = 1\nodd = 1\n[[rules]]\nid = "x"\napproval = "maybe"\n')
    pending = house.human.client.policy_pending()
    faults: Any = pending["faults"]

    assert {"odd", "rules[0].approval"} <= {fault["key"] for fault in faults} or len(faults) >= 2
    body = {"policy_digest": pending["digest"], "counter": 2, "signature": "A" * 86 + "=="}
    assert (422, "policy_faults") == fails(house, "POST", "/v1/policy/trust", body)


def test_a_policy_signed_by_nobody_is_trusted_by_nobody(house: House) -> None:
    house.human.write_policy("more.toml", "version = 1\n")
    pending = house.human.client.policy_pending()
    body = {"policy_digest": pending["digest"], "counter": pending["counter"], "signature": "A" * 86 + "=="}

    assert (403, "bad_signature") == fails(house, "POST", "/v1/policy/trust", body)
    refused = until(lambda: house.human.events("control.refused"))  # written with the next group, nobody waits for it
    assert ["/v1/policy/trust"] == [event["fields"]["route"] for event in refused]


def test_an_open_card_ends_with_the_policy_that_it_was_drawn_under(house: House) -> None:
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        house.human.wait_for_card()
        house.human.write_policy("more.toml", "version = 1\n")
        house.human.trust()

        assert ("approval_timeout", "approval_void") == gist(agent.end_act(asking))


def test_a_change_in_doubt_is_settled_by_a_signed_word_once(house: House, upstream: Upstream) -> None:
    human = house.human
    upstream.answers.clear()
    with house.agent() as agent:
        told = agent.act(**TIP, deadline={"total_s": 0.3})
        doubt = told["correlation_id"]
        assert ("outcome_unknown", "unknown") == (told["category"], told["remote_effect"])
        upstream.answers.set()
        settle = f"/v1/operations/{doubt}/settle"
        assert (422, "schema") == fails(house, "POST", settle, {})
        human.client.settle(doubt, "not_applied", "looked at the till", house.key)
        with pytest.raises(Refused) as again:
            human.client.settle(doubt, "applied", "or rather", house.key)
        assert "settled" == again.value.code

        assert [] == human.client.operations(state="in_doubt")
        (event,) = human.events("operation.settled")
        assert (doubt, False, "looked at the till") == tuple(
            event["fields"][name] for name in ("of", "applied", "reason")
        )
        assert ("success", "ok") == gist(agent.act(**TIP)), "and it may be asked for anew"
        status, error = signed_settle(house, doubt)
        assert (409, "settled") == (status, error["error"]["code"])


def signed_settle(house: House, doubt: str) -> tuple[int, Any]:
    statement: Any = {
        "verb": "operation.settle",
        "params": {"correlation_id": doubt, "as": "applied", "reason": "late"},
        "nonce": house.human.ask("GET", "/v1/nonce")[1]["nonce"],
        "log_id": house.log_id,
        "vault_term": house.human.ask("GET", "/v1/status")[1]["vault"]["term"],
    }
    signature = base64.b64encode(house.key.sign_statement(statement)).decode()
    assert statement_bytes(statement)
    return house.human.ask("POST", f"/v1/operations/{doubt}/settle", {"statement": statement, "signature": signature})


def test_a_human_reconciles_by_the_declared_read_back(house: House, upstream: Upstream) -> None:
    human = house.human
    upstream.answers.clear()
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE, deadline={"total_s": 0.5})
        human.approve(human.wait_for_card())
        doubt = agent.end_act(asking)["correlation_id"]
        upstream.answers.set()
        assert ["orders.list"] == [row["read_back"] for row in human.client.operations()]
        repeat = agent.act(**CREATE)
        assert ("reconcile_required", doubt) == (repeat["category"], repeat["previous_correlation_id"])
        told: Any = {}
        thread = threading.Thread(
            target=lambda: told.update(human.ask("POST", f"/v1/operations/{doubt}/reconcile", {})[1])
        )
        thread.start()
        human.approve(human.wait_for_card())
        thread.join(20)

    assert ("success", "reconciled") == gist(told)
    assert 200 == human.ask("GET", "/v1/approvals")[0], "who had it read back is a human still"
    assert [] == human.client.operations()


def test_an_older_vault_that_was_put_back_is_noticed_at_the_unlock(tmp_path: Path, upstream: Upstream) -> None:
    """T39: the audit log knows a later one."""
    with House(tmp_path / "h") as house:
        house.init().open(origin=upstream.origin)
        house.stop()
        kept = tmp_path / "kept.db"
        shutil.copy2(house.places.vault, kept)
        house.open()
        house.human.client.remove_credential("shop", house.key)
        house.stop()
        shutil.copy2(kept, house.places.vault)
        house.start()

        assert (409, "vault_locked") == fails(house, "POST", "/v1/unlock", kek(house.keys.vault_kek.reveal()))
        status = house.human.ask("GET", "/v1/status")[1]
        assert "quarantined" == status["vault"]["state"]
        assert any("later vault" in warning for warning in status["warnings"])
        with house.agent() as agent:
            assert ("vault_locked", "quarantined") == gist(agent.act(**TIP))


def test_an_audit_log_that_went_back_is_noticed_at_the_unlock(tmp_path: Path) -> None:
    """T24, T39: the vault remembers how far it was."""
    with House(tmp_path / "h") as house:
        house.init().open()
        house.stop()
        kept = tmp_path / "kept"
        shutil.copytree(house.places.data / "audit", kept)
        house.open()
        house.stop()
        shutil.rmtree(house.places.audit)
        shutil.copytree(kept, house.places.audit)
        house.start()

        status = house.human.ask("GET", "/v1/status")[1]
        assert ("quarantined", "audit_truncated") == (status["vault"]["state"], status["vault"]["reason"])
        assert (409, "vault_locked") == fails(house, "POST", "/v1/unlock", kek(house.keys.vault_kek.reveal()))


def test_the_feed_tells_what_happens(house: House) -> None:
    stream = house.human.client.events()
    seen: list[tuple[str, Any]] = []
    with house.agent() as agent:
        asking = agent.begin_act(**CREATE)
        for event in stream:
            if event is None:
                continue
            seen.append((event.name, json.loads(event.data)))
            if event.name == "approval" and seen[-1][1]["state"] == "pending":
                house.human.deny(seen[-1][1]["id"], end_session=True)
            if event.name == "session" and seen[-1][1]["state"] == "ended":
                break
        assert ("call_denied", "declined") == gist(agent.end_act(asking))
    stream.close()

    assert ["pending", "denied"] == [data["state"] for name, data in seen if name == "approval"]
    assert ["opened", "ended"] == [data["state"] for name, data in seen if name == "session"]


def test_a_session_is_revoked_and_its_process_ended_where_asked(house: House) -> None:
    with house.agent() as agent:
        agent.act(**TIP)
        (session,) = house.human.client.sessions()
        told = house.human.client.revoke_session(str(session["id"]), kill=True)
        assert (True, True) == (told["ended"], told["killed"])
        until(lambda: not Path(f"/proc/{agent.pid}/exe").exists())
    assert (404, "unknown") == fails(house, "DELETE", f"/v1/sessions/{session['id']}")
    assert (404, "unknown") == fails(house, "POST", f"/v1/sessions/{session['id']}/mute", {})
    assert (404, "unknown") == fails(house, "DELETE", "/v1/grants/gr_none")


def test_a_muted_program_stays_muted_over_new_processes_until_a_signed_word(house: House) -> None:
    """T43."""
    human = house.human
    with house.agent() as agent:
        agent.act(**TIP)
        (session,) = human.client.sessions()
        human.client.mute(str(session["id"]))
        assert ("session_denied", "muted") == gist(agent.act(**CREATE))
    with house.agent() as forked:
        assert ("session_denied", "muted") == gist(forked.act(**CREATE))
        assert ("success", "ok") == gist(forked.act(**TIP)), "what asks nobody goes on"
        (session,) = human.client.sessions()
        human.client.unmute(str(session["id"]), house.key)
        asking = forked.begin_act(**CREATE)
        human.deny(human.wait_for_card())
        assert ("call_denied", "declined") == gist(forked.end_act(asking))
    assert [1, 1] == [len(human.events(name)) for name in ("session.muted", "session.unmuted")]


def test_questions_to_the_audit_log_are_answered_in_part(house: House) -> None:
    client = house.human.client
    everything: Any = client.audit_events(limit=1000)["events"]
    some: Any = client.audit_events(after_seq=everything[2]["seq"], limit=2)["events"]

    assert [event["seq"] for event in everything[3:5]] == [event["seq"] for event in some]
    assert ["vault.created"] == [event["event"] for event in house.human.events("vault.created")]
    client.lock()
    with pytest.raises(Refused) as locked:
        client.audit_events()
    assert "control_session_required" == locked.value.code


def test_explaining_to_a_human_shows_each_rule(house: House) -> None:
    request = {"service": "shop", "operation": "orders.list"}
    told = house.human.client.explain(request)
    named = house.human.client.explain(request, agent="codex")
    nowhere = house.human.client.explain({"service": "nowhere", "method": "GET", "path": "/"})

    assert told["trace"]
    assert told["decision"] == named["decision"]
    assert "unknown_service" == nowhere["code"]
