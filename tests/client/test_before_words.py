"""The sentences on what a human said earlier, on what a no covers, and on who has no name yet."""

import pytest

from broker.client import before_words, card_words
from broker.client.card import Card, parse_card
from broker.client.card_text import card_lines
from broker.client.faults import Broken
from broker.contract.wire import JsonValue
from tests.fakes.cards import NOW_MS, TAIL, before_part, gap_sample, sample


def card(**changes: JsonValue) -> Card:
    return parse_card(sample(**changes))


def test_a_daemon_that_tells_nothing_of_the_past_is_not_spoken_for() -> None:
    assert [] == before_words.sentences(card(), NOW_MS)
    assert "nothing is sent" == before_words.denial(card())
    assert [] == before_words.repeat_key(card())


@pytest.mark.parametrize(
    ("times", "said"), [(0, "not denied today"), (1, "denied once"), (2, "denied twice"), (7, "denied 7 times")]
)
def test_denials_of_today_are_counted_in_words(times: int, said: str) -> None:
    (line,) = before_words.sentences(card(before=before_part(denied=times)), NOW_MS)

    assert line.startswith(f"nothing in doubt for this; {said}")


def test_the_line_reads_as_it_was_drawn() -> None:
    drawn = parse_card(gap_sample(before=before_part(denied=1)))

    assert ["nothing in doubt for these targets; denied once today: rule account-delete"] == before_words.sentences(
        drawn, NOW_MS
    )


def test_what_differs_from_the_last_approved_is_said_value_by_value() -> None:
    changes = [("body.tag", '"a"', '"b"'), ("query \u202ex", None, "1\n2"), ("header y", "old", None)]
    lines = before_words.sentences(card(before=before_part(changes=changes, more=2)), NOW_MS)

    assert [
        "last approved 3 min ago, once; differs in 5 places:",
        '- body.tag "a"',
        '+ body.tag "b"',
        '+ query \\u{202e}x "1\\n2"',
        '- header y "old"',
        "! 2 more not shown",
    ] == lines[1:]
    assert ["last approved 3 min ago, once; nothing differs"] == before_words.sentences(
        card(before=before_part(changes=[])), NOW_MS
    )[1:]


@pytest.mark.parametrize(
    ("value", "drawn"),
    [
        ('"a b"', '"a b"'),
        ('"a\\"b"', '"\\"a\\\\\\"b\\""'),
        ("-1.5e+3", "-1.5e+3"),
        ("null", "null"),
        ('"begins like this…', '"\\"begins like this…"'),
        ("…and ends with d \u202e approve", '"…and ends with d \\u{202e} approve"'),
        ('"', '"\\""'),
        ("12 files", '"12 files"'),
    ],
)
def test_leaves_of_json_are_drawn_as_json_and_parts_of_them_in_quotes(value: str, drawn: str) -> None:
    *_, line = before_words.sentences(card(before=before_part(changes=[("body.x", None, value)])), NOW_MS)

    assert f"+ body.x {drawn}" == line


def test_doubts_are_pointed_at_and_a_grant_is_called_one() -> None:
    part = before_part(changes=[])
    part["previous"] = {**part["previous"], "scope": "session"}  # type: ignore[dict-item]  # it is an object
    attempt: JsonValue = {
        "correlation_id": "op_1", "sent_at_ms": NOW_MS, "summary": "POST", "agent": "codex", "same_session": True,
    }  # fmt: skip
    first, second = before_words.sentences(card(doubts=[attempt], before=part), NOW_MS)

    assert "! 1 attempt in doubt, see above; not denied today" == first
    assert "last approved 3 min ago, for the session; nothing differs" == second


def test_a_no_says_how_long_it_stands_and_a_key_is_named() -> None:
    told = card(no={"memory_s": 600}, exact={"idempotency_key": "dw-1f"})
    lines = card_lines(
        told, card_digest="sha256:" + TAIL, state="pending", expires_at_ms=NOW_MS, joined=1, now_ms=NOW_MS, width=100
    )

    assert "the same change is refused for 10 min without asking" == before_words.denial(told)
    assert "  deny     the same change is refused for 10 min without asking" in lines
    assert "         repeat key dw-1f" in lines


def test_the_text_of_a_card_has_the_past_before_the_digests() -> None:
    lines = card_lines(
        card(before=before_part(denied=1)),
        card_digest="sha256:" + TAIL,
        state="pending",
        expires_at_ms=NOW_MS,
        joined=1,
        now_ms=NOW_MS,
        width=100,
    )
    past = lines.index("Before   nothing in doubt for this; denied once today: rule account-delete")

    assert lines[past + 1].startswith("Exact    request sha256:")


def test_an_agent_without_a_name_can_be_given_one() -> None:
    unknown: dict[str, JsonValue] = {"agent": "unidentified", "identified": False}

    def offered(naming: JsonValue) -> str:
        (line,) = card_words.naming(card(who={**unknown, "naming": naming}))
        return line.removeprefix("to name it, in [agents] of a policy file: ")

    assert [] == card_words.naming(card())
    assert 'my-agent = { exe = "/opt/own" }' == offered({"exe": "/opt/own", "argv": None})
    assert 'my-agent = { exe = "/usr/bin/node", argv = "/opt/x\\u{202e}.js" }' == offered(
        {"exe": "/usr/bin/node", "argv": "/opt/x\u202e.js"}
    )
    assert "doorward policy add agents" in offered(None)


def test_a_part_that_this_client_can_not_show_is_refused() -> None:
    with pytest.raises(Broken, match=r"card\.before: mood"):
        card(before={**before_part(), "mood": "good"})


def test_looking_first_is_offered_where_something_could_tell() -> None:
    attempt: dict[str, JsonValue] = {
        "correlation_id": "op_1", "sent_at_ms": NOW_MS, "summary": "POST", "agent": "codex", "same_session": True,
    }  # fmt: skip
    readable = card(doubts=[{**attempt, "read_back": None}, {**attempt, "read_back": "deployments.list"}])
    lines = card_lines(
        readable,
        card_digest="sha256:" + TAIL,
        state="pending",
        expires_at_ms=NOW_MS,
        joined=1,
        now_ms=NOW_MS,
        width=120,
    )

    assert before_words.read_back(card()) is None
    assert before_words.read_back(card(doubts=[attempt])) is None
    assert "one read: deployments.list; it may settle the doubt, then this is asked again" == before_words.read_back(
        readable
    )
    assert any(line.startswith("  read-back") for line in lines)
    assert "| read-back ap_0123456789ab" in lines[-1]
