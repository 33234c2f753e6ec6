"""The queue: what waits and what has just been settled, in order of arrival, never sorted again.

Made anew for each change; what a drawing asks of it costs the same for ten entries and for ten thousand. Settled
entries stay until the human moves. Pure.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ui.served import Waiting


class WaitingLine:
    """Entries and where they stand."""

    __slots__ = ("_alike", "_filtered", "_places", "entries", "pending")

    def __init__(self, entries: Iterable[Waiting] = ()) -> None:
        self.entries = tuple(entries)
        self.pending = tuple(entry for entry in self.entries if entry.pending)
        self._places = {entry.id: at for at, entry in enumerate(self.entries)}
        self._alike = _alike(self.pending)
        self._filtered: tuple[str, WaitingLine] = ("", self)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self.entries)

    def place(self, approval_id: str | None) -> int | None:
        return None if approval_id is None else self._places.get(approval_id)

    def alike(self, approval_id: str) -> tuple[int, int] | None:
        """Which of how many of its kind it is, in order of arrival; None where it is the only one."""
        return self._alike.get(approval_id)

    def entry(self, approval_id: str | None) -> Waiting | None:
        at = self.place(approval_id)
        return None if at is None else self.entries[at]

    def matching(self, words: str) -> "WaitingLine":
        """Those that hold the words, in any case of letters; all of them for no words."""
        if not words:
            return self
        if self._filtered[0] != words:
            wanted = words.casefold()
            self._filtered = (words, WaitingLine(entry for entry in self.entries if wanted in _searched(entry)))
        return self._filtered[1]

    # Moving.

    def first(self) -> Waiting | None:
        """What the eye goes to where nothing is in focus."""
        return next(iter(self.pending or self.entries), None)

    def step(self, focus: str | None, by: int) -> str | None:
        """The entry so many places further on, at most the first or the last."""
        if not self.entries:
            return None
        at = self.place(focus)
        wanted = 0 if at is None else min(max(at + by, 0), len(self.entries) - 1)
        return self.entries[wanted].id

    def next_pending(self, focus: str | None, by: int = 1) -> str | None:
        """The next one that waits, round the end; never the focus itself."""
        at = self.place(focus)
        start = (-1 if by > 0 else 0) if at is None else at
        for distance in range(1, len(self.entries) + (at is None)):
            entry = self.entries[(start + by * distance) % len(self.entries)]
            if entry.pending:
                return entry.id
        return None

    # Changes.

    def refreshed(self, fresh: tuple[Waiting, ...]) -> "WaitingLine":
        """What the daemon lists now. What it no longer lists has ended; what is new and waits goes to the end."""
        new = {entry.id: entry for entry in fresh}
        kept = [new.pop(entry.id, _gone(entry)) for entry in self.entries]
        return WaitingLine((*kept, *(entry for entry in fresh if entry.id in new and entry.pending)))

    def settled(self, approval_id: str, state: str) -> "WaitingLine":
        return WaitingLine(replace(entry, state=state) if entry.id == approval_id else entry for entry in self.entries)

    def swept(self, keep: str | None) -> "WaitingLine":
        """Without the settled entries, but for the one that the human moves to."""
        if len(self.pending) == len(self.entries):
            return self
        return WaitingLine(entry for entry in self.entries if entry.pending or entry.id == keep)


def _gone(entry: Waiting) -> Waiting:
    return replace(entry, state="void", ended_by=None) if entry.pending else entry


def _alike(pending: tuple[Waiting, ...]) -> dict[str, tuple[int, int]]:
    groups: dict[str, list[str]] = {}
    for entry in pending:
        if entry.group:
            groups.setdefault(entry.group, []).append(entry.id)
    several = [ids for ids in groups.values() if len(ids) > 1]
    return {one: (at, len(ids)) for ids in several for at, one in enumerate(ids, start=1)}


def _searched(entry: Waiting) -> str:
    return f"{entry.effect}\n{entry.operation}\n{entry.target}\n{entry.agent}\n{entry.state}".casefold()
