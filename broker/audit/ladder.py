"""Knowledge from outside the log's directory, held against the log while it is walked: anchors and checkpoints.

Each anchor has its rung, which says who could have changed it together with the log. Nothing here is believed more
than the walk allows: what contradicts and what fits is told only as far as the log itself is proven.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from broker.audit.checkpoint import Note, origin_of
from broker.audit.merkle import MerkleTree
from broker.audit.pin import Anchor
from broker.audit.verdict import Rung, VerdictName

_STRENGTH = {rung: strength for strength, rung in enumerate(Rung)}
_MOST_TOLD = 80  # characters of a foreign origin


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnchor:
    """An anchor and where it was kept."""

    rung: Rung
    anchor: Anchor


def in_file(anchor: Anchor | None) -> tuple[HeldAnchor, ...]:
    """What a verifier is given where there is an anchor file and nothing else."""
    return () if anchor is None else (HeldAnchor(rung=Rung.FILE, anchor=anchor),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """What one piece of the knowledge says against the log. `segment` and `offset` are those of an anchor."""

    verdict: VerdictName
    note: str
    segment: int | None = None
    offset: int | None = None
    seq: int | None = None


class Ladder:
    """Give it each run of hashes and each key of the log in order; then ask."""

    def __init__(self, anchors: Sequence[HeldAnchor] = (), notes: Sequence[Note] = ()) -> None:
        self._anchors = sorted(anchors, key=lambda held: (held.anchor.seq, _STRENGTH[held.rung]))
        self._notes = sorted(notes, key=lambda note: note.size)
        self._same_head: list[bool | None] = [None] * len(self._anchors)  # None: its record was not met
        self._same_root: list[bool | None] = [None] * len(self._notes)
        self._signed: list[bool | None] = [None] * len(self._notes)  # None: no line of a key met so far
        self._lines: dict[str, set[int]] = defaultdict(set)  # notes by the names of their signers
        for index, note in enumerate(self._notes):
            for line in note.signatures:
                self._lines[line.name].add(index)
        self._next_anchor = self._next_note = 0

    @property
    def anchored(self) -> int | None:
        """The farthest record that an anchor names."""
        return self._anchors[-1].anchor.seq if self._anchors else None

    @property
    def acknowledged(self) -> int | None:
        """The farthest record that anything here vouches for."""
        reaches = [seq for seq in (self.anchored, self._notes[-1].size - 1 if self._notes else None) if seq is not None]
        return max(reaches, default=None)

    def names(self, committed: int | None) -> bool:
        """Whether the anchors reach exactly to that COMMIT, and nothing reaches further."""
        return committed is not None and committed == self.anchored == self.acknowledged

    def grow(self, first_seq: int, hashes: Sequence[bytes], tree: MerkleTree) -> None:
        """Compare the records that are named among these, and add all of them to the tree."""
        after = first_seq + len(hashes)
        while self._next_anchor < len(self._anchors) and self._anchors[self._next_anchor].anchor.seq < after:
            anchor = self._anchors[self._next_anchor].anchor
            if anchor.seq >= first_seq:
                self._same_head[self._next_anchor] = hashes[anchor.seq - first_seq].hex() == anchor.head
            self._next_anchor += 1
        while self._next_note < len(self._notes) and self._notes[self._next_note].size <= after:
            note = self._notes[self._next_note]
            if note.size > tree.size:
                tree.extend(hashes[tree.size - first_seq : note.size - first_seq])
            if note.size == tree.size:
                self._same_root[self._next_note] = tree.root() == note.root
            self._next_note += 1
        tree.extend(hashes if tree.size == first_seq else hashes[tree.size - first_seq :])

    def meet_key(self, name: str, public: bytes) -> None:
        """A key that the log brought in; one false line of a note outweighs its true ones."""
        for index in self._lines.get(name, ()):
            held = self._notes[index].signed_by(name, public)
            if held is not None and self._signed[index] is not False:
                self._signed[index] = held

    # -- what it comes to, for a log that is proven up to record `reached` (-1: nothing is)

    def of_another_log(self, log_id: bytes) -> Contradiction | None:
        for held in self._anchors:
            if held.anchor.log_id != log_id.hex():
                text = f"the anchor ({held.rung.value}) is of log {held.anchor.log_id}"
                return Contradiction(verdict=VerdictName.WRONG_LOG, note=text)
        for note in self._notes:
            if note.origin != origin_of(log_id):
                text = f"a checkpoint is of {note.origin[:_MOST_TOLD]}"
                return Contradiction(verdict=VerdictName.WRONG_LOG, note=text)
        return None

    def contradiction(self, reached: int) -> Contradiction | None:
        return self._other_head(reached) or self._other_root(reached) or self._unsigned(reached)

    def _other_head(self, reached: int) -> Contradiction | None:
        for held, same in zip(self._anchors, self._same_head, strict=True):
            anchor = held.anchor
            if anchor.seq <= reached and same is False:
                text = f"record {anchor.seq} is not the anchored one ({held.rung.value})"
                return Contradiction(
                    verdict=VerdictName.ROLLBACK,
                    segment=anchor.segment,
                    offset=anchor.offset,
                    seq=anchor.seq,
                    note=f"{text}: the log was rewritten or rolled back",
                )
        return None

    def _other_root(self, reached: int) -> Contradiction | None:
        for note, same in zip(self._notes, self._same_root, strict=True):
            if note.size <= reached + 1 and same is False:
                text = f"the checkpoint of {note.size} records has another root: the log was rewritten or rolled back"
                return Contradiction(verdict=VerdictName.ROLLBACK, seq=note.size - 1, note=text)
        return None

    def _unsigned(self, reached: int) -> Contradiction | None:
        for note, signed in zip(self._notes, self._signed, strict=True):
            if note.size <= reached + 1 and signed is not True:
                text = f"the checkpoint of {note.size} records is not signed by a key of this log"
                return Contradiction(verdict=VerdictName.FORGED_SIGNATURE, seq=note.size - 1, note=text)
        return None

    def beyond(self, reached: int) -> str | None:
        """What is named here and gone from the log."""
        if self.anchored is not None and self.anchored > reached:
            rung = self._anchors[-1].rung.value
            return f"the anchor ({rung}) names record {self.anchored}: acknowledged records are gone"
        if self._notes and self._notes[-1].size > reached + 1:
            return f"a checkpoint names {self._notes[-1].size} records: some are gone"
        return None

    def rung(self, reached: int, log_id: bytes | None) -> Rung:
        """The strongest that fits."""
        fitting = [Rung.NONE]
        if log_id is None:
            return Rung.NONE
        for held, same in zip(self._anchors, self._same_head, strict=True):
            if same and held.anchor.seq <= reached and held.anchor.log_id == log_id.hex():
                fitting.append(held.rung)
        for index, note in enumerate(self._notes):
            fits = self._same_root[index] and self._signed[index] and note.size <= reached + 1
            if fits and note.origin == origin_of(log_id):
                fitting.append(Rung.OUTSIDE)
        return max(fitting, key=_STRENGTH.__getitem__)

    def same_head(self) -> bool | None:
        """Of a single anchor: whether its record has its hash; None where it was not met."""
        return self._same_head[-1] if self._same_head else None
