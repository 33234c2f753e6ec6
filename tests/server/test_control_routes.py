"""control.sock as whoever opens it meets it: what each route needs, what is refused and told, what is done whole."""

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.core.audit_query import AuditQuery
from broker.server.admission import Need
from broker.server.control_routes import BODY_MAX, Route
from broker.server.faults import ControlError
from tests.fakes.faces import ControlFace, Told, fresh_nonce
from tests.fakes.vaults import CHEAP_KDF

ID = "ap_0123456789ab"
OP = "op_" + "0123456789ab" * 3 + "01234567"
SIGNED: dict[str, tuple[str, str, dict[str, object]]] = {
    "thaw": ("POST", "/v1/thaw", {}),
    "session.unmute": ("POST", "/v1/sessions/se_0123456789ab/unmute", {"id": "se_0123456789ab"}),
    "credential.add": (
        "POST",
        "/v1/credentials",
        {"name": "one", "kind": "bearer", "origins": ["https://one.example"]},
    ),
    "credential.rotate": ("PUT", "/v1/credentials/one", {"name": "one"}),
    "credential.rebind": ("PUT", "/v1/credentials/one", {"name": "one", "origins": ["https://one.example"]}),
    "credential.remove": ("DELETE", "/v1/credentials/one", {"name": "one"}),
    "listener.open": ("POST", "/v1/listeners", {"name": "build-box"}),
    "host_key.forget": ("POST", "/v1/host-keys/forget", {"address": "10.0.4.13", "port": 22}),
    "approver.enrol": ("POST", "/v1/approvers", {"public_key": "0" * 64}),
    "approver.remove": ("DELETE", "/v1/approvers/" + "0" * 16, {"key_id": "0" * 16}),
    "vault.method.add": ("POST", "/v1/vault/methods", {"method": "passphrase+keyring"}),
    "vault.method.remove": ("POST", "/v1/vault/methods/remove", {"method": "passphrase"}),
    "vault.passphrase": ("POST", "/v1/vault/passphrase", {"kdf": CHEAP_KDF.to_json()}),
    "operation.settle": (
        "POST",
        "/v1/operations/op_" + "0" * 44 + "/settle",
        {"correlation_id": "op_" + "0" * 44, "as": "applied", "reason": "looked"},
    ),
}
TOKEN = {"token": "canary-token"}
KEK = {"kek_b64": base64.b64encode(bytes(32)).decode()}
WITH_SECRET: dict[str, dict[str, str]] = {
    "credential.add": TOKEN,
    "credential.rotate": TOKEN,
    "credential.rebind": TOKEN,
    "vault.method.add": KEK,
    "vault.passphrase": {**KEK, "old_kek_b64": KEK["kek_b64"]},
}


async def routes_of(face: ControlFace) -> list[Route]:
    assert face.api is not None
    return face.api.table()


async def send(face: ControlFace, verb: str, statement: dict[str, Any], **more: Any) -> Told:
    """A signed verb, with its secret where it has one."""
    method, path, _ = SIGNED[verb]
    secret: dict[str, object] = {"secret": WITH_SECRET[verb]} if verb in WITH_SECRET else {}
    return await face.ask(method, path, {**face.signed(statement), **secret, **more})


