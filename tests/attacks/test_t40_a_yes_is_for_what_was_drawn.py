"""T40: a decision is bound to the card that was drawn: whatever else it says, it decides nothing."""

from typing import Any

import pytest

from broker.approvals.answers import Answer
from broker.contract.statements import DECISION_FIELDS, decision_bytes
from broker.core.card import card_digest
from broker.core.ledger import Doubt
from tests.fakes import market
from tests.fakes.questions import LOG_ID, ME, question, showing

OTHER: dict[str, Any] = {
    "approval_id": "ap_000000000000",
    "request_digest": "sha256:" + "0" * 64,
    "card_digest": "sha256:" + "0" * 64,
    "decision": "deny",
    "choice": "limit",
    "scope": "session",
    "max_uses": 1,
    "max_age_s": 60,
    "reason": "another",
    "policy_digest": market.OTHER_DIGEST,
    "log_id": "another-daemons-log",
    "vault_term": 4,
    "nonce": "0" * 32,
    "decided_at_ms": 1,
}


def test_there_is_another_value_for_every_field() -> None:
    assert set(DECISION_FIELDS) == set(OTHER)


@pytest.mark.parametrize("field", DECISION_FIELDS)
async def test_a_statement_that_says_anything_else_decides_nothing(field: str) -> None:
    """Each is signed by the approver's own key: it is what was signed that does not fit."""
    async with showing(question()) as shown:
        said: Any = shown.room.statement(shown.card_id, **{field: OTHER[field]})
        answer = Answer(decision="approve", statement=said, signature=shown.room.approver.sign(decision_bytes(said)))

        assert "changed" == await shown.refusal(answer)
        assert 1 == shown.room.desk.pending
        assert "once" == await shown.answer(shown.room.yes(shown.card_id))


@pytest.mark.parametrize("field", DECISION_FIELDS)
async def test_nor_does_one_that_says_it_in_another_type(field: str) -> None:
    async with showing(question()) as shown:
        whole = shown.room.statement(shown.card_id)
        odds: tuple[Any, ...] = (True, False, 0, 1, "", None, [], {})
        for odd in odds:
            if odd == whole[field] and type(odd) is type(whole[field]):
                continue
            said: Any = {**whole, field: odd}
            answer = Answer(decision="approve", statement=said, signature=bytes(64))
            assert "changed" == await shown.refusal(answer), odd


async def digest_of(**changes: Any) -> str:
    async with showing(question(**changes)) as shown:
        card, _ = shown.room.desk.served(shown.card_id, ME)
        frame = {**card.card, "approval_id": "", "correlation_id": ""}
        return card_digest(frame)


async def test_whatever_a_card_shows_is_in_its_digest() -> None:
    doubt = Doubt(
        correlation_id="op_" + "9" * 44, session_id="se_1", agent="a", operation="o", summary="POST /x", sent_at_ms=1
    )
    digests = [
        await digest_of(),
        await digest_of(ask=market.ask("orders.create", stall="s1", name="leek", note="other words")),
        await digest_of(ask=market.CANCEL),
        await digest_of(session="se_2"),
        await digest_of(caller=market.agent(4712)),
        await digest_of(ask=market.SEND),
        await digest_of(ask=market.SEND, doubts=(doubt,)),
    ]

    assert len(digests) == len(set(digests))
    assert digests[0] == await digest_of()


async def test_a_yes_to_one_card_is_none_to_the_next_like_it() -> None:
    """The same request again is another card: its nonce, id and times are its own."""
    async with showing(question()) as first:
        spent = first.room.yes(first.card_id)
    async with showing(question()) as second:
        second.room.approver = first.room.approver
        assert "changed" == await second.refusal(spent)


async def test_a_yes_is_spent_by_its_first_use() -> None:
    async with showing(question()) as shown:
        yes = shown.room.yes(shown.card_id)
        await shown.answer(yes)

        assert "settled" == await shown.refusal(yes)
        assert ["approve"] == [what for name, what in shown.room.records() if name == "approval.decided"]
        assert LOG_ID == shown.room.desk.served(shown.card_id, ME)[0].card["log_id"]


async def test_a_desk_of_another_daemon_takes_no_yes_of_this_one() -> None:
    async with showing(question()) as here, showing(question()) as there:
        there.room.approver = here.room.approver
        there.room.desk._log_id = "another-daemons-log"

        assert "changed" == await there.refusal(here.room.yes(here.card_id))
