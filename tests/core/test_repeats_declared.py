"""Which change may be sent again: where its operation says so, where that holds, and never another one."""

import pytest

from broker.contract.reasons import Effect
from broker.core.frozen import FrozenRequest
from broker.core.ledger import Doubt
from broker.core.policy.declarations import Idempotency, IdempotencyKind
from broker.core.repeats import may_repeat, repeats_safely
from broker.core.resolve import HttpAsk, resolve
from tests.fakes import market
from tests.fakes.walked import policy_with

NATURAL = Idempotency(kind=IdempotencyKind.NATURAL)
BY_VERSION = Idempotency(kind=IdempotencyKind.PRECONDITION)
IF_MATCH = (("if-match", '"v7"'),)


def put(
    rules: Idempotency,
    *,
    headers: tuple[tuple[str, str], ...] = (),
    effect: Effect = Effect.WRITE,
    guest: str = "g1",
    version: str | None = None,
) -> FrozenRequest:
    seat = market.operation("seats.set", "PUT", "/seats/{seat}", effect, body=("guest", "version"), idempotency=rules)
    args = {"seat": "s1", "guest": guest} | ({} if version is None else {"version": version})
    frozen = resolve(policy_with(seat), HttpAsk(service="market", operation="seats.set", args=args, headers=headers))
    assert isinstance(frozen, FrozenRequest)
    return frozen


def doubt_about(frozen: FrozenRequest) -> Doubt:
    return Doubt(
        correlation_id="op_1",
        session_id="s",
        agent="a",
        operation=frozen.operation,
        summary=frozen.summary,
        sent_at_ms=0,
        request_digest=frozen.digest,
    )


def test_what_says_the_whole_state_may_be_sent_again() -> None:
    assert repeats_safely(put(NATURAL))


def test_without_a_declaration_nothing_may_be_sent_again() -> None:
    undeclared = resolve(market.POLICY, market.AD_HOC)

    assert not repeats_safely(put(Idempotency()))
    assert isinstance(undeclared, FrozenRequest)
    assert not repeats_safely(undeclared)


def test_what_is_forbidden_to_be_sent_again_is_not() -> None:
    assert not repeats_safely(put(Idempotency(kind=IdempotencyKind.NATURAL, replay_forbidden=True)))


def test_a_read_is_no_repeat_of_a_change() -> None:
    assert not repeats_safely(put(NATURAL, effect=Effect.READ))


@pytest.mark.parametrize(
    ("rules", "headers", "version", "expected"),
    [
        (BY_VERSION, IF_MATCH, None, True),
        (BY_VERSION, (("if-unmodified-since", "Sun, 29 Nov 2026 12:00:00 GMT"),), None, True),
        (BY_VERSION, (), None, False),
        (BY_VERSION, (("if-match", "*"),), None, False),
        (BY_VERSION, (("if-match", " "),), None, False),
        (Idempotency(kind=IdempotencyKind.PRECONDITION, header="x-version"), IF_MATCH, None, False),
        (Idempotency(kind=IdempotencyKind.PRECONDITION, header="x-version"), (("x-version", "7"),), None, True),
        (Idempotency(kind=IdempotencyKind.PRECONDITION, param="version"), (), "7", True),
        (Idempotency(kind=IdempotencyKind.PRECONDITION, param="version"), IF_MATCH, None, False),
    ],
)
def test_a_precondition_is_in_force_where_the_request_names_a_version(
    rules: Idempotency, headers: tuple[tuple[str, str], ...], version: str | None, *, expected: bool
) -> None:
    assert expected is repeats_safely(put(rules, headers=headers, version=version))


def test_only_the_very_same_request_is_a_repeat() -> None:
    frozen = put(NATURAL)

    assert may_repeat(frozen, [doubt_about(frozen)])
    assert not may_repeat(frozen, [doubt_about(frozen), doubt_about(put(NATURAL, guest="g2"))])
    assert not may_repeat(put(Idempotency()), [doubt_about(put(Idempotency()))])
