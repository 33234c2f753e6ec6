import copy
import json
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import jsonschema_rs
import pytest

from broker.contract import kdf, statements
from broker.contract.reasons import (
    CODES,
    ApprovalRule,
    ApprovalState,
    Category,
    Effect,
    GateState,
    IncompleteCode,
    NextAction,
    RemoteEffect,
    Retry,
    ScrubState,
    Status,
    VaultState,
    WarningCode,
)
from broker.contract.result import (
    MESSAGE_LIMIT,
    NOTHING_SENT,
    Completeness,
    Envelope,
    GateReport,
    HttpAnswer,
    IncompleteReason,
    ScrubReport,
    Warn,
)
from broker.contract.schemas import UnknownSchemaError, names, read, references, schema

OP = "op_0193a1b2c3d400112233445566778899aabbccddeeff"
DIGEST = "sha256:" + "3f9c21ab" * 8
SIGNATURE = "A" * 86 + "=="
NONCE = "n" * 22
NOT_OBJECTS = {"terms"}  # words that the others use


@cache
def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(schema(name), offline=True)


def faults(name: str, value: object) -> list[str]:
    """Where the value breaks the schema, as dotted paths."""
    return sorted({".".join(str(step) for step in fault.instance_path) for fault in validator(name).iter_errors(value)})


def enum_of(name: str, *path: str) -> set[object]:
    part: Any = read(name)
    for step in path:
        part = part[step]
    return set(part["enum"])


def subschemas(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        for key, value in part.items():
            if key not in {"examples", "enum", "const", "default"}:
                yield from subschemas(value)
    elif isinstance(part, list):
        for value in part:
            yield from subschemas(value)


@pytest.mark.parametrize("name", names())
class TestEverySchema:
    def test_it_is_a_schema_that_stands_alone(self, name: str) -> None:
        document = schema(name)

        assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert document["$id"] == f"{name}.json"
        jsonschema_rs.meta.validate(document)
        jsonschema_rs.validator_for(document, offline=True)

    def test_it_says_what_it_is(self, name: str) -> None:
        document = schema(name)

        assert document["title"]
        assert str(document["description"]).endswith(".")

    def test_its_objects_take_no_unknown_members(self, name: str) -> None:
        for part in subschemas(read(name)):
            if part.get("type") == "object" and "properties" in part:
                assert part.get("additionalProperties") is False, part

    def test_its_required_members_are_described(self, name: str) -> None:
        for part in subschemas(read(name)):
            if part.get("additionalProperties") is False and "properties" in part:
                assert set(part.get("required", ())) <= set(part["properties"]), part

    def test_its_examples_fit(self, name: str) -> None:
        for example in json.loads(json.dumps(read(name).get("examples", []))):
            assert faults(name, example) == []

    def test_it_refers_to_schemas_that_there_are(self, name: str) -> None:
        assert set(references(read(name))) <= set(names())


def test_an_unknown_schema_is_refused_by_name() -> None:
    with pytest.raises(UnknownSchemaError, match=r"'\.\./result'; there are .*result"):
        schema("../result")


def test_a_schema_without_references_is_given_as_it_is() -> None:
    assert read("terms") == schema("terms")


def test_bundles_of_bundles_are_whole() -> None:
    definitions: Any = schema("approval-list")["$defs"]

    assert {"approval-list-item.json", "terms.json"} == set(definitions)


def test_a_bundle_keeps_the_definitions_of_its_own() -> None:
    definitions: Any = schema("http-request")["$defs"]

    assert {"seconds", "terms.json"} == set(definitions)


# The closed sets of the code and of the schemas are the same sets.


def test_result_and_code_have_the_same_codes() -> None:
    document: Any = read("result")
    told = {
        part["if"]["properties"]["category"]["const"]: set(part["then"]["properties"]["code"]["enum"])
        for part in document["allOf"]
        if "code" in part["then"].get("properties", {})
    }

    assert {category.value: set(codes) for category, codes in CODES.items()} == told


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        (Status, "result", ("properties", "status")),
        (Category, "result", ("properties", "category")),
        (Retry, "result", ("properties", "retry")),
        (NextAction, "result", ("$defs", "next", "properties", "action")),
        (ScrubState, "result", ("properties", "scrub", "properties", "state")),
        (WarningCode, "result", ("$defs", "warning", "properties", "code")),
        (IncompleteCode, "completeness", ("$defs", "reason", "properties", "code")),
        (Effect, "terms", ("$defs", "effect")),
        (RemoteEffect, "terms", ("$defs", "remote_effect")),
        (ApprovalRule, "terms", ("$defs", "rule_gate")),
        (GateState, "terms", ("$defs", "gate_state")),
        (VaultState, "terms", ("$defs", "vault_state")),
        (ApprovalState, "terms", ("$defs", "approval_state")),
    ],
)
def test_schema_and_code_have_the_same_members(kind: type[Any], name: str, path: tuple[str, ...]) -> None:
    assert {member.value for member in kind} == enum_of(name, *path)


