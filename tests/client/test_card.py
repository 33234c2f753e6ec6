import pytest

from broker.client.card import parse_card
from broker.client.faults import Broken
from broker.contract.wire import JsonValue
from tests.fakes.cards import delete_sample, sample


def test_a_card_is_read_whole() -> None:
    card = parse_card(sample())

    assert "issues.list" == card.summary.operation
    assert ("node", "zsh") == tuple(link.name for link in card.who.chain)
    assert (("accept", "application/vnd.github+json"),) == card.headers
    assert 200 == card.yes.session.max_uses
    assert card.typed_word is None
    assert "1290" == parse_card(delete_sample()).typed_word


def test_a_card_of_another_version_is_refused() -> None:
    with pytest.raises(Broken, match="version 2"):
        parse_card(sample(v=2))


@pytest.mark.parametrize(
    "changed",
    [
        sample(surprise={"also": "this"}),
        sample(who={"surprise": 1}),
        sample(exact={"surprise": 1}),
        sample(yes={"surprise": 1}),
    ],
)
def test_a_card_that_says_more_than_can_be_shown_is_refused(changed: dict[str, JsonValue]) -> None:
    with pytest.raises(Broken, match="surprise"):
        parse_card(changed)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        (sample(log_id=5), "card.log_id"),
        (sample(vault_term="12"), "card.vault_term"),
        (sample(vault_term=None), "card.vault_term"),
        (sample(vault_term=True), "card.vault_term"),
        (sample(target={"plain_http": 0}), "card.target.plain_http"),
        (sample(who={"says": 5}), "card.who.says"),
        (sample(why={"rules": [1]}), "card.why.rules"),
        (sample(doubts={}), "card.doubts"),
        (sample(doubts=[1]), "card.doubts"),
        (sample(summary=7), "card.summary"),
        (sample(exact={"headers": [["one"]]}), "card.exact.headers"),
        ({"v": 1}, "card.exact"),
        (7, "card"),
    ],
)
def test_a_broken_card_is_refused_with_the_place(changed: JsonValue, place: str) -> None:
    with pytest.raises(Broken) as refusal:
        parse_card(changed)

    assert f"{place} is" in str(refusal.value)
