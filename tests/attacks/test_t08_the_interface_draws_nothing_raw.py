"""Whatever others write into a card, the terminal interface draws it harmless, in its place, and never as our words."""

import json
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from broker.contract.neutralise import cells
from broker.contract.wire import WireError, parse_json
from tests.fakes.cards import NOW_MS, sample
from tests.hostile_text import TEXTS, encodable, obeyed
from tests.ui.cards import calm_read, expiring
from tests.ui.scenes import READY, Scene, entry
from ui.messages import (
    ActivityNews,
    ApproverNews,
    CardFault,
    CheckpointNews,
    DoubtsNews,
    Lock,
    Lost,
    NotDone,
    PastNews,
    PolicyNews,
    QueueNews,
    SessionsNews,
    TrailNews,
    VerdictNews,
)
from ui.paper import Paper, Role, text_of
from ui.served import DoubtRow, EventRow, GrantRow, SessionRow
from ui.served_log import ActivityRow, Checkpoint, PastSession, SaidVerdict
from ui.served_policy import ChangeRow, FaultRow, PolicyFacts

CARRIED = [text for text in TEXTS if encodable(text)]  # halves of characters get into no card: see below
AT_ONCE = 6
GROUPS = [CARRIED[at : at + AT_ONCE] for at in range(0, len(CARRIED), AT_ONCE)]
NUMBERS = [f"{at * AT_ONCE:03}" for at in range(len(GROUPS))]


def hostile_evidence(text: str) -> dict[str, Any]:
    """Needs in every state, each of whose texts is the text; so are the looks just before the change."""
    record = {
        "id": text,
        "count": 1,
        "total": None,
        "complete": False,
        "collected_at_ms": NOW_MS,
        "pages": 1,
        "resumable": False,
        "warnings": [text],
        "reasons": [{"code": text, "message": text, "limit": 1, "unit": text, "by": text}],
    }
    need = {"rule": text, "from": text, "claim": text, "max_age_s": 900, "proven": [text], "unproven": [text]}
    states = (text, "complete", "none_recorded", "incomplete", "stale", "target_not_covered", "target_present")
    items = [{**need, "state": state, "record": record} for state in states] + [{**need, "state": text, "record": None}]
    looks = [{"rule": text, "operation": text, "expect": text}]
    return {"needed": True, "state": text, "items": items, "looks": looks, "choices": [text]}


def hostile_card(text: str) -> dict[str, Any]:
    """The text in every field that takes one."""
    raw: dict[str, Any] = sample(
        summary={"effect": "WRITE", "service": text, "operation": text, "identifies": text},
        target={"method": text, "url": text, "plain_http": True},
        who={
            "agent": text,
            "exe": text,
            "cwd": text,
            "label": text,
            "says": text,
            "chain": [{"pid": 1, "name": text, "anchors": True}],
            "interpreter": True,
            "container": True,
        },
        why={"rule": text, "reason": text, "rules": [text, "other"], "file": text},
        uses={"credential": text},
        body={"bytes": len(text.encode()), "media": text, "text": text},
        exact={"headers": [[text, text]]},
        doubts=[
            {"correlation_id": text, "sent_at_ms": NOW_MS, "summary": text, "agent": text, "same_session": False},
        ],
        evidence=hostile_evidence(text),
    )
    raw["yes"] |= {"once": text}
    raw["yes"]["session"] |= {"what": text}
    return expiring(raw, 100, "ap_0000000000ff")


def assert_harmless(scene: Scene) -> None:
    picture = scene.drawn().window.picture()
    for line in picture.rows:
        text = text_of(line)
        assert text.isprintable() or not text
        assert not [one for one in text if obeyed(one)]
        assert scene.width == cells(text) == cell_len(text)  # as the terminal library counts them, too


def assert_in_place(scene: Scene, first: str) -> None:
    """The answers stand where they always stand."""
    rows = scene.rows()
    rule = next(at for at, line in enumerate(rows) if line[20:].startswith("├"))

    assert first in rows[21]
    assert rows[rule].endswith(" ─")
    assert rows[22].startswith("─" * 20 + "┴")
    assert 1 == sum(line[20:21] == "├" for line in rows)


