"""The screens as they were designed, row for row. A golden is changed by hand, after looking at it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.cards import NOW_MS, delete_sample, sample
from tests.ui.cards import (
    brief,
    calm_read,
    delete_accounts,
    delete_release,
    expiring,
    proven_delete,
    queue_of_twelve,
    wide_write,
)
from tests.ui.scenes import READY, Scene
from ui.messages import Lost, SessionsNews
from ui.paper import Paper, Role, Span, row, text_of
from ui.screens.apart import Calm, empty_sheet
from ui.served import SessionRow
from ui.window import Surroundings

GOLDENS = Path(__file__).with_name("goldens")
IN_DOUBT = replace(READY, in_doubt=1)


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def golden(name: str) -> list[str]:
    return (GOLDENS / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def calm_scene() -> Scene:
    other = expiring(delete_sample(), 117, "ap_000000000002")
    return Scene().connect((calm_read(), 1), (other, 1), status=IN_DOUBT)


def armed(scene: Scene) -> Scene:
    """Ready, and the clock on the wall put back to where it was."""
    wall_ms = scene.clock.wall_ms
    scene.on(1.6)
    scene.clock.wall_ms = wall_ms
    return scene


def muted_codex() -> SessionRow:
    return SessionRow(
        id="se_2",
        agent="codex",
        identified=True,
        span="tree",
        pid=5120,
        exe="/usr/bin/codex",
        cwd=None,
        label=None,
        opened_at_ms=NOW_MS,
        calls=140,
        denied=1,
        muted=True,
    )


def test_a_calm_read() -> None:
    assert golden("01_calm_read") == armed(calm_scene()).rows()


def test_a_delete_with_its_word_half_typed() -> None:
    scene = Scene().connect((calm_read(81), 1), (delete_release(), 1), status=IN_DOUBT)
    scene.press("j")
    armed(scene).press("a", "1", "2")
    scene.clock.wall_ms = NOW_MS

    assert golden("02_delete_typed") == scene.rows()


def test_a_delete_that_is_proven_and_looked_at_again() -> None:
    scene = armed(Scene().connect((proven_delete(), 1), status=IN_DOUBT))

    assert golden("02_delete_proven") == scene.rows()


def test_a_delete_whose_evidence_has_a_gap() -> None:
    scene = armed(Scene().connect((delete_accounts(), 1), (calm_read(100), 3)))

    assert golden("03_evidence_gap") == scene.rows()


def test_nothing_waits() -> None:
    def labelled(*lines: str) -> tuple[tuple[Span, ...], ...]:
        return tuple(row(line) for line in lines)

    today = ("214 calls by 2 agents in 3 sessions", "201 under grants   9 you approved   2 you denied")
    last = (
        "14:02:11 + claude-code READ   issues.list",
        "14:02:09 + claude-code READ   pulls.get",
        "13:58:40 - codex       WRITE  issues.create",
    )
    calm = Calm(
        parts=(
            ("Today", labelled(*today, "2 refused by policy   0 in doubt")),
            ("Last", labelled(*last)),
            ("Grants", labelled("github-read  claude-code  158 calls, 35 min left")),
            ("Frozen", labelled("no      Muted   none")),
        )
    )
    sheet = empty_sheet(calm, Paper(width=80, height=24))

    assert golden("06_empty_queue") == [text_of(line).rstrip() for line in (sheet.title, *sheet.body, sheet.last_rule)]


def test_what_is_known_while_nothing_waits() -> None:
    assert golden("06_empty_queue_known") == Scene().connect().rows()


def test_a_queue_of_twelve_and_a_card_still_arming() -> None:
    scene = Scene().connect(*queue_of_twelve())
    scene.feed.tell(SessionsNews(sessions=(muted_codex(),), grants=()))
    scene.press("j").on(0.4)
    scene.clock.wall_ms = NOW_MS

    assert golden("07_queue_of_twelve") == scene.rows()


def test_the_vault_is_locked() -> None:
    scene = Scene().connect(status=replace(READY, vault_state="locked"), approver=False)
    scene.press(*"canarypassphrase")
    scene.clock.wall_ms = NOW_MS

    assert golden("08_vault_locked") == scene.rows()


def test_the_daemon_is_lost() -> None:
    scene = calm_scene()
    why = "in your runtime directory, refused the connection"
    scene.feed.tell(Lost(since_ms=NOW_MS, tries=5, next_try_at_ms=NOW_MS + 15_000, why=why))
    scene.clock.on(12)

    assert golden("09_daemon_lost") == scene.rows()


def test_the_help_over_a_card() -> None:
    scene = armed(calm_scene()).press("question_mark")
    scene.clock.wall_ms = NOW_MS + 2000

    assert golden("16_help") == scene.rows()


def test_a_wide_window() -> None:
    scene = Scene(width=120, height=40, surroundings=Surroundings(tmux=True))
    queue = (
        (wide_write(), 1),
        (expiring(sample(), 100, "ap_000000000018"), 3),
        (brief("RUN", "web-3.restart-web", 115, 5), 1),
    )
    armed(scene.connect(*queue, status=IN_DOUBT))

    assert golden("17_wide") == scene.rows()


def test_a_terminal_without_utf_8() -> None:
    scene = Scene(ascii_only=True)
    scene.connect((calm_read(), 1), (expiring(delete_sample(), 117, "ap_000000000002"), 1), status=IN_DOUBT)
    rows = armed(scene).rows()

    assert golden("01_calm_read_ascii") == rows
    assert "".join(rows).isascii()


def test_the_delete_stands_out_and_the_words_of_others_do_not() -> None:
    scene = Scene().connect((delete_release(), 1))
    spans = [span for line in scene.window.picture().rows for span in line]

    assert Role.DANGER in {span.role for span in spans if span.text == "DELETE"}
    assert {Role.FOREIGN} == {span.role for span in spans if "stale draft" in span.text}
