from dataclasses import replace

import pytest

from tests.fakes.cards import NOW_MS
from tests.ui.scenes import READY, Scene
from ui.messages import (
    CredentialsNews,
    Done,
    DoubtsNews,
    EndSession,
    Mute,
    PolicyNews,
    ReadBack,
    ReadList,
    RevokeGrant,
    SessionsNews,
    Settle,
    Trust,
)
from ui.served import CredentialRow, DoubtRow, GrantRow, SessionRow, Status
from ui.served_policy import ChangeRow, FaultRow, PolicyFacts

SESSION = SessionRow(
    id="se_1",
    agent="claude-code",
    identified=True,
    span="tree",
    pid=4711,
    exe="/usr/bin/node",
    cwd="/home/ann/src/site",
    label="main",
    opened_at_ms=NOW_MS - 38 * 60_000,
    calls=22,
    denied=0,
    muted=False,
)
GRANT = GrantRow(
    id="gr_1",
    session_id="se_1",
    agent="claude-code",
    rule="github-read",
    scope="github-read",
    effect="read",
    used=42,
    max_uses=200,
    made_at_ms=NOW_MS - 25 * 60_000,
    expires_at_ms=NOW_MS + 35 * 60_000 + 30_000,
)
DOUBT = DoubtRow(
    correlation_id="op_0193a1b2c3d4",
    phase="handed over, no answer",
    operation="deploy.deployments.create",
    summary="deploy deployments.create, prod web 2.4.1",
    agent="claude-code",
    sent_at_ms=NOW_MS - 18 * 60_000,
    read_back="deployments.list",
    change_key="any create on deploy prod web",
)
POLICY = PolicyFacts(
    digest="sha256:3f9c21ab" + "0" * 56,
    counter=17,
    files=("github.toml",),
    rules=4,
    services=(("github", "https://api.github.com", "github", True),),
)


def change(direction: str, subject: str) -> ChangeRow:
    return ChangeRow(direction=direction, subject=subject, was="ask each", becomes="session")


def pending(*changes: ChangeRow, faults: tuple[FaultRow, ...] = ()) -> PolicyFacts:
    return replace(
        POLICY,
        pending_digest="sha256:b7d0412e" + "1" * 56,
        pending_counter=18,
        pending_files=("github.toml",),
        changes=changes,
        faults=faults,
        same=False,
    )


def sessions_scene() -> Scene:
    scene = Scene().connect().press("3")
    scene.feed.tell(
        SessionsNews(sessions=(SESSION, replace(SESSION, id="se_2", agent="codex", muted=True)), grants=(GRANT,))
    )
    return scene.drawn()


def doubts_scene() -> Scene:
    scene = Scene().connect(status=replace(READY, in_doubt=1)).press("4")
    scene.feed.tell(DoubtsNews(doubts=(DOUBT,)))
    return scene.drawn()


def policy_scene(facts: PolicyFacts) -> Scene:
    scene = Scene().connect(status=replace(READY, policy_pending=facts.waits)).press("6")
    scene.feed.tell(PolicyNews(facts=facts))
    return scene.drawn()


def test_sessions_stand_with_their_grants_below_them() -> None:
    rows = sessions_scene().rows()

    assert rows[4].startswith("▌claude-code   pid 4711       38 min     22       0")
    assert rows[5] == " │ named by [agents]: node"
    assert rows[6].startswith(" └─ grant github-read         25 min  42/200         35 min left, READ")
    assert rows[7].endswith("MUTED")


def test_r_revokes_a_grant_or_ends_a_session_after_a_y() -> None:
    scene = sessions_scene().press("R").on(0.5).press("y")
    assert [EndSession(session_id="se_1")] == scene.feed.done(EndSession)

    scene.press("j")
    assert scene.rows()[6].startswith("▌└─ grant")  # a line that only tells is passed over
    scene.press("R").on(0.5).press("y")
    assert [RevokeGrant(grant_id="gr_1")] == scene.feed.done(RevokeGrant)