@pytest.mark.parametrize(
    ("fields", "name", "path"),
    [
        (statements.DECISION_FIELDS, "decision", ("$defs", "statement")),
        (statements.STATEMENT_FIELDS, "statement", ("properties", "statement")),
    ],
)
def test_what_is_signed_has_exactly_the_fields_of_the_schema(
    fields: tuple[str, ...], name: str, path: tuple[str, ...]
) -> None:
    part: Any = read(name)
    for step in path:
        part = part[step]

    assert list(fields) == part["required"]
    assert set(fields) == set(part["properties"])


def test_refusals_before_the_first_byte_are_the_same_in_code_and_schema() -> None:
    document: Any = read("result")
    told = [
        set(part["if"]["properties"]["category"]["enum"])
        for part in document["allOf"]
        if "enum" in part["if"]["properties"].get("category", {})
    ]

    assert [{category.value for category in NOTHING_SENT}] == told


def test_a_message_is_as_long_as_the_code_allows() -> None:
    document: Any = read("result")

    assert document["properties"]["message"]["maxLength"] == MESSAGE_LIMIT


def test_key_derivation_has_the_same_bounds_in_code_and_schema() -> None:
    part: Any = read("status")
    properties = part["$defs"]["kdf"]["properties"]

    assert (kdf.MIN_MEMORY_KIB, kdf.MAX_MEMORY_KIB) == (
        properties["memory_kib"]["minimum"],
        properties["memory_kib"]["maximum"],
    )
    assert (kdf.MAX_ITERATIONS, kdf.MAX_LANES) == (properties["iterations"]["maximum"], properties["lanes"]["maximum"])
    assert kdf.ALGORITHM == properties["algorithm"]["const"]


# Results.


def envelope(category: Category, code: str, retry: Retry = Retry.NEVER, effect: Effect | None = None) -> Envelope:
    unknown = category is Category.RECONCILE_REQUIRED
    return Envelope(
        category=category,
        code=code,
        retry=Retry.AFTER_DELAY if category is Category.APPROVAL_PENDING else retry,
        remote_effect=RemoteEffect.UNKNOWN if unknown else RemoteEffect.NONE,
        correlation_id=OP,
        message="A sentence.",
        effect=Effect.WRITE if unknown else effect,
        retry_after_s=5,
    )


@pytest.mark.parametrize(
    ("category", "code"), [(category, code) for category in Category for code in sorted(CODES[category])]
)
def test_an_envelope_of_every_category_and_code_fits(category: Category, code: str) -> None:
    for retry, effect in product(Retry, [None, *Effect]):
        assert faults("result", envelope(category, code, retry, effect).to_json()) == []


@pytest.mark.parametrize("category", list(Category))
def test_a_code_of_another_category_breaks_the_schema(category: Category) -> None:
    document = dict(envelope(category, min(CODES[category])).to_json())

    for code in sorted(set().union(*CODES.values()) - CODES[category]):
        assert faults("result", {**document, "code": code}) == ["code"]


