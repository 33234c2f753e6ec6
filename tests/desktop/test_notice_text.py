"""What a notice says: as it was drawn, and nothing of an agent's."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.core.identity import UNIDENTIFIED
from broker.desktop.notice_text import notice
from tests.fakes.notice_cards import AT_MS, CARD
from tests.fakes.zones import in_zone


@pytest.fixture(autouse=True)
def _fixed_zone() -> Iterator[None]:
    with in_zone("Etc/GMT-2"):
        yield


def test_one_card_reads_as_it_was_drawn() -> None:
    told = notice([CARD])
    assert told is not None
    assert "doorward: codex asks to DELETE" == told.summary
    assert "cloud accounts.delete at iam.cloud.example\nEvidence incomplete. Answer by 02:53:20." == told.body
    assert ("ap_1", AT_MS) == (told.card_id, told.expires_at_ms)


def test_of_evidence_that_is_there_nothing_is_said() -> None:
    told = notice([replace(CARD, proven=True)])
    assert told is not None
    assert "cloud accounts.delete at iam.cloud.example\nAnswer by 02:53:20." == told.body


def test_several_are_one_notice_that_tells_of_the_oldest() -> None:
    told = notice([CARD, replace(CARD, id="ap_2"), replace(CARD, id="ap_3", agent="aider")])
    assert told is not None
    assert "doorward: 3 requests wait" == told.summary
    assert "ap_1" == told.card_id
    assert "The oldest: codex asks to DELETE" == told.body.splitlines()[0]
    assert "aider" not in told.body


def test_an_agent_without_a_name_is_called_that() -> None:
    told = notice([replace(CARD, agent=UNIDENTIFIED)])
    assert told is not None
    assert "doorward: an unnamed agent asks to DELETE" == told.summary


def test_nothing_waits_and_nothing_is_said() -> None:
    assert notice([]) is None