def test_a_session_is_ended_with_its_processes_where_that_is_asked_for() -> None:
    scene = sessions_scene().press("R")
    assert "K and kill its processes" in scene.rows()[-1]
    scene.on(0.5).press("K")

    assert [EndSession(session_id="se_1", kill=True)] == scene.feed.done(EndSession)


def test_mute_asks_and_unmute_is_signed() -> None:
    scene = sessions_scene().press("M").on(0.5).press("y").press("j", "j", "u")

    assert [Mute(session_id="se_1", muted=True), Mute(session_id="se_2", muted=False)] == scene.feed.done(Mute)


def test_an_unnamed_program_is_marked() -> None:
    scene = Scene().connect().press("3")
    scene.feed.tell(SessionsNews(sessions=(replace(SESSION, agent="unidentified", identified=False),), grants=()))

    assert scene.drawn().rows()[4].startswith("▌! unidentified  pid 4711     38 min     22       0")


def test_a_doubt_says_what_it_blocks() -> None:
    text = " ".join(doubts_scene().rows())

    assert "Blocks: any create on deploy prod web, by anyone, until this is settled." in text
    assert "1 open, oldest 18 min" in text


def test_r_reads_back_where_that_is_declared() -> None:
    assert [ReadBack(correlation_id="op_0193a1b2c3d4")] == doubts_scene().press("r").feed.done(ReadBack)

    scene = Scene().connect().press("4")
    scene.feed.tell(DoubtsNews(doubts=(replace(DOUBT, read_back=None),)))
    scene.drawn().press("r")
    assert [] == scene.feed.done(ReadBack)
    assert "nothing to read back" in scene.rows()[-1]


def test_what_a_read_back_came_to_takes_the_place_of_its_announcement_and_the_list_is_read_anew() -> None:
    scene = doubts_scene().press("r")
    assert "reading back" in scene.rows()[-1]
    (asked,) = scene.feed.done(ReadBack)
    before = len(scene.feed.done(ReadList))

    scene.feed.tell(Done(task=asked, words="read back: success / reconciled"))
    assert "read back: success / reconciled" in scene.drawn().rows()[-1]
    assert before + 1 == len(scene.feed.done(ReadList))


def test_settling_takes_a_choice_a_reason_and_a_y() -> None:
    scene = doubts_scene().press("t", "2", *"looked", "enter").on(0.5)
    assert [] == scene.feed.done(Settle)

    scene.press("y")
    assert [Settle(correlation_id="op_0193a1b2c3d4", outcome="not_applied", reason="looked")] == scene.feed.done(Settle)


@pytest.mark.parametrize("keys", [("t", "3", "enter", "y"), ("t", "1", "enter", "y"), ("t", "1", "x", "escape", "y")])
def test_half_a_settlement_settles_nothing(keys: tuple[str, ...]) -> None:
    assert [] == doubts_scene().press(*keys).on(1.0).feed.done(Settle)


def test_what_is_sealed_says_so() -> None:
    scene = Scene().connect(approver=False)

    for screen in ("2", "4", "5"):
        assert "Sealed: unlock the approver key" in " ".join(scene.press(screen).rows())


def test_no_credential_value_has_a_place_on_the_vault_screen() -> None:
    scene = Scene().connect().press("5")
    row = CredentialRow(
        name="github",
        kind="bearer",
        origins=("https://api.github.com", "https://uploads.github.com"),
        version=3,
        created_at_ms=NOW_MS,
        rotated_at_ms=None,
    )
    scene.feed.tell(CredentialsNews(credentials=(row,)))
    rows = scene.drawn().rows()

    assert rows[4].startswith("▌github        bearer     https://api.github.com +1    ? unknown  not seen")
    assert any("never shown, here or anywhere" in line for line in rows)


def test_what_loosens_stands_above_what_tightens() -> None:
    rows = policy_scene(pending(change("tightens", "any DELETE"), change("loosens", "claude-* WRITE"))).rows()
    loosened = next(at for at, line in enumerate(rows) if "claude-*  WRITE" in line)
    tightened = next(at for at, line in enumerate(rows) if "any       DELETE" in line)

    assert rows.index(next(line for line in rows if line.startswith(" LOOSENS"))) < loosened < tightened
    assert rows[loosened].startswith("▌! claude-*")


