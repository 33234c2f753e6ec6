"""What a script may hold, so that every login shell hands it on unchanged."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ssh.script import NONCE, OPERATION_ID, checked, octal, pack


def printed(spelled: str) -> bytes:
    """What `printf` makes of a format."""
    text = re.sub(r"\\([0-7]{3})|%%", lambda found: chr(int(found[1], 8)) if found[1] else "%", spelled)
    return text.encode("latin-1")


@given(st.binary(max_size=200).map(lambda octets: octets.replace(b"\0", b"")))
def test_bytes_survive_their_spelling_and_no_shell_reads_it_otherwise(content: bytes) -> None:
    spelled = octal(content)

    assert content == printed(spelled)
    assert not set(spelled) & set("\"$'!`\n\r\t") | (set(spelled) - set(map(chr, range(0x20, 0x7F))))
    assert not re.search(r"%(?!%)", spelled.replace("%%", ""))
    assert not re.search(r"\\(?![0-7]{3})", spelled)
    assert not spelled.startswith("-")
    pack(f'printf "{spelled}."')


def test_a_format_is_no_option() -> None:
    assert "\\055n" == octal(b"-n")
    assert "a-n" == octal(b"a-n")


def test_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        octal(b"a\0b")


@pytest.mark.parametrize("script", ["echo 'x'", "[ ! -e x ]", 'printf "\\\\n"', "echo x\\", "wait $!"])
def test_a_script_that_shells_would_misread_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match="different ways"):
        pack(script)


def test_lines_become_one() -> None:
    assert "exec /bin/sh -c 'a; b c'" == pack("\n  a;\n\n b\n c  \n")


@pytest.mark.parametrize(
    ("value", "form"),
    [("op_" + "a" * 11, OPERATION_ID), ("op_" + "A" * 44, OPERATION_ID), ("a b", NONCE), ("0" * 16 + "\n", NONCE)],
)
def test_what_stands_unquoted_has_its_form(value: str, form: re.Pattern[str]) -> None:
    with pytest.raises(ValueError, match="form"):
        checked(value, form)


def test_what_has_its_form_is_taken() -> None:
    assert "op_" + "a" * 44 == checked("op_" + "a" * 44, OPERATION_ID)
