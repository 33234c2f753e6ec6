"""The Audit screen: a verdict of its own, a checkpoint, and help that lists what the keys do."""

from dataclasses import replace

import pytest

from tests.fakes.cards import NOW_MS
from tests.ui.scenes import READY, Scene
from ui.list_messages import CheckpointsNews
from ui.messages import CheckpointNews, LogFactsNews, VerdictNews, Verify, WriteCheckpoint
from ui.served_lists import LogCheckpoint
from ui.served_log import Checkpoint, LogFacts, SaidVerdict

NOTE = "doorward/5c1d\n4096\nq3Jx8mZ1canaryRootOfTheTree=\n\n- doorward/5c1d/e c2lnbmF0dXJl\n- doorward/5c1d/r c2ln\n"
GOOD = SaidVerdict(
    verdict="OK",
    rung="file",
    note="",
    records=4212,
    segment="00000002.seg",
    offset=1,
    seq=4211,
    proven_to=4211,
    at_ms=NOW_MS + 1,
    took_s=0.1,
)
BAD = replace(
    GOOD, verdict="ALTERED", segment="00000001.seg", offset=77, seq=12, proven_to=11, note="the hash does not fit"
)


def text(scene: Scene) -> str:
    return "\n".join(scene.drawn().rows())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_v_has_the_log_verified_and_the_verdict_shown_with_its_rung(size: tuple[int, int]) -> None:
    scene = Scene(width=size[0], height=size[1]).connect().press("7", "v")
    assert [Verify()] == scene.feed.done(Verify)
    scene.feed.tell(VerdictNews(verdict=None))
    assert "a verifier of its own is at work" in text(scene)
    scene.press("v")
    assert 1 == len(scene.feed.done(Verify))

    scene.feed.tell(VerdictNews(verdict=GOOD))
    assert "+ OK, whole log, checked" in text(scene)
    assert "held against the anchor file; 4,212 records" in text(scene)
    assert all(len(line) <= size[0] for line in scene.rows())


def test_a_bad_verdict_says_where_and_what_is_still_proven() -> None:
    scene = Scene().connect().press("7")
    scene.feed.tell(VerdictNews(verdict=BAD))

    assert "! ALTERED" in text(scene)
    assert "00000001.seg offset 77 record 12; proven is all up to record 11" in text(scene)
    assert "the hash does not fit" in text(scene)


def test_a_verifier_that_can_not_run_is_no_verdict() -> None:
    scene = Scene().connect().press("7")
    scene.feed.tell(VerdictNews(verdict=SaidVerdict.none(at_ms=NOW_MS + 1)))

    assert "the verifier could not be run" in text(scene)


def test_the_daemons_later_verdict_takes_the_place_of_an_older_one() -> None:
    status = replace(READY, audit_verdict="OK", audit_rung="vault", audit_verified_at_ms=NOW_MS + 9)
    scene = Scene().connect(status=status).press("7")
    scene.feed.tell(VerdictNews(verdict=GOOD))

    assert "held against: vault" in text(scene)


def test_w_writes_a_checkpoint_after_a_yes_and_shows_its_note() -> None:
    scene = Scene().connect().press("7", "w")
    assert "Write a checkpoint?" in text(scene)
    scene.on(0.6).press("y").on(0.3)
    assert [WriteCheckpoint()] == scene.feed.done(WriteCheckpoint)

    made = Checkpoint(at_ms=NOW_MS, note=NOTE, size=4096, countersigned=True)
    kept = LogCheckpoint(seq=4096, at_ms=NOW_MS, note=NOTE, size=4096, epoch=31, countersigned=True)
    scene.feed.tell(CheckpointNews(checkpoint=made), CheckpointsNews(checkpoints=(kept,), whole=True))
    shown = text(scene)
    assert "epoch 31, root" in shown
    assert "? outside: made" in shown
    shown = text(scene.press("enter"))
    assert all(line in shown for line in NOTE.split("\n"))
    assert "doorward audit checkpoint --to FILE" in shown
    assert "Checkpoint  Time" in text(scene.press("escape"))


def test_w_without_the_key_is_told() -> None:
    scene = Scene().connect(approver=False).press("7", "w")

    assert "unlock the approver key first" in text(scene)
    assert [] == scene.feed.done(WriteCheckpoint)


def test_the_disk_is_told() -> None:
    scene = Scene().connect().press("7")
    scene.feed.tell(LogFactsNews(facts=LogFacts(size_bytes=1_600_000, free_bytes=41_000_000_000)))

    assert "1.6 MB, 41.0 GB free" in text(scene)


KEYS = {
    "2": ("f  follow", "/  filter", "Enter  all events"),
    "3": ("Space  fold", "R y  revoke", "R K  end it", "M y  mute", "u  unmute"),
    "4": ("r  read back", "t  settle", "Enter  its trail"),
    "5": ("c  check", "R y  forget a host key", "u  unlock"),
    "6": ("t  trust it", "d  keep the old", "e  exact lines", "v  warnings"),
    "7": ("v  verify", "w y  write a checkpoint", "Enter  its note"),
}


@pytest.mark.parametrize("screen", KEYS)
def test_help_lists_the_keys_of_these_screens(screen: str) -> None:
    shown = text(Scene().connect().press(screen, "question_mark"))

    assert [] == [key for key in KEYS[screen] if key not in shown]
