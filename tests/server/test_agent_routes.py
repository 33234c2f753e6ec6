"""agent.sock as an agent meets it: shapes, statuses, waiting, results and withdrawing."""

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest

from broker.contract.reasons import VaultState
from broker.core.ledger import Attempt, AttemptState
from broker.server import agent_routes
from tests.fakes.faces import AgentFace, Told

OP = "op_" + "0" * 44


def attempt(anchor_id: str, **more: Any) -> Attempt:
    return Attempt(
        correlation_id=OP,
        anchor_id=anchor_id,
        request_id=None,
        request_digest="sha256:0",
        change_key="sha256:1",
        service="market",
        operation="market.tips.give",
        summary="POST /tips",
        args={},
        agent="unidentified",
        session_id="se_1",
        started_at_ms=1,
        state=AttemptState.IN_DOUBT,
        **more,
    )


def told_of(answer: Told) -> tuple[int, str, str]:
    return answer.status, answer.value["category"], answer.value["code"]


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"{", 400, "unreadable"),
        (b'{"service":1,"service":2}', 400, "unreadable"),
        (b'{"args":NaN}', 400, "unreadable"),
        (b"[1]", 400, "unreadable"),
        (b"\xff\xfe", 400, "unreadable"),
        (b'{"args":' * 100 + b"1" + b"}" * 100, 400, "unreadable"),
        (b'{"args":' + b"[" * 100_000, 400, "unreadable"),
        (b"{}", 422, "schema"),
        (b'{"service":"market","method":"GET","path":"x"}', 422, "schema"),
        (b'{"service":"market","method":"GET","path":"/x","odd":1}', 422, "schema"),
        (b" " * ((1 << 20) + 1), 413, "body_too_large"),
    ],
)
async def test_what_can_not_be_taken_is_said_with_an_envelope(
    tmp_path: Path, raw: bytes, status: int, code: str
) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", "/v1/http", raw=raw)

        assert (status, "invalid_request", code) == told_of(answer)
        assert ["none", "never"] == [answer.value["remote_effect"], answer.value["retry"]]


