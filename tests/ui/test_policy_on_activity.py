"""What the Activity screen says of policies that were edited, and of the machine's own."""

from dataclasses import replace

from tests.ui.activity_rows import ROWS
from tests.ui.scenes import Scene
from ui.messages import ActivityNews
from ui.served_log import ActivityRow


def drawn(event: str, **fields: object) -> str:
    row = ActivityRow(id="seq-1", seq=1, last_seq=1, event=event, state="ended", at_ms=ROWS[0].at_ms)
    scene = Scene(width=120).connect().press("2")
    told = replace(row, fields=fields)  # type: ignore[arg-type]  # plain values
    scene.feed.tell(ActivityNews(rows=(told,), anew=True))
    return "\n".join(scene.drawn().rows())


def test_an_edit_that_does_not_load_is_told_with_its_first_fault() -> None:
    told = drawn("policy.edit_refused", faults=1, first="a.toml:2: nosuch: unknown key\x1b[2J", passed_over=0)

    assert "edit does not load" in told
    assert "a.toml:2: nosuch: unknown key" in told
    assert "\x1b" not in told


def test_a_change_of_the_machines_own_policy_is_told_as_roots() -> None:
    told = drawn("policy.reloaded", digest="sha256:3f9c21ab" + "0" * 56)

    assert "changed the machine's policy" in told
    assert "3f9c21ab" in told
