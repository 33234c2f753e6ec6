"""The human of a run: answers the cards that come up, one after the other, as the case says.

`absent` never looks; `silent` looks and says nothing. A card that is gone before it is answered is no fault.
"""

from contextlib import suppress

from broker.client.faults import ClientError
from broker.matrix.house import House


class Human:
    """Looks when it is told to; see runner.py for how often."""

    def __init__(self, house: House, words: tuple[str, ...], *, scope: str) -> None:
        """`scope` is what a plain yes covers."""
        self._house = house
        self._scope = scope
        self._words = words
        self._met: list[str] = []

    def look(self) -> None:
        """Answer what has come up since."""
        if set(self._words) == {"absent"}:
            return
        with self._house.turn, suppress(ClientError):
            for row in self._house.cards():
                card_id = str(row["id"])
                if card_id not in self._met:
                    self._met.append(card_id)
                    self._answer(card_id, self._words[min(len(self._met), len(self._words)) - 1])

    def _answer(self, card_id: str, word: str) -> None:
        match word:
            case "approve":
                self._house.approve(card_id, scope=self._scope)
            case "approve_session":
                self._house.approve(card_id, scope="session")
            case "deny":
                self._house.deny(card_id)
            case "silent":
                self._house.client.approval(card_id)
            case _:
                pass
