"""What an answer has to say to count."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.approvals.answers import Answer, AnswerRefused
from broker.core.ledger import Doubt
from tests.fakes import market
from tests.fakes.questions import ME, DeskRoom, Shown, question, showing

DOUBT = Doubt(
    correlation_id="op_" + "9" * 44, session_id="se_1", agent="a", operation="o", summary="POST /x", sent_at_ms=1
)


@pytest.fixture
async def shown() -> AsyncIterator[Shown]:
    async with showing(question()) as made:
        yield made


async def test_a_card_can_not_be_approved_before_its_arming() -> None:
    room = DeskRoom()
    async with asyncio.TaskGroup() as tasks:
        room.asking(tasks)
        card = await room.card()
        with pytest.raises(AnswerRefused) as early:
            await room.desk.answer(card.id, room.yes(card.id), ME)
        room.clock.passed_ms += 1499
        with pytest.raises(AnswerRefused) as late:
            await room.desk.answer(card.id, room.yes(card.id), ME)
        room.clock.passed_ms += 1
        await room.desk.answer(card.id, room.yes(card.id), ME)

    assert ["not_armed", "not_armed"] == [early.value.code, late.value.code]
    assert 1500 == early.value.retry_after_ms
    assert late.value.retry_after_ms in {1, 2}, "rounded up rather than down"


async def test_a_card_that_was_never_looked_at_can_not_be_approved(shown: Shown) -> None:
    assert "control_session_required" == await shown.refusal(shown.room.yes(shown.card_id), ("another", "session"))


async def test_another_sessions_nonce_is_worth_nothing(shown: Shown) -> None:
    _, theirs = shown.room.desk.served(shown.card_id, ("another", "session"))

    assert "changed" == await shown.refusal(shown.room.yes(shown.card_id, nonce=theirs.nonce))


@pytest.mark.parametrize("missing", ["statement", "signature"])
async def test_an_unsigned_yes_is_none(shown: Shown, missing: str) -> None:
    said = shown.room.yes(shown.card_id)
    bare = Answer(
        decision="approve",
        statement=None if missing == "statement" else said.statement,
        signature=None if missing == "signature" else said.signature,
    )

    assert "unsigned" == await shown.refusal(bare)


async def test_a_statement_has_exactly_its_fields(shown: Shown) -> None:
    whole = shown.room.statement(shown.card_id)

    assert "schema" == await shown.refusal(shown.room.yes(shown.card_id, statement={**whole, "more": 1}))
    del whole["reason"]
    assert "schema" == await shown.refusal(shown.room.yes(shown.card_id, statement=whole))


async def test_only_an_enrolled_key_signs(shown: Shown) -> None:
    other = Ed25519PrivateKey.generate()

    assert "bad_signature" == await shown.refusal(shown.room.yes(shown.card_id, key=other))


async def test_what_was_signed_is_what_counts(shown: Shown) -> None:
    said = shown.room.yes(shown.card_id)
    assert said.statement is not None
    altered = Answer(
        decision="approve",
        reason="another",
        statement={**said.statement, "reason": "another"},
        signature=said.signature,
    )

    assert "bad_signature" == await shown.refusal(altered)


@pytest.mark.parametrize("off_ms", [300_001, -300_001, "soon", True])
async def test_a_statement_of_another_time_is_none(shown: Shown, off_ms: Any) -> None:
    at = shown.room.clock.now_ms() + off_ms if type(off_ms) is int else off_ms

    assert "changed" == await shown.refusal(shown.room.yes(shown.card_id, decided_at_ms=at))


async def test_the_scope_answered_is_the_scope_signed(shown: Shown) -> None:
    said = shown.room.yes(shown.card_id)

    assert "schema" == await shown.refusal(
        Answer(decision="approve", scope="session", statement=said.statement, signature=said.signature)
    ), "this card offers no session"


async def test_a_yes_for_the_session_says_how_often_and_how_long() -> None:
    async with showing(question(market.LISTING)) as shown:
        for change in ({"max_uses": 4}, {"max_age_s": 61}, {"max_uses": None}, {"max_uses": True}, {"max_uses": 3.0}):
            code = await shown.refusal(
                Answer(
                    decision="approve",
                    scope="session",
                    statement=shown.room.statement(shown.card_id, scope="session", **change),
                    signature=bytes(64),
                )
            )
            assert "changed" == code, change
        once = shown.room.yes(shown.card_id)
        assert "changed" == await shown.refusal(
            Answer(decision="approve", scope="session", statement=once.statement, signature=once.signature)
        )
        assert "session" == await shown.answer(shown.room.yes(shown.card_id, scope="session"))


async def test_a_choice_that_the_card_does_not_offer_is_none(shown: Shown) -> None:
    said = shown.room.yes(shown.card_id)
    chosen = Answer(decision="approve", choice="collect", statement=said.statement, signature=said.signature)

    assert "schema" == await shown.refusal(chosen)


async def test_a_destructive_card_needs_its_word() -> None:
    async with showing(question(market.CANCEL)) as shown:
        word = shown.typed_word
        assert word is not None
        for wrong in (None, "", word.upper(), word + " "):
            assert "wrong_confirm" == await shown.refusal(shown.room.yes(shown.card_id, confirm=wrong))
        await shown.answer(shown.room.yes(shown.card_id, confirm=word))


async def test_a_repeat_in_doubt_needs_its_word_and_offers_no_session() -> None:
    async with showing(question(market.SEND, doubts=(DOUBT,))) as shown:
        word = shown.typed_word
        assert "wrong_confirm" == await shown.refusal(shown.room.yes(shown.card_id))
        assert "schema" == await shown.refusal(shown.room.yes(shown.card_id, scope="session", confirm=word))
        await shown.answer(shown.room.yes(shown.card_id, confirm=word))
