"""Walks kept in memory, under cursors that tests can tell."""

from broker.core.collect.request import Kept


class MemoryWalks:
    """Implements ports.Walks."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def keep(self, kept: Kept) -> str:
        cursor = f"cur_{len(self.kept) + 1:032x}"
        self.kept[cursor] = kept
        return cursor

    def find(self, anchor_id: str, cursor: str, *, vault_term: int) -> Kept | None:
        found = self.kept.get(cursor)
        return found if found is not None and (found.anchor_id, found.vault_term) == (anchor_id, vault_term) else None
