"""A yes is bound to the very card that was on the screen, whatever the daemon says or changes meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from broker.contract.wire import digest
from tests.fakes.cards import sample
from tests.fakes.control_server import ControlServer, Reply
from tests.ui.ears import Ear
from ui.answering import Approve
from ui.messages import Answered, CardFault, CardNews, Decide, NotDone, OpenCard

ONCE = Approve(scope="once", confirm=None)


class Liar(ControlServer):
    """Names another digest than that of the card it serves."""

    claimed: str | None = None

    @override
    def _card(self, approval_id: str) -> Reply:
        status, value = super()._card(approval_id)
        return status, value if self.claimed is None else {**value, "card_digest": self.claimed}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Liar]:
    tmp_path.chmod(0o700)
    with Liar(tmp_path) as running:
        yield running


@pytest.fixture
def ear(server: Liar, tmp_path: Path) -> Iterator[Ear]:
    del server
    listening = Ear(tmp_path)
    yield listening.unlocked()
    listening.feed.stop()


def quick(**changes: Any) -> dict[str, Any]:
    return {**sample(**changes), "arming_ms": 0}


def test_a_card_under_another_digest_is_not_shown(server: Liar, ear: Ear) -> None:
    approval_id = server.put(quick())
    server.claimed = "sha256:" + "0" * 64

    assert "not the one that it names" in ear.ask(OpenCard(approval_id=approval_id), CardFault).problem


def test_a_card_that_changes_behind_the_screen_is_not_approved(server: Liar, ear: Ear) -> None:
    approval_id = server.put(quick())
    drawn = ear.ask(OpenCard(approval_id=approval_id), CardNews).served
    server.cards[approval_id]["target"]["url"] = "https://api.github.com/repos/acme/site/other"
    told = ear.ask(Decide(approval_id=approval_id, answer=ONCE, served=drawn), NotDone)

    assert "changed" == told.code
    assert [] == server.decisions


def test_the_signed_digest_is_worked_out_from_the_drawn_object(server: Liar, ear: Ear) -> None:
    approval_id = server.put(quick())
    drawn = ear.ask(OpenCard(approval_id=approval_id), CardNews).served
    ear.ask(Decide(approval_id=approval_id, answer=ONCE, served=drawn), Answered)

    assert digest("doorward/card/v1", drawn.raw) == server.decisions[0]["statement"]["card_digest"]


@pytest.mark.parametrize("field", ["vault_term", "log_id", "policy_digest", "request_digest", "nonce"])
def test_the_statement_names_what_it_was_given_under(server: Liar, ear: Ear, field: str) -> None:
    approval_id = server.put(quick())
    drawn = ear.ask(OpenCard(approval_id=approval_id), CardNews).served
    ear.ask(Decide(approval_id=approval_id, answer=ONCE, served=drawn), Answered)
    expected = {
        "vault_term": drawn.card.vault_term,
        "log_id": drawn.card.log_id,
        "policy_digest": drawn.card.why.policy,
        "request_digest": drawn.card.request_digest,
        "nonce": drawn.nonce,
    }

    assert expected[field] == server.decisions[0]["statement"][field]
