"""Both verifiers say the same of logs that somebody with every key wrote, and of any knowledge beside them.

Here hashes and signatures hold where they are meant to, so that each rule behind them is reached.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.audit.verdict import Rung
from tests.fakes.forger import CHECKPOINT, COMMIT, END, EPOCH, EVENT, RECOVERY, SEGMENT
from tests.fakes.scribe import FAULTS, Scribe, Step, anchor_line, private, root_of, signed_note
from tests.fakes.two_verifiers import CHANGES, EXAMPLES, Change, Known, apply, assert_agreement, emptied, second

STEPS = st.builds(
    Step,
    choice=st.integers(0, 20),
    value=st.integers(0, 1000),
    fault=st.sampled_from([None] * 250 + list(FAULTS)),
)
A_GROUP = [Step(choice=choice, value=1, fault=None) for choice in (0, 0, 1, 0)]  # SEGMENT, EPOCH, EVENT, COMMIT


PLAN = [  # every type, an unendorsed stretch that ends, three segments
    (SEGMENT, 1), (EPOCH, 1), (EVENT, 1), (COMMIT, 1), (EVENT, 2), (COMMIT, 1), (CHECKPOINT, 0), (EPOCH, 1),
    (COMMIT, 1), (RECOVERY, 1), (EPOCH, 1), (COMMIT, 1), (SEGMENT, 1), (EPOCH, 1), (COMMIT, 1), (EPOCH, 5), (EVENT, 1),
    (COMMIT, 1), (CHECKPOINT, 1), (EPOCH, 1), (COMMIT, 1), (RECOVERY, 1), (EPOCH, 3), (COMMIT, 1), (SEGMENT, 1),
    (EPOCH, 1), (COMMIT, 1), (EVENT, 1), (CHECKPOINT, 1), (END, 1), (COMMIT, 1), (RECOVERY, 5), (EPOCH, 1), (COMMIT, 1),
]  # fmt: skip
VALUES = {"note": range(11), "endorser": range(5), "payload": (1, 100, 199)}
ONLY_AT = {"note": CHECKPOINT, "endorser": EPOCH}


def planned(directory: Path, *, until: int | None = None, at: int = -1, fault: str = "", value: int = 0) -> Scribe:
    scribe = Scribe(directory)
    for place, (kind, usual) in enumerate(PLAN[:until]):
        faulty = place == at
        options = scribe.may_follow()
        choice = options.index(kind) if kind in options else 0
        scribe.write([Step(choice=choice, value=value if faulty else usual, fault=fault if faulty else None)])
    return scribe


def knowledge_beside(scribe: Scribe, share: float) -> dict[str, Known]:
    place, size = scribe.directory.parent, 1 + int(share * len(scribe.leaves))
    contents = {
        "pin": scribe.pin(),
        "anchor": scribe.anchor(-1),
        "older": scribe.anchor(int(share * len(scribe.commits))),
        "by the root": scribe.checkpoint(size) + b"\n" + scribe.checkpoint(len(scribe.leaves)),
        "by an epoch": scribe.checkpoint(size, epoch=1 + int(share * scribe.epoch)),
    }
    for name, content in contents.items():
        (place / name).write_bytes(content)
    pin, last, older = place / "pin", (Rung.FILE, place / "anchor"), (Rung.KEYRING, place / "older")
    return {
        "nothing": Known(),
        "the pin": Known(pin=pin),
        "the anchor": Known(pin=pin, anchors=(last,)),
        "two anchors": Known(anchors=(older, last)),
        "by the root": Known(pin=pin, anchors=(older,), checkpoints=place / "by the root"),
        "by an epoch": Known(pin=pin, checkpoints=place / "by an epoch"),
    }


def test_the_plan_is_whole_and_holds_every_record_type(tmp_path: Path) -> None:
    scribe = planned(tmp_path / "audit")

    assert {SEGMENT, EPOCH, EVENT, COMMIT, CHECKPOINT, RECOVERY, END} == {kind for kind, _ in PLAN}
    assert "OK" == second(scribe.directory, knowledge_beside(scribe, 0.5)["the anchor"])["verdict"]


@pytest.mark.parametrize("fault", FAULTS)
def test_both_say_the_same_of_one_fault_at_any_place(tmp_path: Path, fault: str) -> None:
    for at in range(len(PLAN)):
        for value in VALUES.get(fault, (3,)) if PLAN[at][0] == ONLY_AT.get(fault, PLAN[at][0]) else ():
            scribe = planned(emptied(tmp_path / "log") / "audit", at=at, fault=fault, value=value)

            assert_agreement(scribe.directory, knowledge_beside(scribe, 0.4))


def test_both_say_the_same_of_a_log_that_ends_anywhere(tmp_path: Path) -> None:
    for until in range(1, len(PLAN) + 1):
        scribe = planned(emptied(tmp_path / "log") / "audit", until=until)

        assert_agreement(scribe.directory, knowledge_beside(scribe, 0.9))


@EXAMPLES
@given(
    steps=st.lists(STEPS, min_size=3, max_size=40),
    share=st.floats(0, 1, exclude_max=True),
    changes=st.one_of(st.just([]), st.lists(CHANGES, min_size=1, max_size=1)),
)
def test_both_say_the_same_of_logs_by_somebody_with_every_key(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], share: float, changes: list[Change]
) -> None:
    scribe = Scribe(emptied(tmp_path_factory.getbasetemp() / "scribe") / "audit")
    scribe.write(A_GROUP + steps)
    for change in changes:
        apply(scribe.directory, change)

    assert_agreement(scribe.directory, knowledge_beside(scribe, share))


# -- any knowledge


@dataclass(frozen=True, kw_only=True)
class Told:
    """An anchor or a note: what it says of which record, and what of it is not true."""

    seq: int
    rung: Rung
    lie: str
    epoch: int


TOLD = st.builds(
    Told,
    seq=st.integers(0, 40),
    rung=st.sampled_from([Rung.FILE, Rung.KEYRING, Rung.VAULT, Rung.OUTSIDE]),
    lie=st.sampled_from(["", "", "", "", "what", "log", "signature"]),
    epoch=st.integers(0, 12),
)


def anchor_of(scribe: Scribe, told: Told) -> bytes:
    head = scribe.leaves[told.seq] if told.seq < len(scribe.leaves) and told.lie != "what" else bytes(32)
    log_id = bytes(8) if told.lie == "log" else scribe.log_id
    return anchor_line(log_id, told.seq, head, segment=1 + told.epoch, offset=told.seq)


def note_of(scribe: Scribe, told: Told) -> bytes:
    root = root_of(scribe.leaves[: told.seq + 1]) if told.lie != "what" else bytes(32)
    origin = "doorward/0000000000000000" if told.lie == "log" else scribe.origin
    name, key = f"{origin}/epoch/{told.epoch}", private(f"epoch {told.epoch}")
    lines = [(name, key)] if told.epoch else [(origin, scribe.root)]
    note = signed_note(origin, told.seq + 1, root, [*lines, ("witness", scribe.root)])
    if told.lie == "signature":
        note += b"\xe2" + signed_note(origin, told.seq + 1, bytes(32), lines).rpartition(b"\xe2")[2]
    return note


@EXAMPLES
@example(
    anchors=[],
    notes=[Told(seq=0, rung=Rung.OUTSIDE, lie="log", epoch=0)],
    until=13,
    changes=[Change(kind="remove", file=0, at=0, to=0, value=1, near=0)],
)
@given(
    anchors=st.lists(TOLD, max_size=3),
    notes=st.lists(TOLD, max_size=3),
    until=st.integers(4, len(PLAN)),
    changes=st.one_of(st.just([]), st.lists(CHANGES, min_size=1, max_size=1)),
)
def test_both_say_the_same_of_any_knowledge(
    tmp_path_factory: pytest.TempPathFactory, anchors: list[Told], notes: list[Told], until: int, changes: list[Change]
) -> None:
    place = emptied(tmp_path_factory.getbasetemp() / "known")
    scribe = planned(place / "audit", until=until)
    for change in changes:
        apply(scribe.directory, change)
    (place / "pin").write_bytes(scribe.pin())
    for number, told in enumerate(anchors):
        (place / f"anchor {number}").write_bytes(anchor_of(scribe, told))
    (place / "notes").write_bytes(b"\n".join(note_of(scribe, told) for told in notes))
    held = tuple((told.rung, place / f"anchor {number}") for number, told in enumerate(anchors))
    checkpoints = place / "notes" if notes else None

    assert_agreement(
        scribe.directory,
        {
            "pinned": Known(pin=place / "pin", anchors=held, checkpoints=checkpoints),
            "unpinned": Known(anchors=held, checkpoints=checkpoints),
        },
    )
