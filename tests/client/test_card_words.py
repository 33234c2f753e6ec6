import time

import pytest

from broker.client import card_words as words
from broker.client.card import Card, parse_card
from broker.contract.wire import JsonValue
from tests.fakes.cards import NOW_MS, TAIL, delete_sample, sample


def card(**changes: JsonValue) -> Card:
    return parse_card(sample(**changes))


def deletion() -> Card:
    return parse_card(delete_sample())


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (-5, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (38 * 60_000, "38 min"),
        (3_600_000, "1 h"),
        (47 * 3_600_000, "47 h"),
        (48 * 3_600_000, "2 d"),
    ],
)
def test_durations_are_rounded_down_to_one_unit(ms: int, shown: str) -> None:
    assert shown == words.duration(ms)
    assert f"{shown} old" == words.age(NOW_MS - ms, NOW_MS)


@pytest.mark.parametrize(("ms", "shown"), [(102_000, "1:42"), (999, "0:00"), (-1, "0:00"), (4_320_000, "72:00")])
def test_a_countdown_is_minutes_and_seconds(ms: int, shown: str) -> None:
    assert shown == words.countdown(ms)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(90, "90 s"), (3600, "60 min"), (7200, "2 h"), (3601, "3601 s"), (9000, "150 min")]
)
def test_a_limit_is_never_rounded(seconds: int, shown: str) -> None:
    assert shown == words.lifetime(seconds)


def test_clock_times_are_those_here() -> None:
    assert time.strftime("%H:%M:%S", time.localtime(NOW_MS / 1000)) == words.clock_time(NOW_MS)


def test_the_summary_is_effect_service_operation_and_what_it_is_about() -> None:
    assert "READ   github issues.list, acme/site" == words.summary(card())
    assert "DELETE github releases.delete, acme/site 1290" == words.summary(deletion())
    assert words.summary(card(summary={"targets": 3})).endswith(", 3 targets")
    assert "READ   github GET" == words.summary(card(summary={"operation": "GET", "identifies": ""}))


def test_a_long_summary_is_cut_in_the_middle_and_known_to_be() -> None:
    long = card(summary={"identifies": "x-" * 40 + "end"})

    shown = words.summary(long, columns=57)
    assert 57 == len(shown)
    assert "…" in shown
    assert shown.endswith("x-end")
    assert words.summary_was_cut(long, 57)
    assert not words.summary_was_cut(card(), 57)


def test_a_cut_leaves_no_mark_without_its_letter_and_no_half_of_a_wide_sign() -> None:
    assert "aaaaaaaa…b" == words.middle_cut("a" * 9 + "e\u0301\u0301b", 10)
    assert "日日日…日" == words.middle_cut("日" * 20, 10)
    assert "…" == words.middle_cut("abcdef", 1)


def test_the_target_is_shown_as_sent_and_plain_http_stands_out() -> None:
    assert "GET api.github.com/repos/acme/site/issues?state=open" == words.target(card(), whole_url=False)
    assert "GET https://api.github.com/repos/acme/site/issues?state=open" == words.target(card(), whole_url=True)
    plain = card(target={"url": "http://localhost/x", "plain_http": True})
    assert "! GET http://localhost/x" == words.target(plain, whole_url=False)


@pytest.mark.parametrize(
    ("same", "by"), [(True, "by this session, op_1"), (False, "by another session of codex, op_1")]
)
def test_a_change_in_doubt_says_that_a_yes_may_do_it_twice(*, same: bool, by: str) -> None:
    attempt: dict[str, JsonValue] = {
        "correlation_id": "op_1",
        "sent_at_ms": NOW_MS - 360_000,
        "summary": "POST https://d",
        "agent": "codex",
    }
    lines = words.earlier(card(doubts=[{**attempt, "same_session": same}]).doubts[0], NOW_MS)

    assert "? This change was sent 6 min ago, end unknown." == lines[0]
    assert lines[1].endswith(" POST https://d")
    assert by == lines[2]
    assert "TWICE" in lines[3]


def test_who_is_name_age_and_counts() -> None:
    assert "claude-code, 38 min old, 14 calls, 0 denied" == words.who(card(), NOW_MS)
    unknown = card(who={"identified": False, "agent": "unidentified", "calls": 1})
    assert "! unidentified, 38 min old, 1 call, 0 denied" == words.who(unknown, NOW_MS)


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        ("tree", "session: pid 4711 and what it starts"),
        ("process", "session: pid 4711 alone"),
        ("connection", "session: this one connection of pid 4711; it ends with it"),
        ("odd\n", "session: pid 4711, odd\\n"),
    ],
)
def test_the_span_says_what_a_grant_would_reach(span: str, shown: str) -> None:
    assert shown == words.span(card(who={"span": span}))


def test_what_speaks_against_a_name_is_said() -> None:
    assert [] == words.doubts_about_who(card())
    lines = words.doubts_about_who(card(who={"container": True, "interpreter": True}))
    assert 2 == len(lines)
    assert all(line.startswith("! ") for line in lines)


