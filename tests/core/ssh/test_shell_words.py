"""Words to a line and back; under real shells the same is shown in tests/live."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ssh.shell_words import pipes, quote, split


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("systemctl", "restart", "web-1.service"), b"systemctl restart web-1.service"),
        (("echo", "--a=b", "-n", "--", "-", "./x", "a@b:c,d"), b"echo --a=b -n -- - ./x a@b:c,d"),
        (("echo", ""), b"echo ''"),
        (("echo", "a b", "it's", "a\\b", "hi!"), b"echo 'a b' 'it'\\''s' 'a'\\\\'b' 'hi'\\!"),
        (("echo", "$HOME", "*", "~", "#", "%1", "=x", "a=b"), b"echo '$HOME' '*' '~' '#' '%1' '=x' 'a=b'"),
        (("A=b", "x"), b"'A=b' x"),
        (("if", "if"), b"'if' if"),
        (("echo", "ü"), b"echo '\xc3\xbc'"),
    ],
)
def test_a_word_is_quoted_only_where_a_shell_would_read_it(argv: tuple[str, ...], line: bytes) -> None:
    assert line == quote(argv)
    assert list(argv) == shlex.split(line.decode())


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=6))
def test_a_posix_shell_reads_back_what_was_quoted(argv: list[str]) -> None:
    assert argv == shlex.split(quote(tuple(argv)).decode())


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=6), min_size=1, max_size=4))
def test_whatever_is_split_is_what_a_posix_shell_would_split(pieces: list[str]) -> None:
    line = " ".join(pieces)
    words = split(line.encode())

    assert words is None or list(words) == shlex.split(line)


@given(st.lists(st.text("ab -=/.", max_size=6), min_size=1, max_size=5))
def test_quoted_plain_words_are_split_again(argv: list[str]) -> None:
    words = split(quote(tuple(argv)))

    assert words is None or list(words) == argv


@pytest.mark.parametrize("argv", [(), ("a\0b",), ("ok", "\ud800")])
def test_what_is_no_command_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="word"):
        quote(argv)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"systemctl restart web", ("systemctl", "restart", "web")),
        (b"  a\tb  ", ("a", "b")),
        (b"""grep -r 'two words' "x;y|z" '' a'b'"c" """, ("grep", "-r", "two words", "x;y|z", "", "abc")),
        (b"cmd --opt=val k=v a^b", ("cmd", "--opt=val", "k=v", "a^b")),
        (b"echo 'a\"b' \"a'b\"", ("echo", 'a"b', "a'b")),
        ("echo grüße".encode(), ("echo", "grüße")),
    ],
)
def test_plain_and_quoted_words_are_split(line: bytes, words: tuple[str, ...]) -> None:
    assert words == split(line)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"  ", b"a;b", b"a | b", b"a && b", b"a &", b"a $b", b"a `b`", b"a\\ b", b"(a)", b"a <b", b"a >b",
        b"a\nb", b"a\rb", b"a 'b", b'a "b', b"a *", b"a ?", b"a [b]", b"a {b,c}", b"a ~", b"a #b", b"a !b", b"a %1",
        b'a "$b"', b'a "`b`"', b'a "\\b"', b'a "b!"', b"a 'b\\'", b"a 'b!'", b"A=b c", b"'A'=b c", b"=ls", b"a =ls",
        b"if x", b"time x", b"{ a", b"a\x7fb", b"a\x01", b"a \xff",
    ],
)  # fmt: skip
def test_what_some_shell_would_read_otherwise_has_no_words(line: bytes) -> None:
    assert split(line) is None


@pytest.mark.parametrize(
    "line",
    [b"a | b", b"a|b", b"a|&b", b"a 'x' | b", b"a || b | c", b"a \\\\'x'|b", b"journalctl | head -n 100"],
)
def test_a_pipe_is_seen(line: bytes) -> None:
    assert pipes(line, None)


@pytest.mark.parametrize("line", [b"a", b"a || b", b"a 'b | c'", b'a "b|c"', b"a \\| b", b"a >| b", b"grep 'a\\|b' x"])
def test_what_is_no_pipe_is_none(line: bytes) -> None:
    assert not pipes(line, None)


def test_words_have_a_pipe_only_where_a_shell_is_among_them() -> None:
    assert pipes(b"", ("/bin/sh", "-c", "a | b"))
    assert pipes(b"", ("bash", "-ec", "a|b"))
    assert not pipes(b"", ("sh", "-c", "a || b"))
    assert not pipes(b"", ("bash",))
    assert not pipes(b"sh 'a | b'", ("grep", "a | b", "x"))