def test_trust_takes_four_typed_digits_after_the_arming() -> None:
    scene = policy_scene(pending(change("loosens", "claude-* WRITE")))
    assert "Type b7d0" not in " ".join(scene.press("t").rows())

    assert "Type b7d0" in " ".join(scene.on(2.0).press("t").rows())
    scene.press(*"b7d0", "enter").on(0.2)
    assert [Trust(digest="sha256:b7d0412e" + "1" * 56, counter=18)] == scene.feed.done(Trust)


def test_a_loosened_line_has_to_be_seen_before_the_trust() -> None:
    scene = policy_scene(pending(*(change("loosens", f"agent-{at} WRITE") for at in range(30)))).on(3.0)
    assert "see the rest: PgDn" in " ".join(scene.rows())
    assert "Type b7d0" not in " ".join(scene.press("t").rows())

    for _ in range(5):
        scene.press("pagedown")
    scene.on(2.0).press("t", *"b7d0", "enter").on(0.2)
    assert 1 == len(scene.feed.done(Trust))


def test_edited_files_with_faults_can_not_be_trusted() -> None:
    fault = FaultRow(file="github.toml", line=3, key="rules[0].when", problem="unknown key", expected="one of agent")
    scene = policy_scene(pending(faults=(fault,))).on(3.0).press("t")

    assert "Type b7d0" not in " ".join(scene.rows())
    assert any("! FAULT github.toml:3 rules[0].when: unknown key" in line for line in scene.rows())


def test_keys_of_a_filter_are_text() -> None:
    scene = Scene().connect().press("2", "slash", "q", "F", "1")

    assert 2 == scene.window.current
    assert "/ qF1" in scene.rows()[2]


def test_a_filter_that_no_row_fits_says_so_and_how_to_leave_it() -> None:
    scene = doubts_scene().press("slash", "z", "z", "enter")
    assert "No row holds these words. Esc shows all again." in scene.rows()[4]

    assert not any("No row holds" in line for line in scene.press("escape").rows())


VERIFIED = replace(READY, audit_verdict="OK", audit_rung="vault", audit_verified_at_ms=NOW_MS)
BROKEN = replace(VERIFIED, audit_verdict="ALTERED", warnings=("audit log: ALTERED: record 7",))


@pytest.mark.parametrize(
    ("status", "words", "lamp"),
    [
        (READY, "not made yet", "+audit"),
        (replace(READY, audit_verifying=40), "verifying, 40 % done", "+audit"),
        (VERIFIED, "OK at 14:20:00, held against: vault", "+audit"),
        (replace(VERIFIED, audit_verdict="OK_UNANCHORED", audit_rung="none"), "OK_UNANCHORED at", "!audit UNANCHORED"),
        (BROKEN, "! ALTERED at 14:20:00  see the warnings", "!audit ALTERED"),
        (replace(BROKEN, audit_known=True), "damage that was taken over; the rest is whole", "+audit"),
    ],
)
def test_the_audit_screen_and_the_header_show_the_daemons_verdict(status: Status, words: str, lamp: str) -> None:
    rows = Scene(width=120).connect(status=status).press("7").rows()
    text = " ".join(rows)

    assert "4,212 records" in text
    assert words in text
    assert lamp in rows[0]
    assert all(warning in text for warning in status.warnings)


def test_the_vault_screen_says_why_nothing_runs_and_names_the_way_out() -> None:
    why = "the vault is quarantined (audit_altered): records of the audit log were altered; restore what is missing"
    status = replace(BROKEN, vault_state="quarantined", vault_reason="audit_altered", warnings=("other", why))
    rows = Scene().connect(status=status).press("5").rows()
    text = " ".join(" ".join(rows).split())

    assert "! the vault is quarantined (audit_altered): records of the audit log were altered" in text
    assert "doorward vault readopt" in text
    assert "other" not in text
    assert "!vault QUARANTINED" in rows[0]
