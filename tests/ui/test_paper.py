from broker.contract.neutralise import cells
from ui.paper import (
    Paper,
    Role,
    Span,
    cut_end,
    cut_middle,
    fit,
    head,
    row,
    rule,
    spread,
    tail,
    text_of,
    width_of,
    wrap,
    wrap_row,
)

PAPER = Paper(width=80, height=24)


def test_a_row_is_filled_to_its_width() -> None:
    assert "ab   " == text_of(fit(row("ab"), 5))


def test_a_row_is_cut_to_its_width_and_keeps_its_roles() -> None:
    assert (Span("ab"), Span("c", Role.LOOK)) == fit(row("ab", Span("cd", Role.LOOK)), 3)


def test_a_wide_character_is_never_cut_in_half() -> None:
    assert 3 == width_of(fit(row("世界"), 3))
    assert "世" == head("世界", 3)
    assert "界" == tail("世界", 3)


def test_text_is_cut_at_the_end_or_in_the_middle_with_dots() -> None:
    assert "abcd…" == cut_end("abcdefgh", 5, "…")
    assert "ab…gh" == cut_middle("abcdefgh", 5, "…")
    assert "abc" == cut_middle("abc", 5, "…")


def test_a_title_stands_in_its_rule() -> None:
    assert "─ Audit ─── ready ─" == rule(19, "─", left="Audit", right="ready")


def test_words_are_spread_to_both_sides() -> None:
    assert "ab    cd" == text_of(spread([Span("ab")], [Span("cd")], 8))


def test_text_is_folded_at_blanks_and_loses_nothing_else() -> None:
    assert ["one two", "three", "fourfi", "ve"] == wrap("one two three fourfive", 7)[:2] + wrap("fourfive", 6)


def test_folding_keeps_every_character_of_a_word_longer_than_the_line() -> None:
    assert "x" * 100 == "".join(wrap("x" * 100, 7))


def test_folding_a_row_keeps_the_roles() -> None:
    folded = wrap_row(row("says: ", Span('"one two"', Role.FOREIGN)), 10)

    assert [(Span("says: "), Span('"one', Role.FOREIGN)), (Span('two"', Role.FOREIGN),)] == folded


def test_words_of_others_can_not_close_their_quotes() -> None:
    assert '"a\\" b"' == PAPER.quote('a" b')


def test_without_utf_8_no_character_beyond_ascii_is_drawn() -> None:
    paper = Paper(width=80, height=24, ascii_only=True)

    assert "caf\\u{e9}" == paper.foreign("café")
    assert "|-+>#" == paper.own("│─├▌┃")
    assert "..." == paper.dots


def test_widths_are_in_cells() -> None:
    assert 4 == cells("世界") == width_of(row("世界"))