def test_the_agents_words_are_quoted_and_hidden_characters_counted() -> None:
    assert ['says: "look for open bugs about the login"'] == words.says(card())
    assert [] == words.says(card(who={"says": None}))
    assert [
        'says: "\\u{202e}gnihtyreve evorppa\\u{202c}"',
        "! hidden characters in its words (2)",
    ] == words.says(card(who={"says": "\u202egnihtyreve evorppa\u202c"}))


def test_the_chain_names_who_can_never_hold_a_session() -> None:
    assert "node 4711 < zsh 4102 (never a session)" == words.chain(card())
    assert "process chain: not known" == words.chain(card(who={"chain": []}))


def test_place_quotes_what_the_agent_could_have_chosen() -> None:
    assert ['program "/usr/bin/node"', 'works in "/home/ann/src/site"'] == words.place(card())
    assert ["program: not known", 'label says: "a\\" b"'] == words.place(
        card(who={"exe": None, "cwd": None, "label": 'a" b'})
    )


def test_joined_requests_are_counted_only_if_there_are_some() -> None:
    assert [] == words.joined(1)
    assert ["asked 3 times the same; one answer serves all"] == words.joined(3)


@pytest.mark.parametrize(
    ("gate", "reason", "shown"),
    [
        ("session", "Reading", "rule github-read asks once in each session: Reading"),
        ("per_call", "", "rule github-read asks each time"),
        ("odd", "", "rule github-read asks"),
    ],
)
def test_why_names_the_rule_and_how_often_it_asks(gate: str, reason: str, shown: str) -> None:
    assert shown == words.why(card(why={"gate": gate, "reason": reason}))


def test_where_ruled_names_file_line_and_the_other_rules() -> None:
    assert ["in policies/github.toml:31"] == words.where_ruled(card())
    assert ["in policies/github.toml:31", "also matched: any-write"] == words.where_ruled(deletion())
    assert ["in /etc/doorward/policies/a.toml"] == words.where_ruled(
        card(why={"file": "/etc/doorward/policies/a.toml", "line": None})
    )
    assert [] == words.where_ruled(card(why={"file": None}))


@pytest.mark.parametrize(
    ("uses", "shown"),
    [
        ({"credential": None, "version": None}, "no credential"),
        ({"credential": "github", "version": 3}, "credential github (its value stays inside), version 3"),
        ({"credential": "github", "version": None}, "credential github (its value stays inside)"),
    ],
)
def test_uses_names_the_credential_and_no_value(uses: dict[str, JsonValue], shown: str) -> None:
    assert shown == words.uses(card(uses=uses))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"bytes": 0}, "none"),
        ({"bytes": 4, "text": "a=b\n", "media": "text/plain"}, "4 of 4 bytes, text, no hidden characters"),
        ({"bytes": 4, "text": "a\u200b", "media": "x/\x1b"}, "4 of 4 bytes, x/\\u{1b}, ! hidden characters (1)"),
        ({"bytes": 9, "sha256": "ab", "media": "image/png"}, "9 bytes, image/png, not text: sha256 ab"),
        ({"bytes": 1, "sha256": None}, "1 byte, not text: sha256 not known"),
        (
            {"bytes": 70_000, "text": "abc", "cut": True, "sha256": "ab"},
            "3 of 70000 bytes, no hidden characters, ! the rest is not shown: sha256 ab",
        ),
    ],
)
def test_the_body_says_how_much_of_it_can_be_seen(body: dict[str, JsonValue], shown: str) -> None:
    assert shown == words.body(card(body=body))


def test_body_lines_keep_line_ends_and_nothing_else() -> None:
    assert ["a", "b\\u{1b}[2J\\t"] == words.body_lines(card(body={"bytes": 9, "text": "a\nb\x1b[2J\t"}))
    assert [] == words.body_lines(card())


def test_a_yes_once_says_what_can_not_be_undone() -> None:
    assert "this one request, once" == words.yes_once(card())
    assert "this one request, once. It can not be undone." == words.yes_once(deletion())
    assert "this one request, once (all 3 calls get its answer)" == words.yes_once(card(), joined_calls=3)
    assert "this one request, once" == words.yes_once(card(summary={"effect": "WRITE"}, yes={"undo": True}))


def test_a_yes_for_the_session_says_scope_limits_and_end_or_why_there_is_none() -> None:
    assert (
        "any request under rule github-read, by this session alone: 200 calls or 60 min, ends with the process"
        == words.yes_session(card())
    )
    assert words.yes_session(card(who={"span": "connection"})).endswith("ends with the connection")
    assert "not offered: this rule asks each time" == words.yes_session(deletion())


def test_an_offer_with_gaps_is_still_said_in_words() -> None:
    bare = {"offered": True, "per": None, "what": None, "max_uses": None, "max_age_s": None, "why_not": None}

    shown = words.yes_session(card(yes={"session": bare}))
    assert "any request under this rule, by this session alone: no limit set, ends with the process" == shown
    assert "not offered" == words.yes_session(card(yes={"session": {**bare, "offered": False}}))


def test_digests_are_short_for_the_eye_and_whole_on_demand() -> None:
    shown = words.digests(card(), "sha256:5b02c9e1" + TAIL, whole=False)
    assert "request sha256:a41e07d2   card sha256:5b02c9e1" == shown
    assert TAIL in words.digests(card(), "sha256:5b02c9e1" + TAIL, whole=True)
    assert "odd" == words.short_digest("odd")
