from dataclasses import FrozenInstanceError, fields, replace

import pytest

from broker.contract.reasons import Effect
from broker.contract.wire import canonical
from broker.core.frozen import Deadlines, FrozenRequest
from broker.core.resolve import resolve
from tests.fakes import market


def frozen() -> FrozenRequest:
    request = resolve(market.POLICY, market.CREATE)
    assert isinstance(request, FrozenRequest)
    return request


def test_the_same_request_has_the_same_digest() -> None:
    assert frozen().digest == frozen().digest
    assert frozen().digest.startswith("sha256:")


@pytest.mark.parametrize(
    "change",
    [
        {"service": market.service("square", credential=None)},
        {"operation": "market.other"},
        {"method": "PUT"},
        {"url": "https://api.market.example/stalls/s2/orders"},
        {"headers": (("x-note", "again"),)},
        {"body": b"{}"},
        {"effect": Effect.EXEC},
        {"destructive": True},
        {"targets": ("o-7",)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_digest_covers_what_would_be_sent_and_what_was_said_of_it(change: dict[str, object]) -> None:
    assert frozen().digest != replace(frozen(), **change).digest  # type: ignore[arg-type]  # the request's own names


def test_a_body_is_told_by_its_length_and_digest() -> None:
    told = frozen().to_json()["body"]

    assert isinstance(told, dict)
    assert {"len", "sha256"} == set(told)
    assert b"leek" not in canonical(told)


def test_how_long_it_may_take_is_not_what_it_is() -> None:
    assert frozen().digest == replace(frozen(), deadlines=Deadlines(total_s=1.5)).digest


def test_a_frozen_request_stays_as_it_is() -> None:
    request = frozen()
    for name in [field.name for field in fields(request)]:
        with pytest.raises(FrozenInstanceError):
            setattr(request, name, None)


@pytest.mark.parametrize(("effect", "is_write"), [(Effect.READ, False), (Effect.WRITE, True), (Effect.EXEC, True)])
def test_everything_but_a_read_is_a_write(effect: Effect, *, is_write: bool) -> None:
    assert is_write is replace(frozen(), effect=effect).is_write


def test_a_hash_that_was_kept_is_of_the_body_that_is_there() -> None:
    request = replace(frozen(), body=b"aaa")
    shown = request.digest
    object.__setattr__(request, "body", b"aab")  # as only a fault of ours could

    assert shown != request.digest
    assert replace(frozen(), body=b"aab").digest == request.digest
    assert shown == replace(frozen(), body=b"aaa").digest
