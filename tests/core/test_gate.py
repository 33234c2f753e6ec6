import copy
from dataclasses import replace
from typing import get_type_hints

import pytest

from broker.contract.reasons import Category, RemoteEffect, VaultState
from broker.contract.result import GateReport
from broker.core._seal import SEAL, Seal
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit, Standing, reading, recheck, voided
from broker.core.refusals import Refusal
from broker.core.resolve import resolve
from broker.ports import Delivery, Executor
from tests.fakes import market

OP = "op_" + "0" * 44


def frozen() -> FrozenRequest:
    request = resolve(market.POLICY, market.CREATE)
    assert isinstance(request, FrozenRequest)
    return request


FROZEN = frozen()
ASKED = Standing(
    vault=VaultState.READY,
    vault_term=3,
    policy_digest=market.DIGEST,
    credential_version=2,
    session_alive=True,
    frozen_daemon=False,
    request_digest=FROZEN.digest,
)


def ruling(now: Standing, *, asked: Standing = ASKED, request: FrozenRequest = FROZEN) -> Permit | Refusal:
    return recheck(asked=asked, now=now, frozen=request, correlation_id=OP, gate=GateReport())


def test_where_nothing_changed_there_is_a_permit_for_exactly_this() -> None:
    permit = ruling(ASKED)

    assert isinstance(permit, Permit)
    assert permit.frozen is FROZEN
    assert (OP, 2, 3) == (permit.correlation_id, permit.credential_version, permit.vault_term)
    assert voided(asked=ASKED, now=ASKED, frozen=FROZEN) is None


@pytest.mark.parametrize(
    ("now", "category", "code"),
    [
        (replace(ASKED, frozen_daemon=True), Category.BROKER_UNAVAILABLE, "frozen"),
        (replace(ASKED, vault=VaultState.LOCKED), Category.VAULT_LOCKED, "locked"),
        (replace(ASKED, vault=VaultState.UNLOCKING), Category.VAULT_LOCKED, "unlocking"),
        (replace(ASKED, vault=VaultState.QUARANTINED), Category.VAULT_LOCKED, "quarantined"),
        (replace(ASKED, vault_term=4), Category.VAULT_LOCKED, "locked"),
        (replace(ASKED, session_alive=False), Category.SESSION_DENIED, "session_ended"),
        (replace(ASKED, policy_digest=market.OTHER_DIGEST), Category.APPROVAL_TIMEOUT, "approval_void"),
        (replace(ASKED, credential_version=3), Category.APPROVAL_TIMEOUT, "approval_void"),
        (replace(ASKED, credential_version=None), Category.APPROVAL_TIMEOUT, "approval_void"),
        (replace(ASKED, grant_held=False), Category.APPROVAL_TIMEOUT, "approval_void"),
        (replace(ASKED, request_digest=market.OTHER_DIGEST), Category.APPROVAL_TIMEOUT, "approval_void"),
    ],
)
def test_anything_that_changed_since_the_decision_voids_it(now: Standing, category: Category, code: str) -> None:
    refusal = ruling(now)

    assert isinstance(refusal, Refusal)
    assert (category, code, RemoteEffect.NONE) == (refusal.category, refusal.code, refusal.remote_effect)


def test_a_request_other_than_the_one_that_was_asked_about_is_void() -> None:
    other = replace(FROZEN, url=FROZEN.url + "?force=1")
    refusal = ruling(ASKED, request=other)

    assert isinstance(refusal, Refusal)
    assert "request changed" in refusal.message


@pytest.mark.parametrize(
    ("changed", "word"),
    [({"policy_digest": market.OTHER_DIGEST}, "policy"), ({"credential_version": 3}, "credential")],
)
def test_the_agent_is_told_what_changed(changed: dict[str, object], word: str) -> None:
    refusal = ruling(replace(ASKED, **changed))  # type: ignore[arg-type]  # names of Standing's own

    assert isinstance(refusal, Refusal)
    assert f"The {word} changed" in refusal.message


def test_a_freeze_is_told_before_anything_else() -> None:
    everything = replace(ASKED, frozen_daemon=True, vault=VaultState.LOCKED, session_alive=False, policy_digest="")
    refusal = ruling(everything)

    assert isinstance(refusal, Refusal)
    assert refusal.code == "frozen"


def test_a_permit_cannot_be_made_without_the_seal() -> None:
    with pytest.raises(TypeError, match="from the gate alone"):
        Permit(
            frozen=FROZEN,
            correlation_id=OP,
            credential_version=2,
            vault_term=3,
            gate=GateReport(),
            seal=Seal(),  # a seal of one's own is not the gate's
        )
    with pytest.raises(TypeError):
        Permit(frozen=FROZEN, correlation_id=OP, credential_version=2, vault_term=3, gate=GateReport())  # type: ignore[call-arg]  # that is the claim


def test_a_permit_cannot_be_turned_into_one_for_something_else() -> None:
    permit = ruling(ASKED)
    assert isinstance(permit, Permit)

    with pytest.raises(ValueError, match="seal"):
        replace(permit, correlation_id="op_" + "1" * 44)  # type: ignore[call-arg]  # the type checker says so too
    assert not hasattr(permit, "seal")
    with pytest.raises(AttributeError):
        permit.vault_term = 9  # type: ignore[misc]  # that is the claim
    assert copy.copy(permit) == permit


def test_a_permit_with_the_seal_is_what_the_gate_makes() -> None:
    made = Permit(
        frozen=FROZEN, correlation_id=OP, credential_version=2, vault_term=3, gate=GateReport(), seal=SEAL
    )  # fmt: skip

    assert made == ruling(ASKED)


def test_an_executor_takes_a_permit_and_beside_it_who_listens() -> None:
    hints = get_type_hints(Executor.execute)

    assert (Permit, Delivery) == (hints["permit"], hints["delivery"])
    assert {"permit", "delivery", "return"} == set(hints)


def test_a_permit_reaches_to_reads_of_the_same_service_and_no_further() -> None:
    permit = ruling(ASKED)
    assert isinstance(permit, Permit)
    look = resolve(market.POLICY, market.READ)
    assert isinstance(look, FrozenRequest)
    read = reading(permit, look)

    assert (look, OP, permit.credential_version) == (read.frozen, read.correlation_id, read.credential_version)
    for other in (FROZEN, replace(look, service=market.POLICY.services["fair"])):
        with pytest.raises(ValueError, match="a read of the same service"):
            reading(permit, other)