async def test_each_fault_of_a_shape_is_named_with_its_path_and_no_value(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.act(path="canary-path", wait_s="canary-wait", deadline={"total_s": 0})

        message = answer.value["message"]
        assert all(path in message for path in ("path:", "wait_s:", "deadline/total_s:"))
        assert b"canary" not in answer.body


async def test_what_can_not_be_read_is_put_on_record_as_well(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        await face.ask("POST", "/v1/http", raw=b"{")

        (action,) = face.engine.actions
        assert "unreadable" == getattr(action.ask, "code", None)
        assert action.body_digest.startswith(
            "sha256:021fb596db81e6d02bf3d2586ee3981fe519f275c0ac9ca76bbcf2ebb4097d96"[:20]
        )


@pytest.mark.parametrize("path", ["/v1/session", "/v1/reconcile", "/v1/explain"])
async def test_the_other_bodies_are_held_to_their_shapes_too(tmp_path: Path, path: str) -> None:
    async with AgentFace(tmp_path) as face:
        assert (400, "invalid_request", "unreadable") == told_of(await face.ask("POST", path, raw=b"{"))
        assert (422, "invalid_request", "schema") == told_of(await face.ask("POST", path, {"odd": 1}))
        assert (413, "invalid_request", "body_too_large") == told_of(await face.ask("POST", path, raw=b" " * (1 << 21)))


@pytest.mark.parametrize(("method", "path"), [("GET", "/v2/http"), ("GET", "/v1/http"), ("PUT", "/v1/session")])
async def test_there_is_no_envelope_where_there_is_no_route(tmp_path: Path, method: str, path: str) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask(method, path)

        assert 404 == answer.status
        assert {"error"} == set(answer.value)


async def test_a_body_in_another_coding_is_not_unpacked(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        bomb = base64.b64decode("H4sIAAAAAAAAA+3BMQEAAADCoPVPbQwfoAAAAAAAAAAAAAAAAAAAAIC3AYbSVKsAQAAA")
        answer = await face.ask("POST", "/v1/http", raw=bomb, headers={"content-encoding": "gzip"})

        assert (400, "invalid_request", "unreadable") == told_of(answer)


async def test_a_body_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    async with AgentFace(tmp_path, read_s=0.05) as face:
        wire = await face.wire()
        wire.send(b'POST /v1/http HTTP/1.1\r\nhost: face\r\ncontent-length: 100\r\n\r\n{"service":')

        assert (400, "invalid_request", "unreadable") == told_of(await wire.answer())


async def test_a_length_that_is_too_much_is_refused_before_the_body_comes(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        wire = await face.wire()
        wire.send(b"POST /v1/http HTTP/1.1\r\nhost: face\r\ncontent-length: 99999999999\r\n\r\n")

        assert (413, "invalid_request", "body_too_large") == told_of(await wire.answer())


async def test_a_chunked_body_is_counted_as_it_comes(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        wire = await face.wire()
        wire.send(b"POST /v1/http HTTP/1.1\r\nhost: face\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(20):
            wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n")

        assert (413, "invalid_request", "body_too_large") == told_of(await wire.answer())


async def test_the_open_documents_need_nothing(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        assert {"status": "ok", "version": "1.2.3", "vault": "ready"} == (await face.ask("GET", "/v1/health")).value
        assert "3.1.0" == (await face.ask("GET", "/v1/openapi.json")).value["openapi"]
        assert "result" == (await face.ask("GET", "/v1/schemas/result.json")).value["title"]
        assert 404 == (await face.ask("GET", "/v1/schemas/nothing.json")).status


async def test_a_caller_is_told_who_the_kernel_says_it_is(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        before = (await face.ask("GET", "/v1/session")).value
        opened = (await face.ask("POST", "/v1/session", {"label": "nightly"})).value

        assert (os.getpid(), "connection", None) == (before["anchor"]["pid"], before["span"], before["session"])
        assert "nightly" == opened["session"]["label"]
        assert opened["session"]["id"] in {row["id"] for row in face.sessions.listing()}


async def test_a_claimed_ancestor_counts_only_in_the_callers_own_chain(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        stranger = (await face.ask("POST", "/v1/session", {"ancestor_pid": 2})).value
        own = (await face.ask("POST", "/v1/session", {"ancestor_pid": os.getpid()})).value

        assert "connection" == stranger["span"]
        assert (os.getpid(), "connection") == (own["anchor"]["pid"], own["span"])  # a tree is declared, not claimed


async def test_a_locked_vault_opens_no_session_and_shows_no_service(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.vault.lock()
        session = (await face.ask("POST", "/v1/session", {})).value
        services = (await face.ask("GET", "/v1/services")).value

        assert (None, "locked") == (session["session"], session["vault"])
        assert {"vault": "locked", "services": []} == services
        face.vault.unlock()
        assert (await face.ask("GET", "/v1/services")).value["services"]


async def test_an_action_without_a_human_waits_for_its_end(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.may_end.clear()
        wire = await face.wire()
        wire.ask("POST", "/v1/http", {"service": "market", "method": "GET", "path": "/x", "wait_s": 0})
        await face.until(lambda: face.runs.active == 1)
        face.engine.may_end.set()

        assert (200, "policy_denied", "no_rule") == told_of(await wire.answer())


async def test_who_does_not_wait_for_the_human_is_told_that_it_waits_and_polls_the_result(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.asks_a_human = True
        face.engine.may_end.clear()
        pending = await face.act(wait_s=0)
        target = f"/v1/results/{pending.value['correlation_id']}"
        still = await face.ask("GET", target)
        face.engine.may_end.set()
        await face.until(lambda: face.runs.active == 0)

        assert (200, "approval_pending", "waiting") == told_of(pending) == told_of(still)
        assert (200, "policy_denied", "no_rule") == told_of(await face.ask("GET", target + "?wait_s=5"))


async def test_who_polls_what_was_sent_is_told_at_once_that_it_runs(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.sends = True
        face.engine.may_end.clear()
        wire = await face.wire()
        wire.ask("POST", "/v1/http", {"service": "market", "method": "GET", "path": "/x"})
        await face.until(lambda: len(face.engine.actions) == 1)
        target = f"/v1/results/{face.engine.actions[0].correlation_id}"

        assert (200, "outcome_unknown", "still_running") == told_of(await face.ask("GET", target))
        assert (200, "outcome_unknown", "still_running") == told_of(await face.ask("DELETE", target))
        face.engine.may_end.set()
        assert (200, "policy_denied", "no_rule") == told_of(await wire.answer())
        assert (200, "policy_denied", "no_rule") == told_of(await face.ask("DELETE", target))


async def test_what_waits_for_a_human_can_be_withdrawn(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.asks_a_human = True
        face.engine.may_end.clear()
        pending = await face.act(wait_s=0)

        withdrawn = await face.ask("DELETE", f"/v1/results/{pending.value['correlation_id']}")
        assert (200, "policy_denied", "no_rule") == told_of(withdrawn)
        assert {pending.value["correlation_id"]} == face.engine.withdrawn


async def test_withdrawing_waits_for_the_moments_before_a_card(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.may_begin.clear()
        face.engine.asks_a_human = True
        face.engine.may_end.clear()
        acting, withdrawing = await face.wire(), await face.wire()
        acting.ask("POST", "/v1/http", {"service": "market", "method": "GET", "path": "/x"})
        await face.until(lambda: len(face.engine.actions) == 1)
        withdrawing.ask("DELETE", f"/v1/results/{face.engine.actions[0].correlation_id}")
        face.engine.may_begin.set()

        assert 200 == (await withdrawing.answer()).status
        assert (200, "policy_denied", "no_rule") == told_of(await acting.answer())


async def test_one_that_joined_anothers_card_stays_pending_when_withdrawn(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.asks_a_human = True
        face.engine.may_end.clear()
        face.engine.withdraw = lambda correlation_id: False  # type: ignore[method-assign]  # noqa: ARG005
        pending = await face.act(wait_s=0)

        left = await face.ask("DELETE", f"/v1/results/{pending.value['correlation_id']}")
        assert (200, "approval_pending", "waiting") == told_of(left)


async def test_a_recorded_result_is_for_the_anchor_that_asked(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        await face.act()
        anchor_id = face.engine.actions[0].caller.anchor.id
        face.engine.attempts[OP] = attempt(anchor_id, envelope={"category": "success", "code": "ok"})
        mine = await face.ask("GET", f"/v1/results/{OP}")
        face.engine.attempts[OP] = attempt(anchor_id)
        lost = await face.ask("GET", f"/v1/results/{OP}")
        face.engine.attempts[OP] = attempt("an_other", envelope={"category": "success", "code": "ok"})
        theirs = await face.ask("GET", f"/v1/results/{OP}")
        face.vault.lock()
        locked = await face.ask("GET", f"/v1/results/{OP}")

        assert (200, "success", "ok") == told_of(mine)
        assert (200, "outcome_unknown", "unrecorded") == told_of(lost)
        assert (200, "invalid_request", "unknown_correlation_id") == told_of(theirs)
        assert (200, "vault_locked", "locked") == told_of(locked)


async def test_a_run_of_another_process_is_not_to_be_found(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        await face.act()
        run = face.runs.find(face.engine.actions[0].correlation_id, face.engine.actions[0].caller.anchor.id)
        assert run is not None
        run.anchor_id = "an_other"

        for method in ("GET", "DELETE"):
            answer = await face.ask(method, f"/v1/results/{run.correlation_id}")
            assert (200, "invalid_request", "unknown_correlation_id") == told_of(answer)


@pytest.mark.parametrize("wait", ["nan", "-1", "inf", "1e9"])
async def test_odd_waits_are_bounded(tmp_path: Path, wait: str) -> None:
    async with AgentFace(tmp_path) as face:
        await face.act()

        answer = await face.ask("GET", f"/v1/results/{face.engine.actions[0].correlation_id}?wait_s={wait}")
        assert (200, "policy_denied", "no_rule") == told_of(answer)


async def test_a_wait_that_is_no_number_is_said_to_be_none(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        await face.act()
        target = f"/v1/results/{face.engine.actions[0].correlation_id}"

        assert (422, "invalid_request", "schema") == told_of(await face.ask("GET", target + "?wait_s=soon"))


async def test_a_reconcile_is_a_run_like_any_other(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", "/v1/reconcile", {"correlation_id": OP})

        assert (200, "policy_denied", "no_rule") == told_of(answer)
        assert [OP] == face.engine.reconciled


async def test_explaining_sends_nothing(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        request = {"service": "market", "method": "GET", "path": "/x"}
        answer = await face.ask("POST", "/v1/explain", {"action": "http", "request": request})

        assert {"decision": "allow", "agent": "unidentified", "service": "market"} == answer.value
        assert [] == face.engine.actions


async def test_a_fault_of_ours_is_told_and_leaves_the_daemon_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.fault = ValueError("canary-detail")
        broken = await face.act()
        face.engine.sends = True
        sent = await face.act()
        face.engine.fault = None

        assert (503, "broker_unavailable", "internal") == told_of(broken) == told_of(sent)
        assert ["none", "unknown"] == [answer.value["remote_effect"] for answer in (broken, sent)]
        assert b"canary" not in broken.body
        assert (200, "policy_denied", "no_rule") == told_of(await face.act())
    assert "a run failed" in caplog.text


async def test_a_fault_in_a_handler_is_told_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with AgentFace(tmp_path) as face:
        face.policies.policy = None  # type: ignore[assignment]  # what breaks a handler
        answer = await face.ask("GET", "/v1/services")

        assert (503, "broker_unavailable", "internal") == told_of(answer)
    assert "agent request failed" in caplog.text


async def test_who_asks_too_much_at_once_is_told_so_and_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_routes, "RUNS_PER_ANCHOR", 3)
    async with AgentFace(tmp_path) as face:
        face.engine.asks_a_human = True
        face.engine.may_end.clear()
        first = [await face.act(wait_s=0) for _ in range(3)]
        refused = await face.act(wait_s=0)

        assert [(200, "approval_pending", "waiting")] * 3 == [told_of(answer) for answer in first]
        assert (429, "broker_unavailable", "local_limit") == told_of(refused)
        assert 200 == (await face.ask("GET", "/v1/session")).status


async def test_a_stopping_daemon_takes_nothing_new(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.runs.stop_taking()

        assert (503, "broker_unavailable", "shutting_down") == told_of(await face.act())


async def test_a_client_that_hangs_up_loses_the_answer_and_not_the_action(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.engine.may_end.clear()
        wire = await face.wire()
        wire.ask("POST", "/v1/http", {"service": "market", "method": "GET", "path": "/x"})
        await face.until(lambda: len(face.engine.actions) == 1)
        wire.hang_up()
        await asyncio.sleep(0)
        face.engine.may_end.set()
        await face.until(lambda: face.runs.active == 0)

        target = f"/v1/results/{face.engine.actions[0].correlation_id}"
        assert (200, "policy_denied", "no_rule") == told_of(await face.ask("GET", target))


async def test_a_one_shot_call_that_will_not_wait_is_pointed_to_run(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        request = {"service": "market", "method": "GET", "path": "/x", "wait_s": 0}
        answer = await face.ask("POST", "/v1/http", request, headers={"user-agent": "doorward-cli/1"})

        assert (422, "invalid_request", "schema") == told_of(answer)
        assert "doorward run" in getattr(face.engine.actions[0].ask, "message", "")


async def test_a_quarantined_vault_is_told_apart(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        face.vault.state = VaultState.QUARANTINED

        assert "quarantined" == (await face.ask("GET", "/v1/health")).value["vault"]
