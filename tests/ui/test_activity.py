"""Activity as it was designed, row for row; and what its keys do."""

from dataclasses import replace

import pytest

from tests.ui.activity_rows import IN_DOUBT, ROWS, TRAIL
from tests.ui.scenes import READY, Scene, golden
from ui.messages import ActivityNews, ApproverNews, PastNews, ReadTrail, SessionsNews, TrailNews
from ui.served import GrantRow, SessionRow
from ui.served_log import ActivityRow, PastSession

pytestmark = pytest.mark.usefixtures("in_utc")


def scene(width: int = 80, height: int = 24, *, ascii_only: bool = False) -> Scene:
    made = Scene(width=width, height=height, ascii_only=ascii_only).connect(status=replace(READY, in_doubt=1))
    made.press("2")
    made.feed.tell(ActivityNews(rows=ROWS, anew=True))
    return made.drawn()


def at_the_doubt(made: Scene) -> Scene:
    """The third row in focus, its trail read; the clock on the wall as it was."""
    wall_ms = made.clock.wall_ms
    made.press("j", "j").on(0.5)
    made.feed.tell(TrailNews(correlation_id=IN_DOUBT, events=TRAIL))
    made.clock.wall_ms = wall_ms
    return made.drawn()


def row(seq: int, **more: object) -> ActivityRow:
    known = ActivityRow(id=f"op_{seq}", seq=seq, last_seq=seq, event="action.requested", state="ended", at_ms=seq)
    return replace(known, **more)  # type: ignore[arg-type]  # fields of a row


def rows(*numbers: int) -> tuple[ActivityRow, ...]:
    return tuple(row(number, operation=f"shop.o{number}") for number in sorted(numbers, reverse=True))


@pytest.mark.parametrize(("name", "size"), [("11_activity", (80, 24)), ("18_activity_wide", (120, 40))])
def test_a_morning(name: str, size: tuple[int, int]) -> None:
    assert golden(name) == at_the_doubt(scene(*size)).rows()


def test_a_terminal_without_utf_8() -> None:
    drawn = at_the_doubt(scene(ascii_only=True)).rows()

    assert golden("11_activity_ascii") == drawn
    assert "".join(drawn).isascii()


def test_a_width_between_loses_target_before_anything_else() -> None:
    drawn = scene(112, 30).rows()

    assert all(len(line) <= 112 for line in drawn)
    assert any("github issues.list" in line and "30, complete" in line and "212" in line for line in drawn)
    assert any("deploy deployments.create" in line for line in scene(79, 24).rows())


def test_it_follows_the_newest_until_the_human_moves_and_then_nothing_moves() -> None:
    made = Scene().connect().press("2")
    made.feed.tell(ActivityNews(rows=rows(*range(100)), anew=True))
    assert "following, 100 of 100" in made.drawn().rows()[2]
    assert made.rows()[4].startswith("▌")

    made.press("j")
    before = made.rows()[3:20]
    made.feed.tell(ActivityNews(rows=rows(100, 101), anew=False))
    assert "2 new, f follows" in made.drawn().rows()[2]
    assert before == made.rows()[3:20]

    made.press("f")
    assert "following, 102 of 102" in made.rows()[2]
    assert "o101" in made.rows()[4]


def test_a_row_that_changed_takes_the_place_of_what_was_known_of_it() -> None:
    made = Scene().connect().press("2")
    made.feed.tell(ActivityNews(rows=(row(2, state="waiting"), row(1)), anew=True))
    assert "waits for you" in made.drawn().rows()[4]
    made.feed.tell(ActivityNews(rows=(row(2, category="success", last_seq=9),), anew=False))

    assert "success" in made.drawn().rows()[4]
    assert 2 == len(made.window.world.activity or ())


def test_it_can_be_filtered_and_the_filter_pasted() -> None:
    made = scene().press("slash")
    made.window.paste("deploy\n")
    drawn = made.press("enter").rows()

    assert "/ deploy" in drawn[2]
    assert not any("github" in line for line in drawn)
    assert "1 of 12" in drawn[2]


def test_the_trail_is_asked_for_once_when_the_focus_has_rested() -> None:
    made = scene().press("j")
    assert [] == made.feed.done(ReadTrail)
    made.on(0.5).on(2.0)

    assert [ReadTrail(correlation_id=ROWS[1].id)] == made.feed.done(ReadTrail)
    changed = replace(ROWS[1], last_seq=ROWS[1].last_seq + 1)
    made.feed.tell(ActivityNews(rows=(changed,), anew=False))
    made.on(0.5)
    assert 2 == len(made.feed.done(ReadTrail))


def test_enter_shows_every_event_with_all_its_fields_and_escape_goes_back() -> None:
    made = at_the_doubt(scene()).press("enter")
    page = made.rows()
    assert "Activity: op_0193a1b2" in page[2]
    assert any("asked by claude-code pid 4711" in line for line in page)
    for _ in range(30):
        made.press("j")
    assert any("remote_effect unknown" in line for line in made.rows())
    assert "Esc" in made.rows()[-1]

    assert "Activity" in made.press("escape").rows()[2]
    assert "f follow" in made.rows()[-1]


def test_what_is_sealed_goes_with_the_key() -> None:
    made = scene()
    made.feed.tell(ApproverNews(ready=False))

    assert "Sealed" in made.drawn().rows()[4]
    assert not any("github" in line for line in made.rows())


def test_the_sessions_screen_tells_what_each_did_and_who_was_there_before() -> None:
    now_ms = Scene().clock.wall_ms
    live = SessionRow(
        id="se_1", agent="claude-code", identified=True, span="tree", pid=4711, exe="/usr/bin/node", cwd="~/src/site",
        label="main", opened_at_ms=now_ms - 38 * 60_000, calls=22, denied=0, muted=False,
    )  # fmt: skip
    grant = GrantRow(
        id="gr_1", session_id="se_1", agent="claude-code", rule="github-read", scope="all", effect="read", used=42,
        max_uses=200, made_at_ms=now_ms - 25 * 60_000, expires_at_ms=now_ms + 35 * 60_000,
    )  # fmt: skip
    past = PastSession(
        id="se_1", agent="claude-code", pid=4711, opened_at_ms=1, ended_at_ms=None, why=None, requests=22, denied=2,
        open=2, waiting=1, effects=(("READ", 13), ("WRITE", 8), ("RUN", 1)), last_denial=None,
    )  # fmt: skip
    gone = replace(
        past, id="se_0", agent="codex", opened_at_ms=now_ms - 7_200_000, ended_at_ms=now_ms, why="exited", open=0
    )
    made = Scene().connect().press("3")
    made.feed.tell(SessionsNews(sessions=(live,), grants=(grant,)), PastNews(sessions=(past, gone)))
    drawn = made.drawn().rows()

    assert drawn[4].startswith("▌claude-code   pid 4711       38 min     22       0")
    assert "│ named by [agents]: node" in drawn[5]
    assert "├─ grant github-read" in drawn[6]
    assert ["├─ in flight  1 request", "└─ waiting    1 card"] == [line.strip() for line in drawn[7:9]]
    assert drawn[9].startswith(" codex         pid 4711        2 h       22       2  ended")
    assert any("13 reads, 8 writes, 1 run   2 refusals   last refusal none" in line for line in drawn)
    assert "grant" not in " ".join(made.press("space").rows()[5:8])
