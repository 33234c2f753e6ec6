from collections.abc import Callable, Mapping

import pytest

from broker.contract.statements import (
    CONTROL_FIELDS,
    DECISION_FIELDS,
    POLICY_FIELDS,
    STATEMENT_FIELDS,
    control_bytes,
    decision_bytes,
    policy_bytes,
    statement_bytes,
)
from broker.contract.wire import JsonValue, WireError

Signer = Callable[[Mapping[str, JsonValue]], bytes]
SIGNERS: list[tuple[Signer, tuple[str, ...], str]] = [
    (decision_bytes, DECISION_FIELDS, "doorward/decision/v1"),
    (statement_bytes, STATEMENT_FIELDS, "doorward/statement/v1"),
    (control_bytes, CONTROL_FIELDS, "doorward/control/v1"),
    (policy_bytes, POLICY_FIELDS, "doorward/policy/v1"),
]


def test_the_bytes_are_the_domain_a_nul_and_canonical_json() -> None:
    assert b'doorward/control/v1\x00{"log_id":"l1","nonce":"n1","pid":7}' == control_bytes(
        {"nonce": "n1", "pid": 7, "log_id": "l1"}
    )


def test_a_decision_is_spelled_out_field_by_field() -> None:
    values: dict[str, JsonValue] = {
        "approval_id": "ap_0123456789ab",
        "request_digest": "sha256:00",
        "card_digest": "sha256:11",
        "decision": "approve",
        "choice": None,
        "scope": "session",
        "max_uses": 200,
        "max_age_s": 3600,
        "reason": None,
        "policy_digest": "sha256:22",
        "log_id": "l1",
        "vault_term": 3,
        "nonce": "n1",
        "decided_at_ms": 1,
    }

    assert (
        b'doorward/decision/v1\x00{"approval_id":"ap_0123456789ab","card_digest":"sha256:11","choice":null,'
        b'"decided_at_ms":1,"decision":"approve","log_id":"l1","max_age_s":3600,"max_uses":200,"nonce":"n1",'
        b'"policy_digest":"sha256:22","reason":null,"request_digest":"sha256:00","scope":"session","vault_term":3}'
    ) == decision_bytes(values)


@pytest.mark.parametrize(("signer", "fields", "domain"), SIGNERS)
def test_a_signature_serves_one_purpose_alone(signer: Signer, fields: tuple[str, ...], domain: str) -> None:
    assert signer(dict.fromkeys(fields, 1)).startswith(domain.encode() + b"\0{")


@pytest.mark.parametrize(("signer", "fields", "domain"), SIGNERS)
def test_a_missing_field_is_refused_by_name(signer: Signer, fields: tuple[str, ...], domain: str) -> None:
    with pytest.raises(ValueError, match=f"{domain} takes exactly .*; check {fields[0]}$"):
        signer(dict.fromkeys(fields[1:], 1))


@pytest.mark.parametrize(("signer", "fields", "domain"), SIGNERS)
def test_an_additional_field_is_refused_by_name(signer: Signer, fields: tuple[str, ...], domain: str) -> None:
    with pytest.raises(ValueError, match=f"{domain} takes exactly .*; check extra$"):
        signer(dict.fromkeys((*fields, "extra"), 1))


@pytest.mark.parametrize(("signer", "fields", "domain"), SIGNERS)
def test_fractions_can_not_be_signed(signer: Signer, fields: tuple[str, ...], domain: str) -> None:
    assert domain
    with pytest.raises(WireError, match="integers only"):
        signer(dict.fromkeys(fields, 0.5))
