"""What the keys of the listing screens do, and that hostile text and a lost daemon change nothing about it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.contract.neutralise import cells
from tests.fakes.cards import NOW_MS
from tests.ui.list_rows import (
    BACKUP,
    CLAUDE,
    CREDENTIALS,
    DEPLOY,
    DONE,
    EDITED,
    IN_USE,
    READS,
    UNNAMED,
    USES,
    WEB_3,
    checkpoint,
)
from tests.ui.scenes import READY, Scene
from ui.list_messages import (
    CheckCredential,
    CheckedNews,
    CheckpointsNews,
    ForgetHostKey,
    HostKeysNews,
)
from ui.messages import (
    ActivityNews,
    ApproverNews,
    Connected,
    CredentialsNews,
    DoubtsNews,
    Lost,
    News,
    PastNews,
    PolicyNews,
    ReadList,
    ReadTrail,
    SessionsNews,
    TrailNews,
    TryNow,
)
from ui.paper import Role
from ui.served import EventRow
from ui.served_log import ActivityRow
from ui.served_policy import FaultRow

HOSTILE = 'a\x1b[2J\x1b]52;c;Zg\x07\u202ebe\u200bc"\U000e0041\n\tz' + "e\u0301" * 40 + "[bold red]x[/]" + "w" * 300


def vault() -> Scene:
    made = Scene().connect().press("5")
    made.feed.tell(CredentialsNews(credentials=CREDENTIALS), HostKeysNews(keys=(WEB_3,)))
    made.feed.tell(PolicyNews(facts=IN_USE), ActivityNews(rows=USES, anew=True))
    return made.drawn()


def text(made: Scene) -> str:
    return "\n".join(made.drawn().rows())


def test_c_asks_once_whether_a_credential_is_taken_and_the_answer_stands_in_its_row() -> None:
    made = vault().press("j", "j", "c")
    assert [CheckCredential(name="deploy-prod")] == made.feed.done(CheckCredential)
    assert "? unknown" in made.rows()[6]

    made.feed.tell(CheckedNews(name="deploy-prod", at_ms=NOW_MS, verdict="invalid", message="deploy.me: 401"))
    assert "x invalid" in made.drawn().rows()[6]
    assert "refused; deploy.me: 401" in text(made)


def test_a_check_that_tells_nothing_takes_nothing_back() -> None:
    made = vault()
    made.feed.tell(CheckedNews(name="github", at_ms=NOW_MS + 1, verdict="unknown", message="no probe"))

    assert "+ valid" in made.drawn().rows()[4]


def test_a_host_key_is_shown_whole_and_forgotten_after_a_y() -> None:
    made = vault().press("G")
    assert WEB_3.fingerprint in text(made)
    assert [] == made.press("c").feed.done(CheckCredential)
    made.press("R")
    assert "Forget this host key?" in made.rows()[-1]
    made.on(0.6).press("y")

    assert [ForgetHostKey(address="web-3.acme.example", port=22)] == made.feed.done(ForgetHostKey)


def test_forgetting_takes_the_approver_s_key() -> None:
    made = vault()
    made.feed.tell(ApproverNews(ready=False))
    made.feed.tell(CredentialsNews(credentials=CREDENTIALS), HostKeysNews(keys=(WEB_3,)))
    made.press("G", "R").on(0.6).press("y")

    assert [] == made.feed.done(ForgetHostKey)


def test_a_locked_vault_says_why_and_how_it_is_opened() -> None:
    status = replace(READY, vault_state="locked", vault_locked_for="idle", vault_methods=("passphrase", "keyring"))
    made = Scene().connect(status=status, approver=False).press("escape", "5")

    assert "The vault is locked: nobody did anything for too long." in text(made)
    assert "passphrase, keyring" in text(made)
    assert "[1 Approvals]" in text(made.press("u"))


def policy(**more: object) -> Scene:
    made = Scene().connect(status=replace(READY, policy_pending=True)).press("6")
    made.feed.tell(PolicyNews(facts=replace(EDITED, **more)))  # type: ignore[arg-type]  # fields of the facts
    return made.drawn()


def test_e_shows_all_lines_of_a_change_and_v_the_warnings() -> None:
    made = policy().press("e")
    assert 'approval = "per_call"' in text(made)
    assert "[[rules]]" in text(made)  # what did not change is there too
    made.press("escape", "v")
    assert "github.toml:31 max_uses: many uses" in text(made)
    assert "LOOSENS" in text(made.press("escape"))


def test_a_change_whose_row_is_cut_counts_as_seen_when_its_detail_was() -> None:
    long = replace(EDITED.changes[1], becomes="session 20, 3600 s, per rule, with proof, " + "y " * 60 + "xz" * 30)
    made = policy(changes=(EDITED.changes[0], long)).on(3.0)
    assert "see each: j" in text(made)
    made.press("t")
    assert "to trust: [" not in text(made)

    made.press("j").on(2.0)
    assert "see it whole: e" in text(made)  # two rows are no room for all of it
    made.press("e")
    assert "xz" * 30 in text(made)
    made.press("escape").on(2.0)
    assert " ready " in text(made)


def test_cut_rows_that_no_page_shows_whole_are_not_said_to_wait_for_paging() -> None:
    becomes = "session 20, 3600 s, per rule, with proof, fresh"
    long = [replace(EDITED.changes[1], subject=f"any READ deploy op{at}", becomes=becomes) for at in range(40)]
    made = policy(changes=tuple(long)).on(3.0)
    made.press(*["pagedown"] * 12).on(3.0)

    assert "see each: j k" in text(made)


def test_d_keeps_the_old_policy_and_says_so() -> None:
    assert "nothing was changed" in policy().press("d").rows()[-1]


def test_an_edit_that_does_not_load_is_told_with_what_is_wrong_and_nothing_can_be_trusted() -> None:
    fault = FaultRow(file="github.toml", line=15, key="approval", problem="no such value", expected="none or deny")
    made = policy(faults=(fault,), pending_digest=None, changes=(), state="refused").on(2.0).press("t")

    assert "Policy: an edit was refused" in text(made)
    assert "The old policy stays in force." in text(made)
    assert "github.toml:15 approval: no such value; expected none or deny" in text(made)
    assert "to trust: [" not in text(made)


def test_the_trail_of_a_doubt_opens_on_enter_and_closes_on_escape() -> None:
    made = Scene().connect().press("4")
    made.feed.tell(DoubtsNews(doubts=(DEPLOY,)))
    event = EventRow(
        seq=7, name="action.requested", at_ms=NOW_MS, correlation_id=None, session_id=None, fields={"agent": "codex"}
    )
    made.feed.tell(TrailNews(correlation_id=DEPLOY.correlation_id, events=(event,)))
    made.press("enter")
    assert "In doubt: op_0193" in text(made)
    assert "record 7" in text(made)

    assert "A yes covers" in text(made.press("escape"))


def hostile_news() -> dict[str, list[News]]:
    row = ActivityRow(
        id=HOSTILE, seq=1, last_seq=1, event="action.requested", state="ended", at_ms=NOW_MS, agent=HOSTILE,
        effect=HOSTILE, operation=HOSTILE, target=HOSTILE, category="call_denied", decision="deny", reason=HOSTILE,
        code=HOSTILE, rules=(HOSTILE,),
    )  # fmt: skip
    session = replace(CLAUDE, agent=HOSTILE, exe=HOSTILE, cwd=HOSTILE, label=HOSTILE, container=HOSTILE)
    grant = replace(READS, rule=HOSTILE, scope=HOSTILE, effect=HOSTILE)
    doubt = replace(BACKUP, operation=HOSTILE, summary=HOSTILE, agent=HOSTILE, read_back=HOSTILE, change_key=HOSTILE)
    credential = replace(CREDENTIALS[0], name=HOSTILE, kind=HOSTILE, origins=(HOSTILE, HOSTILE))
    change = replace(EDITED.changes[0], subject=HOSTILE, was=HOSTILE, becomes=HOSTILE, place=HOSTILE, rule=HOSTILE)
    change = replace(change, lines=(("+", HOSTILE), (HOSTILE, HOSTILE)))
    host = replace(WEB_3, host=HOSTILE, address=HOSTILE, fingerprint=HOSTILE, algorithm=HOSTILE)
    note = replace(checkpoint(1, 1, 1, NOW_MS), note=HOSTILE)
    return {
        "2": [ActivityNews(rows=(row,), anew=True)],
        "3": [
            SessionsNews(
                sessions=(session, replace(session, id="se_9", muted=True, muted_why=HOSTILE)), grants=(grant,)
            )
        ],
        "4": [DoubtsNews(doubts=(doubt,))],
        "5": [CredentialsNews(credentials=(credential,)), HostKeysNews(keys=(host,))],
        "6": [PolicyNews(facts=replace(EDITED, changes=(change,), files=(HOSTILE,)))],
        "7": [CheckpointsNews(checkpoints=(note,), whole=True)],
    }


@pytest.mark.parametrize("letters", ["utf-8", "ascii"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("screen", ["2", "3", "4", "5", "6", "7"])
def test_text_of_others_moves_no_column_and_sends_no_control_byte(
    screen: str, size: tuple[int, int], letters: str
) -> None:
    made = Scene(width=size[0], height=size[1], ascii_only=letters == "ascii").connect().press(screen)
    made.feed.tell(*hostile_news()[screen])
    for keys in ((), ("j",), ("G",), ("enter",)):
        rows = made.press(*keys).drawn().window.picture().rows
        spans = [span.text for line in rows for span in line]
        assert size[1] == len(rows)
        assert all(part.isprintable() for part in spans), keys
        assert {size[0]} == {sum(cells(span.text) for span in line) for line in rows}


MORNING: dict[str, Callable[[], list[News]]] = {
    "2": lambda: [ActivityNews(rows=USES, anew=True)],
    "3": lambda: [
        SessionsNews(sessions=(CLAUDE, replace(CLAUDE, id="se_9", agent="codex")), grants=(READS,)),
        PastNews(sessions=(DONE,)),
    ],
    "4": lambda: [DoubtsNews(doubts=(DEPLOY, BACKUP))],
    "5": lambda: [CredentialsNews(credentials=CREDENTIALS), HostKeysNews(keys=(WEB_3,))],
    "6": lambda: [PolicyNews(facts=IN_USE)],
    "7": lambda: [CheckpointsNews(checkpoints=(checkpoint(9, 9, 2, NOW_MS), checkpoint(4, 4, 1, NOW_MS)), whole=True)],
}


@pytest.mark.parametrize("screen", MORNING)
def test_after_the_daemon_was_lost_and_is_back_a_screen_is_read_again_and_its_selection_kept(screen: str) -> None:
    made = Scene().connect().press(screen)
    made.feed.tell(*MORNING[screen]())
    made.drawn().press("j")
    selected = [line for line in made.rows() if line.startswith("▌")]
    assert 1 == len(selected)

    made.feed.tell(Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS + 1000, why="refused"))
    assert "old: as at" in made.drawn().rows()[2]
    assert {Role.FAINT} == {
        span.role for line in made.window.picture().rows[3:-2] for span in line if span.text.strip()
    }
    before = len(made.feed.done(ReadList))
    made.feed.tell(Connected(status=READY, waiting=()))
    assert before < len(made.feed.done(ReadList))
    made.feed.tell(ApproverNews(ready=True), *MORNING[screen]())

    assert "old: as at" not in made.drawn().rows()[2]
    assert selected == [line for line in made.rows() if line.startswith("▌")]


@pytest.mark.parametrize("screen", ["3", "4", "5", "6", "7"])
def test_with_an_old_picture_no_key_acts(screen: str) -> None:
    made = Scene().connect().press(screen)
    made.feed.tell(*MORNING[screen]())
    made.drawn()
    made.feed.tell(Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS + 1000, why="refused"))
    before = len(made.feed.tasks)
    for key in ("R", "M", "u", "t", "c", "w"):
        made.press(key).on(0.6).press("y").on(0.3).press("escape")
    assert [] == [task for task in made.feed.tasks[before:] if not isinstance(task, ReadList)]

    made.press("r")
    assert [TryNow()] == made.feed.done(TryNow)


def test_a_dead_key_says_why() -> None:
    made = Scene().connect().press("3")
    made.feed.tell(*MORNING["3"]())
    made.feed.tell(Lost(since_ms=NOW_MS, tries=1, next_try_at_ms=NOW_MS + 1000, why="refused"))

    assert "no connection to the daemon: nothing was done" in made.press("R").rows()[-1]


@pytest.mark.parametrize("screen", MORNING)
def test_a_click_moves_the_focus_to_its_row_and_the_wheel_moves_it_on(screen: str) -> None:
    made = Scene().connect().press(screen)
    made.feed.tell(*MORNING[screen]())
    rows = made.drawn().rows()
    first = next(at for at, line in enumerate(rows) if line.startswith("▌"))
    tasks = len(made.feed.tasks)
    made.press("j")
    second = next(at for at, line in enumerate(made.rows()) if line.startswith("▌"))
    made.window.clicked(5, first)
    assert made.drawn().rows()[first].startswith("▌")
    made.window.clicked(5, 1)  # the names of the screens
    made.window.clicked(5, 22)
    assert made.drawn().rows()[first].startswith("▌")
    made.window.scrolled(1)

    assert made.drawn().rows()[second].startswith("▌")
    assert tasks == len([task for task in made.feed.tasks if not isinstance(task, ReadTrail)])


def test_a_click_on_a_line_that_only_tells_moves_nothing() -> None:
    made = Scene().connect().press("3")
    made.feed.tell(*MORNING["3"]())
    assert "named by [agents]" in made.drawn().rows()[5]
    made.window.clicked(5, 5)

    assert made.drawn().rows()[4].startswith("▌")


def test_a_program_that_no_policy_names_is_shown_with_what_would_name_it() -> None:
    made = Scene().connect().press("3")
    unnamed = replace(UNNAMED, naming=("/usr/bin/python3", "/srv/agent\u202e.py"))
    made.feed.tell(SessionsNews(sessions=(unnamed,), grants=()))

    assert '[agents.NAME] exe "/usr/bin/python3", argv "/srv/agent\\u{202e}.py"' in text(made)


def test_an_interpreter_that_has_a_name_is_flagged() -> None:
    made = Scene().connect().press("3")
    made.feed.tell(SessionsNews(sessions=(replace(CLAUDE, interpreter=True),), grants=()))

    assert "! an interpreter" in text(made)
