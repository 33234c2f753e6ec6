"""The screens that are lists as they were designed, row for row. A golden is changed by hand, after looking at it."""

from dataclasses import replace

import pytest

from tests.fakes.cards import NOW_MS
from tests.ui.activity_rows import IN_DOUBT, TRAIL
from tests.ui.cards import queue_of_twelve
from tests.ui.list_rows import (
    BACKUP,
    CLAUDE,
    CODEX,
    COMMENTS,
    CREDENTIALS,
    DAY_MS,
    DEPLOY,
    DONE,
    EDITED,
    IN_USE,
    LIMITS,
    MIN_MS,
    READS,
    UNNAMED,
    USES,
    WEB_3,
    at_time,
    checkpoint,
)
from tests.ui.scenes import READY, Scene, golden
from ui.list_messages import CheckpointsNews, HostKeysNews
from ui.messages import (
    ActivityNews,
    CredentialsNews,
    DoubtsNews,
    LogFactsNews,
    PastNews,
    PolicyNews,
    SessionsNews,
    TrailNews,
    VerdictNews,
)
from ui.served_log import ActivityRow, LogFacts, SaidVerdict
from ui.served_policy import PolicyFacts

pytestmark = pytest.mark.usefixtures("in_utc")

SIZES = {"": (80, 24), "_wide": (120, 40)}


def still(made: Scene, *keys: str) -> Scene:
    """After keys, with the clock on the wall where it was."""
    wall_ms = made.clock.wall_ms
    made.press(*keys)
    made.clock.wall_ms = wall_ms
    return made.drawn()


def sessions(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    cards = [(card, 1) for card, _ in queue_of_twelve()[:11]]
    made = Scene(width=width, height=height, ascii_only=ascii_only).connect(*cards, status=replace(READY, in_doubt=1))
    still(made, "3")
    made.feed.tell(SessionsNews(sessions=(CLAUDE, CODEX, UNNAMED), grants=(READS, COMMENTS), limits=LIMITS))
    made.feed.tell(PastNews(sessions=(DONE,)))
    return made.drawn()


def doubts(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    made = Scene(width=width, height=height, ascii_only=ascii_only).connect(status=replace(READY, in_doubt=2))
    still(made, "4")
    made.feed.tell(DoubtsNews(doubts=(DEPLOY, BACKUP)))
    made.feed.tell(TrailNews(correlation_id=IN_DOUBT, events=TRAIL))
    return made.drawn()


def vault(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    status = replace(READY, vault_ready_since_ms=at_time("12:01:20"), vault_idle_lock_in_ms=462 * MIN_MS)
    made = Scene(width=width, height=height, ascii_only=ascii_only).connect(status=status)
    still(made, "5")
    made.feed.tell(SessionsNews(sessions=(CLAUDE, replace(CODEX, muted=False), UNNAMED), grants=(READS, COMMENTS)))
    made.feed.tell(CredentialsNews(credentials=CREDENTIALS), HostKeysNews(keys=(WEB_3,)))
    made.feed.tell(PolicyNews(facts=IN_USE), ActivityNews(rows=USES, anew=True))
    return made.drawn()


def audit(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    status = replace(
        READY,
        audit_seq=4210,
        audit_behind_ms=4,
        audit_head="9c1f04ab77e0d213" + "0" * 48,
        audit_head_at_ms=NOW_MS,
        audit_segment=2,
        audit_anchors=(("file", 4210), ("keyring", 4095), ("vault", 4179)),
    )
    made = Scene(width=width, height=height, ascii_only=ascii_only).connect(status=status)
    still(made, "7")
    said = SaidVerdict(
        verdict="OK",
        rung="file",
        note="",
        records=4211,
        segment="00000002.seg",
        offset=1,
        seq=4210,
        proven_to=4210,
        at_ms=at_time("12:01:00"),
        took_s=0.1,
    )
    notes = (checkpoint(4096, 4096, 31, at_time("12:58:00")), checkpoint(2207, 2207, 24, at_time("18:02:00") - DAY_MS))
    made.feed.tell(VerdictNews(verdict=said), CheckpointsNews(checkpoints=notes, whole=True))
    made.feed.tell(LogFactsNews(facts=LogFacts(size_bytes=1_600_000, free_bytes=41_000_000_000)))
    return made.drawn()


def policy(facts: PolicyFacts, width: int, height: int, *, ascii_only: bool) -> Scene:
    made = Scene(width=width, height=height, ascii_only=ascii_only)
    made.window.policy.own_uid = 1000
    made.connect(status=replace(READY, policy_pending=facts.waits))
    still(made, "6")
    trusted = ActivityRow(
        id="seq-1", seq=1, last_seq=1, event="policy.trusted", state="ended", at_ms=at_time("10:00:00") - 3 * DAY_MS
    )
    made.feed.tell(ActivityNews(rows=(replace(trusted, fields={}),), anew=True), PolicyNews(facts=facts))
    made.drawn()
    wall_ms = made.clock.wall_ms
    made.on(2.0)
    made.clock.wall_ms = wall_ms
    return made.drawn()


def edited(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    return policy(EDITED, width, height, ascii_only=ascii_only)


def in_force(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    return policy(IN_USE, width, height, ascii_only=ascii_only)


SCENES = {
    "10_policy_change": edited,
    "10_policy_in_force": in_force,
    "12_sessions": sessions,
    "13_in_doubt": doubts,
    "14_vault": vault,
    "15_audit": audit,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SCENES)
def test_a_list_as_it_was_drawn(name: str, size: str) -> None:
    assert golden(f"{name}{size}") == SCENES[name](*SIZES[size]).rows()


@pytest.mark.parametrize("name", SCENES)
def test_without_utf_8_the_same_rows_are_drawn_in_ascii(name: str) -> None:
    plain, rows = SCENES[name](ascii_only=True).rows(), SCENES[name]().rows()

    assert "".join(plain).isascii()
    assert [line for line in rows if line.isascii()] == [
        line for line, drawn in zip(plain, rows, strict=True) if drawn.isascii()
    ]
