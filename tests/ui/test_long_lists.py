"""Ten thousand rows on each screen: what a frame costs is counted in rows drawn and looked at, never in seconds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from typing_extensions import override

from tests.ui.list_rows import CLAUDE, CREDENTIALS, DEPLOY, DONE, EDITED, READS, WEB_3, checkpoint
from tests.ui.scenes import READY, Scene
from ui.list_messages import CheckpointsNews, HostKeysNews
from ui.listing import Listing
from ui.messages import ActivityNews, CredentialsNews, DoubtsNews, News, PastNews, PolicyNews, SessionsNews
from ui.paper import Paper, Row
from ui.served_log import ActivityRow
from ui.served_policy import PolicyFacts
from ui.session_rows import items_of
from ui.world import ROWS_KEPT, World

MANY = 10_000


def rows_of_the_log(numbers: range) -> tuple[ActivityRow, ...]:
    return tuple(
        ActivityRow(
            id=f"op_{seq}",
            seq=seq,
            last_seq=seq,
            event="action.requested",
            state="ended",
            at_ms=seq,
            operation=f"shop.o{seq}",
        )
        for seq in reversed(numbers)
    )


def many_sessions() -> list[News]:
    sessions = tuple(replace(CLAUDE, id=f"se_{at}", in_flight=()) for at in range(MANY // 4))
    grants = tuple(replace(READS, id=f"gr_{at}", session_id=f"se_{at}") for at in range(MANY // 4))
    past = tuple(replace(DONE, id=f"old_{at}", ended_at_ms=at + 1) for at in range(MANY // 4))
    return [SessionsNews(sessions=sessions, grants=grants), PastNews(sessions=past)]


def many_changes() -> list[News]:
    changes = tuple(
        replace(EDITED.changes[0], direction="tightens", subject=f"agent-{at} READ shop a") for at in range(MANY)
    )
    return [PolicyNews(facts=replace(EDITED, changes=changes))]


LONG: dict[str, Callable[[], list[News]]] = {
    "2": lambda: [ActivityNews(rows=rows_of_the_log(range(MANY)), anew=True)],
    "3": many_sessions,
    "4": lambda: [DoubtsNews(doubts=tuple(replace(DEPLOY, correlation_id=f"op_{at}") for at in range(MANY)))],
    "5": lambda: [
        CredentialsNews(credentials=tuple(replace(CREDENTIALS[0], name=f"c{at}") for at in range(MANY // 2))),
        HostKeysNews(keys=tuple(replace(WEB_3, address=f"h{at}") for at in range(MANY // 2))),
    ],
    "6": many_changes,
    "7": lambda: [CheckpointsNews(checkpoints=tuple(checkpoint(at, at, 1, at) for at in range(MANY)), whole=True)],
}


class Counted(Listing[Any]):
    """Counts how often a row was drawn, and how often one was looked at by the filter."""

    def __init__(self, like: Listing[Any]) -> None:
        self.drawn = self.looked_at = 0
        self._look = like.searched
        super().__init__(same=like.same, searched=self._searched, still=like.still)

    def _searched(self, item: Any) -> str:
        self.looked_at += 1
        return self._look(item)

    @override
    def rows(self, items: Sequence[Any], draw: Callable[[Any], Row], paper: Paper, height: int) -> list[Row]:
        def draw_one(item: Any) -> Row:
            self.drawn += 1
            return draw(item)

        return super().rows(items, draw_one, paper, height)


def counted(made: Scene) -> Counted:
    """In place of the list on the screen."""
    screen: Any = made.window.screen
    screen.listed = Counted(screen.listed)
    return screen.listed  # type: ignore[no-any-return]  # as it was put there


def long_scene(screen: str, size: tuple[int, int]) -> Scene:
    made = Scene(width=size[0], height=size[1]).connect(status=replace(READY, policy_pending=True)).press(screen)
    made.feed.tell(*LONG[screen]())
    return made.drawn()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("screen", LONG)
def test_the_last_of_ten_thousand_rows_is_reached_and_no_frame_makes_more_rows_than_it_shows(
    screen: str, size: tuple[int, int]
) -> None:
    made = long_scene(screen, size)
    listing, before = counted(made), made.rows()
    made.press("G")
    keys = ("k", "pageup", "j", "pagedown", "g", "G")
    made.press(*keys)

    assert before != made.rows()
    assert 0 < listing.drawn <= (4 * len(keys) + 8) * size[1]  # a key draws a few frames, none larger than the screen


@pytest.mark.parametrize("screen", [screen for screen in LONG if screen != "7"])
def test_a_filter_looks_at_each_row_once_and_then_at_what_is_new_alone(screen: str) -> None:
    made = long_scene(screen, (80, 24))
    listing = counted(made)
    made.press("slash", "1")
    first = listing.looked_at
    assert 0 < first <= 2 * MANY
    for _ in range(5):
        made.on(0.3)
    assert first == listing.looked_at

    if screen == "2":
        made.feed.tell(ActivityNews(rows=rows_of_the_log(range(MANY, MANY + 3)), anew=False))
        made.on(0.3)
        assert first + 3 == listing.looked_at


def test_memory_is_bounded_whatever_the_log_tells() -> None:
    made = Scene().connect().press("2")
    for start in range(0, 5 * MANY, MANY):
        made.feed.tell(ActivityNews(rows=rows_of_the_log(range(start, start + MANY)), anew=start == 0))
        made.drawn()

    assert ROWS_KEPT == len(made.window.world.activity or ())
    assert 5 * MANY - 1 == (made.window.world.activity or ())[0].seq


def test_sessions_with_their_grants_are_laid_out_in_one_pass() -> None:
    looked = 0

    class Watched(str):
        __slots__ = ()

        @override
        def __eq__(self, other: object) -> bool:
            nonlocal looked
            looked += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    sessions = tuple(replace(CLAUDE, id=f"se_{at}", in_flight=()) for at in range(500))
    grants = tuple(replace(READS, id=f"gr_{at}", session_id=Watched(f"se_{at}")) for at in range(500))

    items = items_of(World(sessions=sessions, grants=grants), frozenset())
    assert 1500 == len(items)
    assert looked <= 3 * 500


class Walked(tuple[Any, ...]):
    """Rows that count how often somebody begins to walk over all of them."""

    __slots__ = ()
    walks = 0

    @override
    def __iter__(self) -> Iterator[Any]:
        Walked.walks += 1
        return super().__iter__()


def walked(news: News) -> News:
    """The same news, with every list in it counting its walks."""
    more: dict[str, Any] = {}
    for each in fields(news):
        value = getattr(news, each.name)
        if isinstance(value, tuple) and len(value) > 100:
            more[each.name] = Walked(value)
        elif isinstance(value, PolicyFacts):
            more[each.name] = replace(value, changes=Walked(value.changes))
    return replace(news, **more)


@pytest.mark.parametrize("screen", LONG)
def test_a_frame_walks_over_no_list_that_did_not_change(screen: str) -> None:
    made = Scene().connect(status=replace(READY, policy_pending=True)).press(screen)
    made.feed.tell(*(walked(news) for news in LONG[screen]()))
    made.drawn().on(0.3)
    made.press("j")
    Walked.walks = 0
    made.press("k", "pagedown", "G", "g")
    made.on(1.0)

    assert 0 == Walked.walks
