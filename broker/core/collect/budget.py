"""How much one collection may cost. The broker's own bounds cut like anybody's, and the result says so."""

from dataclasses import dataclass
from typing import Final

from broker.contract.wire import JsonValue
from broker.core.policy.declarations import CallLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """No further page is asked for once one of these is used up; a page that came is never cut."""

    pages: int
    items: int
    bytes: int
    seconds: int

    def to_json(self) -> dict[str, JsonValue]:
        return {"pages": self.pages, "items": self.items, "bytes": self.bytes, "seconds": self.seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an agent would spend; None leaves it to the broker."""

    pages: int | None = None
    items: int | None = None
    bytes: int | None = None
    seconds: int | None = None


USUAL: Final = Budget(pages=20, items=5_000, bytes=2 << 20, seconds=60)
MOST: Final = Budget(pages=200, items=20_000, bytes=4 << 20, seconds=600)


def budget_of(wish: Wish, limits: CallLimits) -> Budget:
    """What the agent asks for, within what the operation and the broker allow."""
    return Budget(
        pages=_least(wish.pages, USUAL.pages, MOST.pages, limits.max_pages),
        items=_least(wish.items, USUAL.items, MOST.items, limits.max_items),
        bytes=_least(wish.bytes, USUAL.bytes, MOST.bytes, None),
        seconds=_least(wish.seconds, USUAL.seconds, MOST.seconds, None),
    )


def _least(wished: int | None, usual: int, most: int, declared: int | None) -> int:
    bounds = [usual if wished is None else wished, most, *([] if declared is None else [declared])]
    return max(1, min(bounds))
