from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.contract.wire import JsonValue
from broker.core.frozen import FrozenRequest
from broker.core.ledger import AttemptState, attempt_of, change_key, in_doubt
from broker.core.resolve import HttpAsk, resolve
from tests.fakes import market


def frozen(ask: HttpAsk) -> FrozenRequest:
    request = resolve(market.POLICY, ask)
    assert isinstance(request, FrozenRequest)
    return request


def key(ask: HttpAsk) -> str | None:
    return change_key(frozen(ask))


def create(**args: JsonValue) -> HttpAsk:
    whole: dict[str, JsonValue] = {"stall": "s1", "name": "leek", **args}
    return market.ask("orders.create", **whole)


def ad_hoc(method: str = "POST", path: str = "/anything", **more: object) -> HttpAsk:
    return HttpAsk(service="market", method=method, path=path, **more)  # type: ignore[arg-type]  # HttpAsk's own names


def test_a_read_changes_nothing() -> None:
    assert key(market.READ) is None


def test_exec_counts_as_a_change() -> None:
    assert key(market.JOB) is not None


@pytest.mark.parametrize(
    "other",
    [
        create(note="fresh"),
        create(at="12:00:01"),
        create(trace="7"),
        create(name="leek "),
        create(name="  leek"),
        create(name="le\u200bek"),
        create(name="\uff4ceek"),
        replace(create(), headers=(("x-note", "again"),)),
    ],
    ids=["body", "time", "query", "space behind", "space before", "unseen", "other width", "header"],
)
def test_what_the_change_key_does_not_name_makes_no_other_change(other: HttpAsk) -> None:
    assert key(create()) == key(other)


@pytest.mark.parametrize("other", [create(name="kale"), create(stall="s2"), market.CANCEL, market.TIP])
def test_another_object_or_operation_is_another_change(other: HttpAsk) -> None:
    assert key(create()) != key(other)


def test_an_operation_without_a_change_key_is_one_change_whatever_its_arguments() -> None:
    assert key(market.ask("tips.give", cents=50)) == key(market.ask("tips.give", cents=70))


@pytest.mark.parametrize(
    "other",
    [
        ad_hoc(query=(("force", "1"),)),
        ad_hoc(headers=(("x-note", "again"),)),
        ad_hoc(body=b"{}"),
        ad_hoc(path="/anything/"),
        ad_hoc(path="/anything%20"),
        ad_hoc(path="/Anything"),
    ],
    ids=["query", "header", "body", "slash", "space", "case"],
)
def test_an_ad_hoc_change_is_its_host_method_and_path(other: HttpAsk) -> None:
    assert key(ad_hoc()) == key(other)


@pytest.mark.parametrize("other", [ad_hoc(path="/other"), ad_hoc(method="PUT"), ad_hoc(method="DELETE")])
def test_another_method_or_path_is_another_ad_hoc_change(other: HttpAsk) -> None:
    assert key(ad_hoc()) != key(other)


def test_a_change_belongs_to_the_credential_that_makes_it() -> None:
    same_credential = HttpAsk(service="fair", method="POST", path="/anything")
    none = HttpAsk(service="square", method="POST", path="/anything")

    assert len({key(ad_hoc()), key(same_credential), key(none)}) == 3  # hosts differ too
    assert change_key(replace(frozen(none), service=market.service("square", credential=None))) == key(none)


def test_numbers_and_their_texts_are_one_object_and_null_is_none() -> None:
    operation = market.operation("carts.put", "PUT", "/carts", body=("id", "flag", "tags"), change_key=("id",))
    base = frozen(market.CREATE)

    def named(value: JsonValue) -> str | None:
        return change_key(replace(base, declared=operation, args={"id": value}))

    assert named(7) == named("7") == named(" 7")
    assert named(["a", {"b ": 1}]) == named(["a ", {"b": "1"}])
    assert named(None) == change_key(replace(base, declared=operation, args={}))
    assert named(None) != named("None")


@pytest.mark.parametrize(
    ("ask", "category", "effect", "retry", "doubtful"),
    [
        (market.TIP, Category.SUCCESS, RemoteEffect.APPLIED, Retry.NEVER, False),
        (market.TIP, Category.CONFIRMED_FAILURE, RemoteEffect.NONE, Retry.NEVER, False),
        (market.TIP, Category.OUTCOME_UNKNOWN, RemoteEffect.UNKNOWN, Retry.AFTER_HUMAN, True),
        (market.TIP, Category.CONFIRMED_FAILURE, RemoteEffect.UNKNOWN, Retry.NEVER, True),
        (market.TIP, Category.MALFORMED_RESPONSE, RemoteEffect.APPLIED, Retry.RECONCILE_FIRST, True),
        (market.TIP, Category.MALFORMED_RESPONSE, RemoteEffect.APPLIED, Retry.AFTER_HUMAN, False),
        (market.TIP, Category.PARTIAL, RemoteEffect.UNKNOWN, Retry.AFTER_DELAY, False),
        (market.READ, Category.OUTCOME_UNKNOWN, RemoteEffect.NONE, Retry.BOUNDED, False),
    ],
)
def test_a_write_whose_effect_is_open_is_in_doubt(
    ask: HttpAsk, category: Category, effect: RemoteEffect, retry: Retry, *, doubtful: bool
) -> None:
    assert doubtful is in_doubt(frozen(ask), category, effect, retry)


def test_an_attempt_is_written_down_before_it_is_made() -> None:
    caller = market.agent()
    request = frozen(replace(create(trace="7"), headers=(("x-note", "again"),)))
    attempt = attempt_of(
        request, correlation_id="op_1", request_id="r1", caller=caller, session_id="se_1", now_ms=7
    )  # fmt: skip

    assert AttemptState.RUNNING is attempt.state
    assert (caller.anchor.id, "r1", request.digest) == (
        attempt.anchor_id, attempt.request_id, attempt.request_digest,
    )  # fmt: skip
    assert change_key(request) == attempt.change_key
    assert attempt.summary == "POST https://api.market.example/stalls/s1/orders"  # without the query
    assert attempt.envelope is None


def test_the_effect_of_a_request_tells_whether_it_is_tracked() -> None:
    assert change_key(replace(frozen(market.TIP), effect=Effect.READ)) is None