async def test_a_signed_verb_is_done(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        for verb, (_, _, params) in SIGNED.items():
            told = await send(face, verb, await face.statement(verb, params))
            assert 200 == told.status, told.value

        assert [
            "thaw",
            "unmute",
            "add_credential",
            "rotate_credential",
            "rebind_credential",
            "remove_credential",
            "open_listener",
            "forget_host_key",
            "enrol_approver",
            "remove_approver",
            "add_method",
            "remove_method",
            "change_passphrase",
            "settle",
        ] == face.office.names()
        signed = face.office.done[2][1][0]
        assert ("credential.add", face.key_id) == (signed.verb, signed.key_id)
        assert {"token": "canary-token"} == signed.secret


async def test_every_verb_that_widens_needs_a_statement_of_its_own(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        signed = {(route.method, route.path) for route in await routes_of(face) if route.need is Need.SIGNATURE}

        assert 13 == len(signed)  # rotate and rebind share one
        for verb, (method, path, params) in SIGNED.items():
            statement = await face.statement(verb, params)
            assert (422, "schema") == codes(await face.ask(method, path, {"statement": statement}))
            assert (422, "schema") == codes(await face.ask(method, path, {}))
        assert [] == face.office.done


async def test_a_statement_counts_for_nothing_but_what_it_says(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        other = Ed25519PrivateKey.generate()
        for verb, (_, _, params) in SIGNED.items():
            for change, code in (
                ({"log_id": "another-log"}, "changed"),
                ({"vault_term": 8}, "changed"),
                ({"nonce": fresh_nonce()}, "stale_nonce"),
            ):
                told = await send(face, verb, await face.statement(verb, params, **change))
                assert code == told.code, (verb, change)
            statement = await face.statement(verb, params)
            foreign = face.signed(statement, other)["signature"]
            assert (403, "bad_signature") == codes(await send(face, verb, statement, signature=foreign))
        assert [] == face.office.done


async def test_a_statement_of_another_verb_is_refused_on_every_route(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        for verb, (method, path, _) in SIGNED.items():
            for said, (said_method, said_path, params) in SIGNED.items():
                if (method, path) == (said_method, said_path):
                    continue
                secret = {"secret": WITH_SECRET[said]} if said in WITH_SECRET else {}
                body = {**face.signed(await face.statement(said, params)), **secret}
                assert (409, "changed") == codes(await face.ask(method, path, body)), (verb, said)
        assert [] == face.office.done


async def test_a_statement_about_another_object_than_the_path_names_is_refused(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        for verb, params in (
            ("session.unmute", {"id": "se_000000000000"}),
            ("credential.rotate", {"name": "two"}),
            ("credential.rebind", {"name": "two", "origins": ["https://one.example"]}),
            ("credential.remove", {"name": "two"}),
            ("operation.settle", {"correlation_id": "op_" + "1" * 44, "as": "applied", "reason": "looked"}),
        ):
            assert (409, "changed") == codes(await send(face, verb, await face.statement(verb, params)))
        assert [] == face.office.done


async def test_what_was_signed_may_not_be_changed_afterwards(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        statement = await face.statement("credential.add", SIGNED["credential.add"][2])
        signature = face.signed(statement)["signature"]
        changed = {**statement, "params": {**SIGNED["credential.add"][2], "origins": ["https://evil.example"]}}

        assert (403, "bad_signature") == codes(await send(face, "credential.add", changed, signature=signature))
        assert [] == face.office.done


async def test_a_nonce_is_good_once(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        statement = await face.statement("thaw", {})

        assert 200 == (await send(face, "thaw", statement)).status
        assert (409, "stale_nonce") == codes(await send(face, "thaw", statement))
        assert ["thaw"] == face.office.names()


async def test_a_nonce_ages(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        statement = await face.statement("thaw", {})
        face.clock.advance(seconds=60)

        assert (409, "stale_nonce") == codes(await send(face, "thaw", statement))


async def test_the_nonce_of_another_process_is_worth_nothing(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        theirs = face.challenges.issue((1, 2, 3))

        told = await send(face, "thaw", await face.statement("thaw", {}, nonce=theirs))
        assert (409, "stale_nonce") == codes(told)
        assert face.challenges.use(theirs, (1, 2, 3)), "and it is still theirs"


@pytest.mark.parametrize(
    ("changed", "code"),
    [({}, None), ({"pid": 1}, "bad_signature"), ({"log_id": "another"}, "bad_signature")],
)
async def test_a_control_session_is_opened_by_answering_for_this_very_process(
    tmp_path: Path, changed: dict[str, Any], code: str | None
) -> None:
    async with ControlFace(tmp_path) as face:
        told = await face.open_session(**{"pid": os.getpid(), **changed})

        assert code is None if told.status == 200 else code == told.code
        assert (1 if code is None else 0) == len(face.challenges)
        assert (code is None) is (face.office.names() == ["session_opened"])


async def test_a_session_that_a_lock_overtook_is_not_opened(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        face.office.moves_term = True

        assert (409, "vault_locked") == codes(await face.open_session(pid=os.getpid()))
        assert 0 == len(face.challenges)


async def test_what_is_sealed_needs_a_session_and_gets_it(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        sealed = [route for route in await routes_of(face) if route.need is Need.SESSION]
        bodies = {"/v1/explain": {"request": {"service": "market", "method": "GET", "path": "/x"}}}

        def path_of(route: Route) -> str:
            return route.path.replace("{id}", OP if route.path.startswith("/v1/operations/") else ID)

        for route in sealed:
            told = await face.ask(route.method, path_of(route), bodies.get(route.path))
            assert (401, "control_session_required") == codes(told), route.path
        assert [] == face.office.done
        await face.open_session(pid=os.getpid())
        for route in sealed:
            told = await face.ask(route.method, path_of(route), bodies.get(route.path))
            assert 200 == told.status, route.path
        assert len(sealed) == len(face.office.done) - 1


async def test_a_reconcile_of_what_is_no_id_is_answered_without_it(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        await face.open_session(pid=os.getpid())
        for name in ("op_1", "%C3%8A%E2%80%AE", OP + "0", OP.upper()):
            told = await face.ask("POST", f"/v1/operations/{name}/reconcile")
            assert (404, "unknown") == codes(told)
        assert [] == face.office.names()[1:]


async def test_an_approval_needs_a_session_and_a_denial_does_not(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        path = f"/v1/approvals/{ID}/decision"
        statement = dict.fromkeys(
            ("approval_id", "request_digest", "card_digest", "policy_digest", "log_id", "nonce"), ""
        ) | {
            "approval_id": ID,
            "request_digest": "sha256:" + "0" * 64,
            "card_digest": "sha256:" + "0" * 64,
            "policy_digest": "sha256:" + "0" * 64,
            "log_id": "log",
            "nonce": "0" * 32,
            "decision": "approve",
            "choice": None,
            "scope": "once",
            "max_uses": None,
            "max_age_s": None,
            "reason": None,
            "vault_term": 1,
            "decided_at_ms": 1_763_130_000_000,
        }
        yes = {"decision": "approve", "scope": "once", "statement": statement, "signature": "A" * 86 + "=="}

        assert (401, "control_session_required") == codes(await face.ask("POST", path, yes))
        assert 200 == (await face.ask("POST", path, {"decision": "deny"})).status
        await face.open_session(pid=os.getpid())
        assert 200 == (await face.ask("POST", path, yes)).status
        assert ["decide", "session_opened", "decide"] == face.office.names()


async def test_every_refusal_that_tells_who_tried_what_is_on_record(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        await face.ask("GET", "/v1/credentials")
        await send(face, "thaw", await face.statement("thaw", {}, vault_term=1))
        await send(face, "thaw", await face.statement("thaw", {}, nonce=fresh_nonce()))
        await send(face, "thaw", await face.statement("thaw", {}), signature="A" * 86 + "==")
        await face.open_session(pid=1)

        assert [
            ("control_session_required", "/v1/credentials"),
            ("changed", "/v1/thaw"),
            ("stale_nonce", "/v1/thaw"),
            ("bad_signature", "/v1/thaw"),
            ("bad_signature", "/v1/control-session"),
        ] == [(refused.code, refused.route) for refused in face.office.refusals]
        assert {os.getpid()} == {refused.pid for refused in face.office.refusals}


async def test_what_the_office_has_recorded_is_not_recorded_twice(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:

        async def decide(*_: object) -> None:
            raise ControlError("bad_signature", "No.", recorded=True)

        face.office.decide = decide
        told = await face.ask("POST", f"/v1/approvals/{ID}/decision", {"decision": "deny"})

        assert (403, "bad_signature") == codes(told)
        assert [] == face.office.refusals


async def test_what_was_begun_is_done_whole_though_the_client_hangs_up(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        wire = await face.wire()
        wire.ask("POST", "/v1/lock", {})
        await face.until(lambda: face.office.names() == ["lock_begun"])
        wire.hang_up()
        await face.until(lambda: len(face.connections) == 0 or wire.writer.transport.is_closing())
        await asyncio.sleep(0.01)  # time for a handler to be cancelled
        face.office.may_end.set()

        await face.until(lambda: face.office.names() == ["lock_begun", "lock"])


async def test_a_fault_of_the_office_is_told_and_ends_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ControlFace(tmp_path) as face:

        async def fail() -> None:
            raise ValueError("canary-detail")

        face.office.freeze = fail
        face.office.grants = fail

        for method, path in (("POST", "/v1/freeze"), ("GET", "/v1/grants")):
            told = await face.ask(method, path)
            assert (500, "internal") == codes(told)
            assert b"canary" not in told.body
        assert 200 == (await face.ask("GET", "/v1/status")).status
    assert "control request failed" in caplog.text


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"{", 400, "unreadable"),
        (b'{"kek_b64":"a","kek_b64":"b"}', 400, "unreadable"),
        (b'{"kek_b64":' + b"[" * 1000, 400, "unreadable"),
        (b'{"kek_b64":1}', 422, "schema"),
        (b" " * (BODY_MAX + 1), 413, "limit"),
        (b" " * ((1 << 20) + 1), 413, "limit"),
    ],
)
async def test_bodies_are_held_to_their_shape(tmp_path: Path, raw: bytes, status: int, code: str) -> None:
    async with ControlFace(tmp_path) as face:
        told = await face.ask("POST", "/v1/unlock", raw=raw)

        assert (status, code) == codes(told)
        assert [] == face.office.done


async def test_the_faults_of_a_body_are_named_by_path(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        told = await face.ask("POST", "/v1/unlock", {"kek_b64": "canary-kek"})

        assert ["kek_b64"] == [fault["path"] for fault in told.value["error"]["faults"]]
        assert b"canary" not in told.body


async def test_a_signature_that_is_not_base64_breaks_the_shape(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        statement = await face.statement("thaw", {})

        assert (422, "schema") == codes(await send(face, "thaw", statement, signature="A" * 85 + "==="))


async def test_a_body_that_never_ends_is_not_waited_for(tmp_path: Path) -> None:
    async with ControlFace(tmp_path, read_s=0.05) as face:
        wire = await face.wire()
        wire.send(b'POST /v1/unlock HTTP/1.1\r\nhost: face\r\ncontent-length: 100\r\n\r\n{"kek')

        assert (400, "unreadable") == codes(await wire.answer())


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/lock"), ("GET", "/v2"), ("DELETE", "/v1/status")])
async def test_there_is_no_other_route(tmp_path: Path, method: str, path: str) -> None:
    async with ControlFace(tmp_path) as face:
        assert (404, "unknown") == codes(await face.ask(method, path))


async def test_questions_to_the_audit_log_are_bounded(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        await face.open_session(pid=os.getpid())
        for path in ("events", "activity", "sessions"):
            told = await face.ask("GET", f"/v1/audit/{path}?after_seq=7&limit=99999999999&event=x")
            assert 200 == told.status
            assert AuditQuery(after_seq=7, limit=1000, event="x") == face.office.done[-1][1][0]
        for query in ("limit=-1", "limit=0", "after_seq=x", "limit=1&limit=2", "after_seq=1&before_seq=2", "odd=1"):
            assert (422, "schema") == codes(await face.ask("GET", f"/v1/audit/events?{query}"))


async def test_the_feed_resumes_and_tells_who_was_away_too_long(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        face.hub.publish("status", {})
        face.hub.publish("approval", {"id": ID, "state": "pending"})
        for last, expected in (("1", b"event: approval"), ("9", b"event: reset"), ("9" * 5000, b"event: reset")):
            wire = await face.wire()
            wire.send(f"GET /v1/events HTTP/1.1\r\nhost: face\r\nlast-event-id: {last}\r\n\r\n".encode())
            async with asyncio.timeout(60):
                assert expected in await wire.reader.readuntil(b"event: approval" if last == "1" else b"reset")
            wire.hang_up()


async def test_the_feed_takes_so_many_listeners_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.server.events.LISTENERS_MAX", 1)
    async with ControlFace(tmp_path) as face:
        wire = await face.wire()
        wire.ask("GET", "/v1/events")
        await face.until(lambda: face.hub.listeners == 1)

        assert (429, "limit") == codes(await face.ask("GET", "/v1/events"))
        wire.hang_up()
        await face.until(lambda: face.hub.listeners == 0)


async def test_revoking_may_end_the_process_too(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        await face.ask("DELETE", "/v1/sessions/se_1")
        await face.ask("DELETE", "/v1/sessions/se_1?kill=1")

        assert [("se_1", False), ("se_1", True)] == [given for _, given in face.office.done]


async def test_trust_hands_on_what_was_signed(tmp_path: Path) -> None:
    async with ControlFace(tmp_path) as face:
        body = {"policy_digest": "sha256:" + "0" * 64, "counter": 3, "signature": "A" * 86 + "=="}
        await face.ask("POST", "/v1/policy/trust", body)

        assert ("sha256:" + "0" * 64, 3, bytes(64)) == face.office.done[0][1]


def codes(told: Told) -> tuple[int, str]:
    return told.status, told.code