@pytest.mark.parametrize("group", GROUPS, ids=NUMBERS)
def test_no_control_or_hidden_character_reaches_a_row_of_a_card(group: list[str]) -> None:
    for text in group:
        assert_harmless(Scene(width=120, height=40).connect((hostile_card(text), 1)))
        scene = Scene().connect((hostile_card(text), 1))
        assert_harmless(scene)
        for key in ("i", "o", "e"):
            assert_harmless(scene.press(key, "pagedown"))


@pytest.mark.parametrize(
    ("evidence", "first"),
    [(None, "[d Abandon]"), (sample()["evidence"], "[d Deny]")],
    ids=["with a gap in its evidence", "without"],
)
@pytest.mark.parametrize("group", GROUPS, ids=NUMBERS)
def test_the_places_of_the_answers_can_not_be_moved(group: list[str], evidence: Any, first: str) -> None:
    for text in group:
        card = hostile_card(text)
        assert_in_place(Scene().connect((card if evidence is None else {**card, "evidence": evidence}, 1)), first)


def test_a_half_of_a_character_gets_into_no_message_and_is_spelled_where_it_came_from_elsewhere() -> None:
    for text in (one for one in TEXTS if not encodable(one)):
        with pytest.raises(WireError):
            parse_json(json.dumps({"says": text}).encode("ascii"))
        shown = Paper(width=80, height=24).foreign(text)
        assert not [one for one in shown if obeyed(one)]


@pytest.mark.parametrize("group", GROUPS, ids=NUMBERS)
def test_lists_draw_nothing_raw(group: list[str]) -> None:
    for text in group:
        assert_lists_harmless(text)


def assert_lists_harmless(text: str) -> None:
    scene = Scene().connect()
    scene.feed.tell(
        SessionsNews(
            sessions=(
                SessionRow(id="s", agent=text, identified=True, span=text, pid=1, exe=text, cwd=text, label=text,
                           opened_at_ms=NOW_MS, calls=1, denied=0, muted=True),
            ),
            grants=(
                GrantRow(id="g", session_id="s", agent=text, rule=text, scope=text, effect=text, used=1, max_uses=2,
                         made_at_ms=NOW_MS, expires_at_ms=NOW_MS),
            ),
        ),
        DoubtsNews(
            doubts=(
                DoubtRow(correlation_id=text, phase=text, operation=text, summary=text, agent=text, sent_at_ms=NOW_MS,
                         read_back=text, change_key=text),
            )
        ),
        ActivityNews(
            anew=True,
            rows=(
                ActivityRow(id=text, seq=9, last_seq=9, event="action.requested", state=text, at_ms=NOW_MS, agent=text,
                            session_id=text, effect=text, operation=text, target=text, rules=(text,), decision="deny",
                            reason=text, category="call_denied", code=text, retry=text, remote_effect=text),
                ActivityRow(id="b", seq=8, last_seq=8, event="action.requested", state="ended", at_ms=NOW_MS,
                            agent=text, category=text, code=text, status=5, remote_effect=text),
                *(
                    ActivityRow(id=f"seq-{at}", seq=at, last_seq=at, event=event, state="ended", at_ms=NOW_MS, of=text,
                                fields=dict.fromkeys(("rule", "agent", "code", "route", "why", "unreadable"), text))
                    for at, event in enumerate((text, "grant.made", "control.refused", "unreadable", "flood.summary"))
                ),
            ),
        ),
        TrailNews(
            correlation_id=text,
            events=tuple(
                EventRow(seq=at, name=name, at_ms=NOW_MS, correlation_id=text, session_id=text, fields={
                    **dict.fromkeys(("agent", "decision", "approval_id", "code", "credential", "phase", "fault"), text),
                    "reason": text, "rules": [text], "category": text, "request": {"method": text, "url": text},
                })
                for at, name in enumerate((text, "action.requested", "policy.decided", "approval.decided",
                                           "dispatch.started", "transport.failed", "action.result"))
            ),
        ),
        PastNews(
            sessions=(
                PastSession(id=text, agent=text, pid=1, opened_at_ms=None, ended_at_ms=NOW_MS, why=text, requests=1,
                            denied=1, open=0, waiting=0, effects=((text, 1),), last_denial=(NOW_MS, text)),
            )
        ),
        VerdictNews(
            verdict=SaidVerdict(verdict=text, rung=text, note=text, records=1, segment=text, offset=1, seq=1,
                                proven_to=None, at_ms=NOW_MS, took_s=0.1)
        ),
        CheckpointNews(checkpoint=Checkpoint(at_ms=NOW_MS, note=text, size=1, countersigned=False)),
        PolicyNews(
            facts=PolicyFacts(
                digest="sha256:00", counter=1, files=(text,), rules=1, services=((text, text, text, False),),
                changes=(ChangeRow(direction=text, subject=text, was=text, becomes=text),),
                faults=(FaultRow(file=text, line=1, key=text, problem=text, expected=text),),
            )
        ),
    )  # fmt: skip
    for screen in ("2", "3", "4", "6", "7", "1"):
        assert_harmless(scene.press(screen))
        if screen in {"2", "3"}:
            for _ in range(7):
                assert_harmless(scene.press("j"))
        if screen == "2":
            assert_harmless(scene.press("g", "enter"))
            scene.press("escape")


