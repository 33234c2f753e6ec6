"""An answer is handed on while it comes: scrubbed, to whoever still listens, and its end says what was found."""

from dataclasses import replace
from typing import Any

import pytest

from broker.answer_frames import AnswerFrames
from broker.contract.reasons import Category, Effect
from broker.core.classify.order import classify
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Phase, RawOutcome, Scrubbed
from broker.core.policy.model import AnswerRule
from broker.core.predicate import compile_predicate
from broker.core.resolve import resolve
from broker.core.scrub import scrub
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet
from broker.frames import delivered
from tests.fakes import market
from tests.fakes.flow import Flow

DONE = compile_predicate("json.done==`true`")
VALUE = Secret(market.TOKEN)
DERIVED = Secret("canary-signature-0123456789abcdef")


class Listener:
    def __init__(self, *, leaves_after: int = 99) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self._leaves_after = leaves_after

    async def __call__(self, stream: str, octets: bytes) -> None:
        if len(self.heard) >= self._leaves_after:
            raise ConnectionResetError
        self.heard.append((stream, octets))

    @property
    def text(self) -> bytes:
        return b"".join(octets for stream, octets in self.heard if stream == "body")


def request() -> FrozenRequest:
    frozen = resolve(market.POLICY, market.READ)
    assert isinstance(frozen, FrozenRequest)
    return frozen


def ended() -> Scrubbed:
    return scrub(classify(request(), market.answered(200, b"{}"), now_ms=0), SecretSet(replaced=[VALUE]))


def frames(listener: Listener, *, secrets: SecretSet | None = None) -> AnswerFrames:
    return AnswerFrames(listener, secrets or SecretSet(replaced=[VALUE]), request())


async def test_head_and_parts_are_handed_on_without_the_value_wherever_they_are_cut() -> None:
    listener = Listener()
    going = frames(listener)
    half = len(market.TOKEN) // 2

    assert await going.head(200, (("content-type", "text/plain"),), ())
    for part in (b"so: ", market.TOKEN[:half].encode(), market.TOKEN[half:].encode(), b" and on"):
        assert await going.body(part)
    done = await delivered(request(), ended(), going)

    assert "head" == listener.heard[0][0]
    assert b"so: [redacted] and on" == listener.text
    assert (1, True) == (done.hits, done.is_echo)


async def test_what_was_made_of_the_credential_for_this_attempt_is_taken_out_too() -> None:
    listener = Listener()
    going = frames(listener)
    await going.head(200, (("content-type", "text/plain"),), (DERIVED,))
    await going.body(b"signed by " + DERIVED.reveal())
    await going.finish(ended())

    assert b"signed by [redacted]" == listener.text


async def test_what_could_have_begun_a_value_is_handed_on_once_nothing_more_comes() -> None:
    listener = Listener()
    going = frames(listener)
    await going.head(200, (), ())
    await going.body(market.TOKEN[:10].encode())
    assert b"" == listener.text
    done = await going.finish(ended())

    assert market.TOKEN[:10].encode() == listener.text
    assert Category.SUCCESS is done.verdict.category


@pytest.mark.parametrize("leaves_after", [0, 1])
async def test_who_goes_away_ends_nothing_and_gets_nothing_more(leaves_after: int) -> None:
    listener = Listener(leaves_after=leaves_after)
    going = frames(listener)

    assert bool(leaves_after) is await going.head(200, (), ())
    assert not await going.body(b"x" * 100)
    assert not await going.body(b"y" * 100)
    assert 0 == (await going.finish(ended())).hits
    assert leaves_after == len(listener.heard)


async def test_a_value_that_comes_after_everybody_left_is_an_echo_all_the_same() -> None:
    going = frames(Listener(leaves_after=1))
    await going.head(200, (), ())
    await going.body(b"x" * 100)
    await going.body(market.TOKEN.encode() + b" and more")
    done = await going.finish(ended())

    assert (1, True) == (done.hits, done.is_echo)


async def test_without_a_credential_nothing_is_held_back() -> None:
    listener = Listener()
    going = AnswerFrames(listener, None, request())
    await going.head(200, (), (DERIVED,))
    await going.body(b"plain")

    assert b"plain" == listener.text


async def test_a_request_with_a_listener_hands_its_executor_who_listens() -> None:
    flow = Flow()
    envelope = await flow.perform(replace(flow.received(market.READ), frames=Listener()))

    assert "success" == envelope["category"]
    assert isinstance(flow.executor.deliveries[0].answer, AnswerFrames)


@pytest.mark.parametrize(
    ("declared", "media", "code"),
    [
        ({}, "application/json", "ok"),
        ({"success_when": DONE}, "application/json", "too_large"),
        (
            {"errors": (AnswerRule(when=DONE, category=Category.CONFIRMED_FAILURE, code="declared"),)},
            "text/plain",
            "too_large",
        ),
        ({"errors": (AnswerRule(when=DONE, category=Category.CONFIRMED_FAILURE, code="declared"),)}, "image/png", "ok"),
    ],
)
def test_what_was_handed_on_and_not_kept_is_no_success_where_something_is_declared_of_it(
    declared: dict[str, Any], media: str, code: str
) -> None:
    frozen = replace(
        request(), declared=market.operation("prices.get", "GET", "/prices/{item}", Effect.READ, **declared)
    )
    raw = RawOutcome(
        phase=Phase.RESPONSE_COMPLETE,
        status=200,
        headers=(("content-type", media),),
        body=b"",
        body_complete=True,
        handed_on_bytes=5_000_000,
    )

    assert code == classify(frozen, raw, now_ms=0).verdict.code


def test_what_was_handed_on_of_no_declared_operation_is_taken_as_it_is() -> None:
    raw = RawOutcome(phase=Phase.RESPONSE_COMPLETE, status=200, body_complete=True, handed_on_bytes=5_000_000)

    assert "too_large" != classify(replace(request(), declared=None), raw, now_ms=0).verdict.code


async def test_where_nobody_is_handed_anything_the_outcome_stays_as_it_is() -> None:
    scrubbed = ended()

    assert scrubbed is await delivered(request(), scrubbed, None)


def test_what_was_handed_on_is_scrubbed_once_and_its_head_all_the_same() -> None:
    raw = replace(market.answered(200, b"{}", ("etag", market.TOKEN)), body=b"", handed_on_bytes=2)
    scrubbed = scrub(classify(request(), raw, now_ms=0), SecretSet(replaced=[VALUE]))

    assert scrubbed.answer is not None
    assert market.TOKEN not in str(scrubbed.answer.to_json())
    assert (1, True) == (scrubbed.hits, scrubbed.is_echo)
