"""The screens as they were designed, row for row. A golden is changed by hand, after looking at it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fakes.cards import NOW_MS, delete_sample, sample
from tests.ui.activity_rows import ROWS, at
from tests.ui.cards import (
    brief,
    calm_read,
    changed_write,
    delete_accounts,
    delete_release,
    expiring,
    first_contact,
    proven_delete,
    queue_of_twelve,
    repeat_in_doubt,
    wide_gap,
)
from tests.ui.scenes import READY, Scene, golden
from ui.messages import ActivityNews, Lost, SessionsNews
from ui.paper import Paper, Role, Span, row, text_of
from ui.screens.calm import Calm, empty_sheet
from ui.served import GrantRow, SessionRow
from ui.window import Surroundings

pytestmark = pytest.mark.usefixtures("in_utc")

IN_DOUBT = replace(READY, in_doubt=1)


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
    scene = Scene().connect(status=replace(READY, vault_state="locked", vault_locked_for="idle"), approver=False)
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
        (wide_gap(), 1),
        (expiring(sample(), 100, "ap_000000000018"), 3),
        (brief("RUN", "web-3.restart-web", 115, 5), 1),
    )
    armed(scene.connect(*queue, status=IN_DOUBT))

    assert golden("17_wide") == scene.rows()


SIZES = ((80, 24), (80, 22), (120, 40))
CARDS = {
    "01_calm": calm_read,
    "02_delete": proven_delete,
    "03_gap": delete_accounts,
    "04_first_contact": first_contact,
    "05_repeat": repeat_in_doubt,
    "changed": changed_write,
}


@pytest.mark.parametrize(("width", "height"), SIZES, ids=["80x24", "80x22", "120x40"])
@pytest.mark.parametrize("name", CARDS)
def test_the_main_shapes_of_a_card_at_each_size(name: str, width: int, height: int) -> None:
    scene = armed(
        Scene(width=width, height=height).connect((CARDS[name](), 1), (expiring(sample(), 100, "ap_000000000018"), 3))
    )

    assert golden(f"card_{name}_{width}x{height}") == scene.rows()


def _calm(scene: Scene) -> Scene:
    scene.connect()
    scene.clock.wall_ms = at("14:20:00")
    grant = GrantRow(
        id="gr_1", session_id="se_1", agent="claude-code", rule="github-read", scope="rule", effect="READ",
        used=42, max_uses=200, made_at_ms=at("13:54:58"), expires_at_ms=at("14:55:00"),
    )  # fmt: skip
    scene.feed.tell(ActivityNews(rows=ROWS, anew=True), SessionsNews(sessions=(), grants=(grant,)))
    return scene


def _twelve(scene: Scene) -> Scene:
    scene.connect(*queue_of_twelve())
    scene.feed.tell(SessionsNews(sessions=(muted_codex(),), grants=()))
    scene.press("j").on(0.4)
    scene.clock.wall_ms = NOW_MS
    return scene


def _locked(scene: Scene) -> Scene:
    return scene.connect(status=replace(READY, vault_state="locked", vault_locked_for="idle"), approver=False)


def _lost(scene: Scene) -> Scene:
    scene.connect((calm_read(), 1))
    why = "in your runtime directory, refused the connection"
    scene.feed.tell(Lost(since_ms=NOW_MS, tries=5, next_try_at_ms=NOW_MS + 15_000, why=why))
    scene.clock.on(12)
    return scene


def _denying(scene: Scene) -> Scene:
    scene.connect((delete_accounts(), 1)).press("d", *"wait for the owner")
    scene.clock.wall_ms = NOW_MS
    return scene


def _helped(scene: Scene) -> Scene:
    return armed(scene.connect((calm_read(), 1))).press("question_mark")


PAGES: dict[str, Callable[[Scene], Scene]] = {
    "06_calm": _calm,
    "07_twelve": _twelve,
    "08_locked": _locked,
    "09_lost": _lost,
    "16_help": _helped,
    "denying": _denying,
}


@pytest.mark.parametrize(("width", "height"), SIZES, ids=["80x24", "80x22", "120x40"])
@pytest.mark.parametrize("name", PAGES)
def test_the_pages_at_each_size(name: str, width: int, height: int) -> None:
    scene = PAGES[name](Scene(width=width, height=height))
    if name == "16_help":
        scene.clock.wall_ms = NOW_MS

    assert golden(f"page_{name}_{width}x{height}") == scene.rows()


@pytest.mark.parametrize(("width", "height"), [(79, 21), (40, 12)])
def test_below_the_least_size_a_card_can_be_read_and_denied_and_says_so(width: int, height: int) -> None:
    scene = armed(Scene(width=width, height=height).connect((delete_accounts(), 1)))

    assert golden(f"small_{width}x{height}") == scene.rows()


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