@pytest.mark.parametrize("group", GROUPS, ids=NUMBERS)
def test_what_is_typed_or_pasted_is_drawn_harmless_too(group: list[str]) -> None:
    scene = Scene().connect((calm_read(), 1))
    for text in group:
        for opens in ("d", "slash"):
            scene.press(opens)
            scene.window.paste(text)
            assert_harmless(scene)
            scene.press("escape")


@pytest.mark.parametrize("group", GROUPS, ids=NUMBERS)
def test_the_words_of_others_wear_no_role_of_ours(group: list[str]) -> None:
    for text in group:
        scene = Scene().connect((expiring(sample(who={"says": text}), 100, "ap_0000000000ff"), 1))
        marked = [
            span
            for line in scene.window.picture().rows
            for span in line
            if span.role in {Role.GOOD, Role.DANGER, Role.KEY} and span.text.strip("▌+-! ") not in OURS
        ]
        assert [] == marked


OURS = {
    "", "READ", "vault", "approver", "policy", "audit", "daemon", "a", "s", "x", "d", "ready", "?",
    "j/k", "PgDn", "i", "o", "e", "n", "F", "L", "q", "a  ", "s  ",
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS, ids=NUMBERS)
def test_what_the_daemon_says_of_a_fault_of_its_state_or_of_a_queue_is_drawn_harmless(group: list[str]) -> None:
    for text in group:
        scene = Scene().connect((calm_read(), 1), status=replace(READY, warnings=(text,), vault_reason=text))
        scene.feed.tell(NotDone(task=Lock(), code=text, problem=text))
        assert_harmless(scene)
        scene.feed.tell(CardFault(approval_id="ap_000000000001", problem=text))
        assert_harmless(scene)
        odd = replace(entry(calm_read()), effect=text, operation=text, target=text, agent=text, group=text)
        scene.feed.tell(QueueNews(waiting=(odd, replace(odd, id="ap_2", state=text, ended_by=text))))
        assert_harmless(scene.press("j", "slash"))
        scene.feed.tell(Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS, why=text))
        assert_harmless(scene)
        locked = Scene().connect(status=replace(READY, vault_state=text, vault_locked_for=text), approver=False)
        locked.feed.tell(ApproverNews(ready=False, problem=text))
        assert_harmless(locked)


def test_without_utf_8_every_row_is_ascii() -> None:
    for text in CARRIED[::5]:
        scene = Scene(ascii_only=True).connect((hostile_card(text), 1))
        for key in ("i", "o", "e", "escape"):
            assert all(text_of(line).isascii() for line in scene.press(key).window.picture().rows)