FULL = Envelope(
    category=Category.PARTIAL,
    code="incomplete",
    retry=Retry.BOUNDED,
    remote_effect=RemoteEffect.NONE,
    correlation_id=OP,
    message="There is more.",
    operation="github.issues.list",
    effect=Effect.READ,
    retry_after_s=None,
    request_id="r1",
    previous_correlation_id=OP,
    http=HttpAnswer(status=200, headers={"etag": "x"}, media_type="application/json", body_json=None, has_json=True, final_url="https://a/"),
    ssh={"exit_status": 0, "exit_signal": None, "stdout": "", "stdout_bytes": 0, "stderr_bytes": 0, "marker": None},
    completeness=Completeness(
        complete=False,
        reasons=(
            IncompleteReason(
                code=IncompleteCode.MORE_PAGES_AVAILABLE, message="more", by="provider", limit=30, unit="items"
            ),
        ),
        next_cursor="c2",
        continuation={"kind": "next_cursor", "cursor": "c2"},
        defaults=("open issues",),
        seconds=0.25,
    ),
    warnings=(
        Warn(code=WarningCode.PARTIAL_FIELD_SET, message="less", fields=({"name": "email", "why": "no_access"},)),
    ),
    evidence={
        "id": "ev_1",
        "operation": "issues.list",
        "args": {"owner": "acme"},
        "count": 3,
        "complete": True,
        "collected_at": "2026-11-29T21:00:00Z",
        "expires_at": "2026-11-29T21:15:00.250Z",
    },
    scrub=ScrubReport(state=ScrubState.NOT_POSSIBLE, reason="opaque body"),
    gate=GateReport(session=GateState.GRANTED, rules=("github-read",), policy=DIGEST),
    diagnostics_ref="diag_0193",
)  # fmt: skip


def full() -> Any:
    return json.loads(json.dumps(FULL.to_json()))


