"""Which change may be sent again: where its operation says so, where that holds, and never another one."""

import pytest

from broker.contract.reasons import Effect
from broker.core.frozen import FrozenRequest
from broker.core.ledger import Doubt
from broker.core.policy.declarations import Idempotency, IdempotencyKind
from broker.core.repeats import known_key, may_repeat, repeats_safely, settled_by, was_forgotten
from broker.core.resolve import HttpAsk, resolve
from tests.fakes import market
from tests.fakes.walked import policy_with

NATURAL = Idempotency(kind=IdempotencyKind.NATURAL)
BY_VERSION = Idempotency(kind=IdempotencyKind.PRECONDITION)
KEY = Idempotency(kind=IdempotencyKind.KEY, header="idempotency-key", window_s=3600)
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


def doubt_about(frozen: FrozenRequest, *, key: str | None = None, at_ms: int = 0) -> Doubt:
    return Doubt(
        correlation_id="op_1",
        session_id="s",
        agent="a",
        operation=frozen.operation,
        summary=frozen.summary,
        sent_at_ms=at_ms,
        request_digest=frozen.digest,
        idempotency_key=key,
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

    assert may_repeat(frozen, [doubt_about(frozen)], now_ms=1)
    assert not may_repeat(frozen, [doubt_about(frozen), doubt_about(put(NATURAL, guest="g2"))], now_ms=1)
    assert not may_repeat(put(Idempotency()), [doubt_about(put(Idempotency()))], now_ms=1)


def test_a_key_is_used_again_while_the_upstream_knows_it_for_as_long_as_an_answer_may_take() -> None:
    frozen = put(KEY)
    doubts = [doubt_about(frozen, key="dw-1", at_ms=1000), doubt_about(frozen, key="dw-1", at_ms=2000)]
    last_ms = 1000 + 3_600_000 - 60_000

    assert repeats_safely(frozen)
    assert "dw-1" == known_key(frozen, doubts, now_ms=last_ms - 1)
    assert may_repeat(frozen, doubts, now_ms=last_ms - 1)
    assert None is known_key(frozen, doubts, now_ms=last_ms)
    assert not may_repeat(frozen, doubts, now_ms=last_ms)
    assert not may_repeat(frozen, doubts, now_ms=999)  # the clock was set back: nobody can tell how old it is


def test_two_keys_or_none_are_no_key_to_use_again() -> None:
    frozen = put(KEY)
    two = [doubt_about(frozen, key="dw-1"), doubt_about(frozen, key="dw-2")]

    assert None is known_key(frozen, two, now_ms=1)
    assert None is known_key(frozen, [doubt_about(frozen)], now_ms=1)
    assert None is known_key(frozen, [], now_ms=1)
    assert not may_repeat(frozen, two, now_ms=1)


def test_a_request_under_another_key_than_before_may_be_a_second_one() -> None:
    frozen = put(KEY)
    before = [doubt_about(frozen, key="dw-1")]

    assert was_forgotten(frozen, before, key="dw-2")
    assert not was_forgotten(frozen, before, key="dw-1")
    assert not was_forgotten(frozen, before, key=None)
    assert not was_forgotten(put(KEY, guest="g2"), before, key="dw-2")


def test_a_success_settles_what_went_out_under_the_same_key_and_nothing_else() -> None:
    frozen = put(KEY)
    same, other = doubt_about(frozen, key="dw-1"), doubt_about(frozen, key="dw-2")

    assert (same,) == settled_by(frozen, [same, other, doubt_about(put(KEY, guest="g2"), key="dw-1")], key="dw-1")
    assert () == settled_by(put(Idempotency()), [same], key=None)
