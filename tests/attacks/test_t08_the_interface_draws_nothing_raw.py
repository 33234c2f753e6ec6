"""Whatever others write into a card, the terminal interface draws it harmless, in its place, and never as our words."""

import unicodedata
from typing import Any

import pytest
from rich.cells import cell_len

from broker.contract.neutralise import cells
from tests.fakes.cards import NOW_MS, sample
from tests.ui.cards import expiring
from tests.ui.scenes import Scene
from ui.messages import (
    ActivityNews,
    CheckpointNews,
    DoubtsNews,
    PastNews,
    PolicyNews,
    SessionsNews,
    TrailNews,
    VerdictNews,
)
from ui.paper import Role, text_of
from ui.served import DoubtRow, EventRow, GrantRow, SessionRow
from ui.served_log import ActivityRow, Checkpoint, PastSession, SaidVerdict
from ui.served_policy import ChangeRow, FaultRow, PolicyFacts

HOSTILE = [
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]52;c;YQ==\x07",
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x1b[?1049h",
    "\x1bc",
    "\x9b2J",
    "\x90q\x9c",
    "\x00",
    "\x07\x07\x07",
    "\x08\x08\x08overwritten",
    "\x0b\x0c\x0e\x0f",
    "\x7f",
    "\x85next line",
    "\rREAD   github issues.list",
    "one\ntwo\nthree",
    "\ttab\ttab",
    "\u202egnihtyreve evorppa\u202c",
    "\u2066isolated\u2069",
    "\u200f\u200e\u061c",
    "\u200bzero\u200bwidth\u200b",
    "\u200d\u200c\ufeff",
    "\u2060\u2061\u2062\u2063",
    "soft\u00adhyphen",
    "\u034f\u115f\u1160\u3164\uffa0",
    "\ufe0f\ufe0e\U000e0100",
    "\U000e0041\U000e0042\U000e007f",
    "\u2028line\u2029paragraph",
    "\u00a0\u2003\u3000\u205f\u1680",
    "\ue000\uf8ff\U000f0000",
    "\ufffe\uffff",
    "\ufff9anno\ufffatation\ufffb",
    "e" + "\u0301" * 50,
    "\u0489" * 20,
    "\u0e33\u0e33\u0e33",
    "\u1100\u1161\u11a8",
    "\U0001f1e6\U0001f1e7\U0001f1e8",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\ufdfd\ufdfd",
    "世界" * 30,
    "ﾊﾝｶｸ",
    "\u0440\u0430ypal",
    " " * 200 + "hidden far right",
    "A" * 1000,
    "\\u{202e} spelled out",
    "[red]markup[/red]",
    "[@click=app.quit]press me[/]",
    "[/]",
    "[link=https://evil.example]x[/link]",
    '" says: "yes',
    '"\n\n\nA yes covers nothing',
    "─ A yes covers ──── ready ─",
    "[d Deny]  a Approve once",
    "+ proven, done",
    "! look here",
    "%s%n{0}{evil}${HOME}`id`",
    "&lt;b&gt;<b>bold</b>",
    "\U0001d173\U0001d17a",
    "\u180e\u180b\u2800",
]

NUMBERS = [f"{at:02}" for at in range(len(HOSTILE))]


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
        assert not [one for one in text if unicodedata.category(one) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}]
        assert scene.width == cells(text)


@pytest.mark.parametrize("text", HOSTILE, ids=NUMBERS)
def test_no_control_or_hidden_character_reaches_a_row(text: str) -> None:
    assert_harmless(Scene(width=120, height=40).connect((hostile_card(text), 1)))
    scene = Scene().connect((hostile_card(text), 1))
    assert_harmless(scene)
    for key in ("i", "o", "e"):
        assert_harmless(scene.press(key))
        assert_harmless(scene.press("pagedown"))


@pytest.mark.parametrize(
    ("evidence", "first"),
    [(None, "[d Abandon]"), (sample()["evidence"], "[d Deny]")],
    ids=["with a gap in its evidence", "without"],
)
@pytest.mark.parametrize("text", HOSTILE, ids=NUMBERS)
def test_the_places_of_the_answers_can_not_be_moved(text: str, evidence: Any, first: str) -> None:
    card = hostile_card(text)
    rows = Scene().connect((card if evidence is None else {**card, "evidence": evidence}, 1)).rows()
    rule = next(at for at, line in enumerate(rows) if line[20:].startswith("├"))

    assert first in rows[21]
    assert rows[rule].endswith(" ─")
    assert rows[22].startswith("─" * 20 + "┴")
    assert 1 == sum(line[20:21] == "├" for line in rows)


@pytest.mark.parametrize("text", HOSTILE, ids=NUMBERS)
def test_lists_draw_nothing_raw(text: str) -> None:
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


@pytest.mark.parametrize("text", HOSTILE, ids=NUMBERS)
def test_what_is_typed_or_pasted_is_drawn_harmless_too(text: str) -> None:
    scene = Scene().connect((hostile_card(text), 1)).press("d")
    scene.window.paste(text)

    assert_harmless(scene)


@pytest.mark.parametrize("text", HOSTILE, ids=NUMBERS)
def test_the_words_of_others_wear_no_role_of_ours(text: str) -> None:
    raw = expiring(sample(who={"says": text}), 100, "ap_0000000000ff")
    scene = Scene().connect((raw, 1))
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


@pytest.mark.parametrize("text", HOSTILE, ids=NUMBERS)
def test_the_terminal_library_counts_the_same_columns(text: str) -> None:
    scene = Scene().connect((hostile_card(text), 1))

    assert {80} == {cell_len(text_of(line)) for line in scene.window.picture().rows}


def test_without_utf_8_every_row_is_ascii() -> None:
    for text in HOSTILE:
        scene = Scene(ascii_only=True).connect((hostile_card(text), 1))
        for key in ("i", "o", "e", "escape"):
            assert all(text_of(line).isascii() for line in scene.press(key).window.picture().rows)
