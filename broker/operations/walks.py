"""Walks that were cut, kept in memory for a while. A cursor is 128 random bits: a name for one, and no key to it.

Nothing outlives the daemon, a lock of the vault, or an hour. Bounded in number and in ids; the oldest go first.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable

from broker.core.collect.request import Kept

KEPT_MS = 3_600_000
PER_ANCHOR_MAX = 16
WALKS_MAX = 256
IDS_MAX = 500_000


class WalkTable:
    """Implements ports.Walks."""

    def __init__(self, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def keep(self, kept: Kept) -> str:
        cursor = f"cur_{secrets.token_hex(16)}"
        self._kept[cursor] = kept
        mine = [name for name, one in self._kept.items() if one.anchor_id == kept.anchor_id]
        for name in mine[:-PER_ANCHOR_MAX]:
            del self._kept[name]
        while len(self._kept) > WALKS_MAX or (len(self._kept) > 1 and self._ids() > IDS_MAX):
            self._kept.popitem(last=False)
        return cursor

    def find(self, anchor_id: str, cursor: str, *, vault_term: int) -> Kept | None:
        self._forget(vault_term)
        kept = self._kept.get(cursor)
        return kept if kept is not None and kept.anchor_id == anchor_id else None

    def __len__(self) -> int:
        return len(self._kept)

    def _forget(self, vault_term: int) -> None:
        """What is too old, or from before the vault was opened last."""
        now_ms = self._now_ms()
        for name, one in list(self._kept.items()):
            if one.vault_term != vault_term or not 0 <= now_ms - one.kept_at_ms < KEPT_MS:
                del self._kept[name]

    def _ids(self) -> int:
        return sum(len(one.progress.ids) + len(one.progress.used) for one in self._kept.values())