def members(part: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all objects in a document."""
    if isinstance(part, dict):
        yield path
        for key, value in part.items():
            yield from members(value, (*path, key))
    elif isinstance(part, list):
        for number, value in enumerate(part):
            yield from members(value, (*path, number))


def inside(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def test_an_envelope_with_every_part_fits() -> None:
    assert faults("result", full()) == []


@pytest.mark.parametrize("path", sorted(members(full()), key=str))
def test_unknown_members_are_refused_wherever_they_stand(path: tuple[str | int, ...]) -> None:
    if path in {("http", "headers"), ("evidence", "args")}:  # names there are others' to choose
        return
    document = full()
    inside(document, path)["surprise"] = 1

    assert faults("result", document) != []


@pytest.mark.parametrize("path", sorted(members(full()), key=str))
def test_members_may_not_be_left_out(path: tuple[str | int, ...]) -> None:
    optional = {"body_json", "stdout", "cursor", "fields", "etag", "owner"}
    for name in set(inside(full(), path)) - optional:
        document = full()
        del inside(document, path)[name]

        assert faults("result", document) != [], name


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"ok": True}, ["ok"]),
        ({"status": "success"}, ["status"]),
        ({"retry": "never"}, ["next.action"]),
        ({"remote_effect": "applied"}, ["remote_effect"]),
        ({"correlation_id": "op_1"}, ["correlation_id"]),
        ({"message": ""}, ["message"]),
        ({"message": "x" * 301}, ["message"]),
        ({"category": "surprise"}, ["category", "next.action", "status"]),
        ({"next": {"action": "continue", "command": None, "after_s": 1}}, ["next.after_s"]),
        ({"diagnostics_ref": "/var/log"}, ["diagnostics_ref"]),
        (
            {"retry": "after_delay", "next": {"action": "wait", "after_s": None, "command": None}},
            ["next.after_s", "retry_after_s"],
        ),
        (
            {"gate": {"vault": "ready", "session": "yes", "call": "no", "rules": [], "policy": None}},
            ["gate.call", "gate.session"],
        ),
    ],
)  # fmt: skip
def test_an_envelope_that_contradicts_itself_breaks_the_schema(change: dict[str, object], broken: list[str]) -> None:
    assert broken == faults("result", {**full(), **change})


def test_success_over_an_incomplete_answer_breaks_the_schema() -> None:
    document = {
        **full(),
        "ok": True,
        "status": "success",
        "category": "success",
        "code": "ok",
        "retry": "never",
        "next": {"action": "none", "command": None},
    }

    assert faults("result", document) == ["completeness.complete"]


def test_complete_and_incomplete_at_once_break_the_schema() -> None:
    document = full()["completeness"]

    assert faults("completeness", document) == []
    assert faults("completeness", {**document, "complete": True}) == ["incomplete_reasons"]
    assert faults("completeness", {**document, "incomplete_reasons": []}) == ["incomplete_reasons"]


# Requests.

DECLARED: dict[str, object] = {"service": "github", "operation": "issues.list", "args": {"owner": "acme"}}
BY_PATH: dict[str, object] = {"service": "github", "method": "GET", "path": "/user"}
BY_URL: dict[str, object] = {"method": "GET", "url": "https://api.github.com/user?x=1"}
FORMS = [DECLARED, BY_PATH, BY_URL]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_request_fits(form: dict[str, object]) -> None:
    common = {
        "request_id": "r1",
        "reason": "because",
        "deadline": {"connect_s": 1, "write_s": 2, "first_byte_s": 2.5, "total_s": 60},
        "evidence": ["ev_1"],
        "wait_s": 0,
    }

    assert faults("http-request", form) == []
    assert faults("http-request", {**form, **common}) == []


@pytest.mark.parametrize(
    ("form", "broken"),
    [
        ({}, [""]),
        ({"service": "github"}, [""]),
        ({"operation": "issues.list"}, [""]),
        ({"service": "github", "path": "/user"}, [""]),
        ({"service": "github", "method": "GET"}, [""]),
        ({"url": "https://a/"}, [""]),
        ({**DECLARED, **BY_PATH}, ["method", "path"]),
        ({**DECLARED, **BY_URL}, ["method", "url"]),
        ({**BY_PATH, **BY_URL}, ["path", "service"]),
        ({**DECLARED, "body": {}}, ["body"]),
        ({**DECLARED, "body_b64": ""}, ["body_b64"]),
        ({**DECLARED, "headers": {}}, ["headers"]),
        ({**DECLARED, "query": {}}, ["query"]),
        ({**BY_PATH, "args": {}}, ["args"]),
        ({**BY_URL, "query": {}}, ["query"]),
        ({**BY_PATH, "body": "x", "body_b64": "eA=="}, ["body_b64"]),
    ],
)
def test_forms_of_a_request_do_not_mix(form: dict[str, object], broken: list[str]) -> None:
    assert broken == faults("http-request", form)


@pytest.mark.parametrize(
    ("member", "broken"),
    [
        ({"surprise": 1}, [""]),
        ({"credential": "github"}, [""]),
        ({"method": "get"}, ["method"]),
        ({"method": "GET\r\n"}, ["method"]),
        ({"path": "user"}, ["path"]),
        ({"path": "/" + "a" * 8192}, ["path"]),
        ({"service": "../x"}, ["service"]),
        ({"query": {"a": None}}, ["query.a"]),
        ({"query": {"a": [1]}}, ["query.a.0"]),
        ({"query": {"a": {}}}, ["query.a"]),
        ({"headers": {"a": 1}}, ["headers.a"]),
        ({"headers": {"a": "x\r\ny"}}, ["headers.a"]),
        ({"headers": {"a": "x\0"}}, ["headers.a"]),
        ({"headers": {"a b": "x"}}, ["headers"]),
        ({"headers": {"": "x"}}, ["headers"]),
        ({"body": 1}, ["body"]),
        ({"body": None}, ["body"]),
        ({"body_b64": "eA"}, ["body_b64"]),
        ({"body_b64": "e_-="}, ["body_b64"]),
        ({"request_id": ""}, ["request_id"]),
        ({"request_id": "r" * 129}, ["request_id"]),
        ({"request_id": "r\n"}, ["request_id"]),
        ({"request_id": 7}, ["request_id"]),
        ({"reason": "x" * 501}, ["reason"]),
        ({"deadline": {"total_s": 0}}, ["deadline.total_s"]),
        ({"deadline": {"total_s": 3601}}, ["deadline.total_s"]),
        ({"deadline": {"idle_s": 1}}, ["deadline"]),
        ({"deadline": 5}, ["deadline"]),
        ({"evidence": "ev_1"}, ["evidence"]),
        ({"evidence": ["ev_1", "ev_1"]}, ["evidence"]),
        ({"evidence": ["a b"]}, ["evidence.0"]),
        ({"wait_s": -1}, ["wait_s"]),
        ({"wait_s": 601}, ["wait_s"]),
        ({"wait_s": "5"}, ["wait_s"]),
        ({"query": 1, "headers": 1, "wait_s": None}, ["headers", "query", "wait_s"]),
    ],
)
def test_every_fault_of_a_request_is_found_at_its_place(member: dict[str, object], broken: list[str]) -> None:
    assert broken == faults("http-request", {**BY_PATH, **member})


@pytest.mark.parametrize("body", ["", "text", {}, {"a": [None]}, [], [1]])
def test_a_body_is_text_or_a_json_object_or_list(body: object) -> None:
    assert faults("http-request", {**BY_PATH, "method": "POST", "body": body}) == []


def test_a_session_request_names_a_label_a_tree_or_an_ancestor() -> None:
    assert faults("session-request", {}) == []
    assert faults("session-request", {"label": "x", "tree": True}) == []
    assert faults("session-request", {"ancestor_pid": 1}) == ["ancestor_pid"]
    assert faults("session-request", {"ancestor_pid": 7, "tree": True}) == ["ancestor_pid"]
    assert faults("session-request", {"label": "", "pid": 7}) == ["", "label"]


def test_an_explained_request_is_checked_like_a_real_one() -> None:
    assert faults("explain-request", {"action": "http", "request": BY_PATH}) == []
    assert faults("explain-request", {"action": "http", "request": {**BY_PATH, "path": "x"}}) == ["request.path"]
    assert faults("explain-request", {"action": "ftp", "request": BY_PATH}) == ["action"]
    assert faults("explain-request", {"action": "ssh", "request": BY_PATH}) != []
    assert faults("explain-request", {"action": "ssh", "request": {"host": "web-1", "argv": ["uptime"]}}) == []
    assert faults("control-explain-request", {"request": {}, "agent": ""}) == ["agent", "request"]


# Signed verbs and decisions.


def signed(verb: str, params: object, **more: object) -> dict[str, object]:
    statement = {"verb": verb, "params": params, "nonce": NONCE, "log_id": "l1", "vault_term": 1}
    return {"statement": statement, "signature": SIGNATURE, **more}


BEARER = {"name": "github", "kind": "bearer", "origins": ["https://api.github.com"]}
OWN_HEADER = {**BEARER, "kind": "header", "header": "X-Api-Key", "template": "key {value}"}
TOKEN = {"token": "canary-token"}


@pytest.mark.parametrize(
    "body",
    [
        signed("credential.add", BEARER, secret=TOKEN),
        signed("credential.add", {**BEARER, "kind": "basic"}, secret={"username": "a", "password": "canary-pw"}),
        signed("credential.add", OWN_HEADER, secret={"value": "canary-value"}),
        signed("credential.rotate", {"name": "github"}, secret=TOKEN),
        signed("credential.rebind", {"name": "github", "origins": ["https://a.example"]}, secret=TOKEN),
        signed("credential.remove", {"name": "github"}),
        signed("operation.settle", {"correlation_id": OP, "as": "not_applied", "reason": "looked"}),
        signed("session.unmute", {"id": "s_1"}),
        signed("thaw", {}),
    ],
)
def test_every_signed_verb_fits(body: dict[str, object]) -> None:
    assert faults("statement", body) == []


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        (signed("policy.trust", {}), ["statement.verb"]),
        (signed("credential.add", BEARER), [""]),
        (signed("credential.rebind", {"name": "github", "origins": []}, secret=TOKEN), ["statement.params.origins"]),
        (signed("credential.add", {**BEARER, "header": "x"}, secret=TOKEN), ["statement.params.header"]),
        (signed("credential.add", {**BEARER, "kind": "header"}, secret={"value": "v"}), ["statement.params"]),
        (signed("credential.add", {**BEARER, "name": "Git Hub"}, secret=TOKEN), ["statement.params.name"]),
        (signed("credential.add", {**BEARER, "token": "t"}, secret=TOKEN), ["statement.params"]),
        (signed("credential.remove", {"name": "github"}, secret=TOKEN), ["secret"]),
        (signed("credential.rotate", {"name": "g"}, secret={}), ["secret"]),
        (signed("credential.rotate", {"name": "g"}, secret={"token": ""}), ["secret.token"]),
        (signed("credential.rotate", {"name": "g"}, secret={"username": "u"}), ["secret"]),
        (signed("credential.rotate", {"name": "g"}, secret={"token": "t", "value": "v"}), ["secret.value"]),
        (signed("operation.settle", {"correlation_id": OP, "as": "maybe", "reason": ""}), ["statement.params.as"]),
        (signed("thaw", {"all": True}), ["statement.params"]),
        ({**signed("thaw", {}), "signature": "QUJD"}, ["signature"]),
        ({"statement": {"verb": "thaw"}, "signature": SIGNATURE}, ["statement"]),
        ({"signature": SIGNATURE}, [""]),
    ],
)
def test_a_signed_verb_takes_its_own_parameters_alone(body: dict[str, object], broken: list[str]) -> None:
    assert broken == faults("statement", body)


def approving(scope: str = "once", uses: int | None = None, age_s: int | None = None) -> Any:
    statement = {
        "approval_id": "ap_0123456789ab",
        "request_digest": DIGEST,
        "card_digest": DIGEST,
        "decision": "approve",
        "choice": None,
        "scope": scope,
        "max_uses": uses,
        "max_age_s": age_s,
        "reason": None,
        "policy_digest": DIGEST,
        "log_id": "l1",
        "vault_term": 1,
        "nonce": NONCE,
        "decided_at_ms": 1,
    }
    return {
        "decision": "approve",
        "scope": scope,
        "choice": None,
        "statement": statement,
        "signature": SIGNATURE,
    }


def test_a_yes_once_or_for_the_session_fits() -> None:
    assert faults("decision", approving()) == []
    assert faults("decision", {**approving("session", 200, 3600), "confirm": "1290"}) == []


def test_a_no_needs_neither_signature_nor_scope() -> None:
    assert faults("decision", {"decision": "deny"}) == []
    assert faults("decision", {"decision": "deny", "reason": "no", "end_session": True, "choice": None}) == []


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        ({}, [""]),
        ({"decision": "maybe"}, ["decision"]),
        ({"decision": "approve"}, [""]),
        ({"decision": "approve", "scope": "once"}, [""]),
        ({**approving(), "end_session": True}, ["end_session"]),
        ({**approving(), "choice": "read_on"}, ["choice"]),
        (approving("once", 200, 3600), ["statement.max_age_s", "statement.max_uses"]),
        (approving("session"), ["statement.max_age_s", "statement.max_uses"]),
        (approving("forever"), ["scope", "statement.max_age_s", "statement.max_uses", "statement.scope"]),
        ({**approving(), "decision": "deny"}, ["signature", "statement"]),
    ],
)
def test_a_yes_is_always_signed_and_bounded(body: dict[str, object], broken: list[str]) -> None:
    assert broken == faults("decision", body)


def test_a_signed_statement_has_all_its_fields_and_no_other() -> None:
    for name in statements.DECISION_FIELDS:
        body = copy.deepcopy(approving())
        del body["statement"][name]
        assert faults("decision", body) == ["statement"], name
    body = copy.deepcopy(approving())
    body["statement"]["surprise"] = 1
    assert faults("decision", body) == ["statement"]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("unlock", {"kek_b64": "A" * 43 + "="}, {"kek_b64": "A" * 44}),
        ("unlock", {"kek_b64": "A" * 43 + "="}, {"passphrase": "canary-pass"}),
        ("control-session", {"nonce": NONCE, "signature": SIGNATURE}, {"nonce": NONCE}),
        (
            "policy-trust",
            {"policy_digest": DIGEST, "counter": 1, "signature": SIGNATURE},
            {"policy_digest": DIGEST, "counter": 0, "signature": SIGNATURE},
        ),
        ("nothing", {}, {"force": True}),
        ("reconcile-request", {"correlation_id": OP}, {"correlation_id": OP.upper()}),
        (
            "health",
            {"status": "ok", "version": "1", "vault": "ready"},
            {"status": "ok", "version": "1", "vault": "open"},
        ),
        ("event", {"id": "ap_1", "state": "pending"}, {"id": "ap_1"}),
        ("control-error", {"error": {"code": "limit", "message": "m"}}, {"error": {"code": "oops", "message": "m"}}),
    ],
)  # fmt: skip
def test_small_bodies_take_what_they_say_and_nothing_else(
    name: str, good: dict[str, object], bad: dict[str, object]
) -> None:
    assert faults(name, good) == []
    assert faults(name, bad) != []
