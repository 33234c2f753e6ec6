import json
import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.neutralise import (
    MARKS_LIMIT,
    RUN_LIMIT,
    SMALLEST_LIMIT,
    cells,
    hidden_count,
    quoted,
    visible,
    visible_json,
)

ODD = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from(
            '\x00\x1b\x7f\x85\x9b\u200b\u202e\u2066\u00ad\ufeff\ufe0f\u3164\u115f\u2800\u0301\u034f\\"\n\t '
        ),
        st.integers(0xE0000, 0xE01EF).map(chr),
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J", "\\u{1b}[2J"),  # escape sequence
        ("\x9b31m", "\\u{9b}31m"),  # the same by a C1 byte
        ("a\x00b\x7f", "a\\u{0}b\\u{7f}"),
        ("\u202egnihtyreve\u202c", "\\u{202e}gnihtyreve\\u{202c}"),
        ("a\u2066b\u2069", "a\\u{2066}b\\u{2069}"),
        ("pay\u200bpal", "pay\\u{200b}pal"),
        ("a\u200db", "a\\u{200d}b"),
        ("a\u00adb", "a\\u{ad}b"),
        ("a\ufeffb", "a\\u{feff}b"),
        ("a\ufe0fb", "a\\u{fe0f}b"),
        ("a\U000e0100b", "a\\u{e0100}b"),
        ("a\U000e0041b", "a\\u{e0041}b"),  # tag character
        ("a\u034fb", "a\\u{34f}b"),
        ("a\u3164b", "a\\u{3164}b"),
        ("a\u2800b", "a\\u{2800}b"),
        ("a\u00a0b\u2003c\u3000d", "a\\u{a0}b\\u{2003}c\\u{3000}d"),
        ("a\u2028b\u2029", "a\\u{2028}b\\u{2029}"),
        ("\ue000\U000f0000", "\\u{e000}\\u{f0000}"),
        ("\u0378", "\\u{378}"),  # unassigned
        ("\ud800", "\\u{d800}"),
        ("\u0915\u093f", "\u0915\\u{93f}"),  # a spacing mark: terminals disagree on its width
        ("\ufdfd\U0001f1e9", "\\u{fdfd}\\u{1f1e9}"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("a\\u{202e}", "a\\\\u{202e}"),
    ],
)
def test_what_hides_becomes_a_visible_escape(hostile: str, shown: str) -> None:
    assert shown == visible(hostile)


@pytest.mark.parametrize(
    "honest", ["", "plain words, digits 12 and signs [/] <b>", "Grüße", "日本語", "שלום", "de\u0301ja\u0300", "🙂"]
)
def test_letters_of_all_scripts_and_markup_stay_as_they_are(honest: str) -> None:
    assert honest == visible(honest)
    assert 0 == hidden_count(honest)


def test_marks_beyond_the_second_are_shown_as_escapes() -> None:
    assert "a\u0301\u0302\\u{303}b" == visible("a\u0301\u0302\u0303b")
    assert MARKS_LIMIT == 2


@pytest.mark.parametrize("before", ["", " ", "\n", "\u202e"])
def test_a_mark_without_a_letter_of_its_own_does_not_sit_on_our_text(before: str) -> None:
    assert visible(before) + "\\u{301}x" == visible(before + "\u0301x")


def test_a_mark_after_a_kept_line_end_does_not_sit_on_our_text() -> None:
    assert "\n\\u{301}" == visible("\n\u0301", multiline=True)


def test_a_long_run_is_counted() -> None:
    assert "a" * RUN_LIMIT == visible("a" * RUN_LIMIT)
    assert "aaaaaaa\\{17 more alike}ab" == visible("a" * 25 + "b")
    assert "x       \\{92 more alike} y" == visible("x" + " " * 100 + "y")


def test_a_mark_behind_a_counted_run_stays_on_its_letter() -> None:
    assert visible("a" * 30 + "\u0301").endswith("}a\u0301")


def test_line_ends_stay_only_where_asked_for_and_never_pile_up() -> None:
    assert "a\n\nb\\tc" == visible("a\n\nb\tc", multiline=True)
    assert "a\n\\{38 more alike}\nb" == visible("a" + "\n" * 40 + "b", multiline=True)


def test_a_cut_says_how_many_characters_are_missing() -> None:
    text = "word " * 20

    assert text[:29] + "\\{71 more}" == visible(text, limit=40)
    assert text == visible(text, limit=100)


def test_a_cut_counts_the_characters_of_a_run_that_is_left_out() -> None:
    shown = visible("word " * 10 + "z" * 1000, limit=40)

    kept = shown.index("\\{")
    assert f"\\{{{1050 - kept} more}}" == shown[kept:]


def test_a_cut_never_falls_into_an_escape() -> None:
    assert "\\u{202e}ab\\u{202e}ab\\{24 more}" == visible("\u202eab" * 10, limit=34)


def test_words_in_quotes_cannot_close_them() -> None:
    assert '"plain"' == quoted("plain")
    assert '"ok\\" who: \\"admin"' == quoted('ok" who: "admin')
    assert '"a\\\\\\"b"' == quoted('a\\"b')


def test_quoted_words_are_cut_like_others() -> None:
    assert '"' + visible("word " * 20, limit=40) + '"' == quoted("word " * 20, limit=40)


def test_hidden_characters_are_counted_but_line_ends_are_not() -> None:
    assert 2 == hidden_count("\u202egnihtyreve evorppa\u202c")
    assert 0 == hidden_count("a\nb\tc\\d\r")
    assert 1 == hidden_count("a\u0301\u0302\u0303")


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("\u1112\u1161\u11ab", 2), ("\u2026", 1), ("🙂", 2)]
)
def test_cells_counts_columns(text: str, columns: int) -> None:
    assert columns == cells(text)


def test_json_is_made_visible_by_its_own_escapes() -> None:
    assert '{"a": 1}' == visible_json('{"a": 1}')
    assert '"日本 \\u202e\\udb40\\udc41 a\\u0301"' == visible_json('"日本 \u202e\U000e0041 a\u0301"')


@given(st.recursive(ODD, lambda inner: st.dictionaries(ODD, inner) | st.lists(inner), max_leaves=5))
def test_json_that_was_made_visible_is_the_same_document(value: object) -> None:
    assert value == json.loads(visible_json(json.dumps(value, ensure_ascii=False, indent=1)))


@given(ODD)
def test_nothing_that_is_drawn_can_hide(text: str) -> None:
    for character in visible(text):
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
        assert character == " " or unicodedata.category(character) != "Zs"


@given(ODD, ODD)
def test_distinct_texts_look_distinct(one: str, other: str) -> None:
    assert (one == other) == (visible(one) == visible(other))


@given(ODD, st.integers(0, 60))
def test_the_limit_holds(text: str, limit: int) -> None:
    assert cells(visible(text, limit=limit)) <= max(limit, SMALLEST_LIMIT)


@pytest.mark.parametrize("text", ["\x00" * 1_000_000, "a\n" * 500_000, "x" * 1_000_000, "\u0301" * 1_000_000])
def test_what_is_cut_away_anyway_costs_no_time_and_is_counted(text: str) -> None:
    took: list[float] = []
    drawn = ""
    while not took or (min(took) > 0.05 and len(took) < 5):
        began = time.thread_time()
        drawn = visible(text, limit=160)
        took.append(time.thread_time() - began)

    assert min(took) < 0.05
    assert cells(drawn) <= 160
    assert 980_000 < int(re.findall(r"\\\{(\d+) more\}", drawn)[0])
