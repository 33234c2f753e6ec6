"""Property: whatever mixture of encodings a service gives a secret back in, none of it is left."""

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.core.secret import Secret
from broker.core.secret_set import PLACEHOLDER, SecretSet
from broker.core.spellings import AT_ONCE_CHARACTERS, spellings_of, undo_escapes

TOKEN = b"canary-\"<k&y>'/+=%41\\e 0123456789"
PLAIN = b"canary0123456789ABCDEFabcdef"


def text_of(value: bytes) -> str:
    return value.decode()


Encoder = Callable[[bytes], bytes]

ENCODERS: dict[str, Encoder] = {
    "raw": lambda value: value,
    "base64": base64.b64encode,
    "base64, second alignment": lambda value: base64.b64encode(b"x" + value + b"yz"),
    "base64, third alignment": lambda value: base64.b64encode(b"xy" + value + b"z"),
    "base64, URL-safe": lambda value: base64.urlsafe_b64encode(b"\xff" + value + b"\xfe\xff"),
    "base64, no padding": lambda value: base64.b64encode(value).rstrip(b"="),
    "base64, in a URL": lambda value: quote(base64.b64encode(b"ab" + value), safe="").encode(),
    "base64, in JSON with escaped slashes": lambda value: base64.b64encode(value).replace(b"/", b"\\/"),
    "hex": lambda value: value.hex().encode(),
    "hex, upper case": lambda value: value.hex().upper().encode(),
    "percent": lambda value: quote(value, safe="").encode(),
    "percent, all of it": lambda value: b"".join(b"%%%02x" % byte for byte in value),
    "percent, twice": lambda value: quote(quote(value, safe=""), safe="").encode(),
    "percent, three times": lambda value: quote(quote(quote(value, safe=""), safe=""), safe="").encode(),
    "web form": lambda value: quote_plus(text_of(value)).encode(),
    "JSON": lambda value: json.dumps(text_of(value)).encode(),
    "JSON in JSON": lambda value: json.dumps(json.dumps(text_of(value))).encode(),
    "JSON, all of it escaped": lambda value: b"".join(b"\\u%04x" % byte for byte in value),
    "JSON, escaped slashes": lambda value: json.dumps(text_of(value)).replace("/", "\\/").encode(),
    "hexadecimal escapes": lambda value: b"".join(b"\\x%02X" % byte for byte in value),
    "HTML": lambda value: html.escape(text_of(value)).encode(),
    "HTML, twice": lambda value: html.escape(html.escape(text_of(value))).encode(),
    "HTML, decimal": lambda value: b"".join(b"&#%d;" % byte for byte in value),
    "HTML, hexadecimal": lambda value: b"".join(b"&#x%X;" % byte for byte in value),
    "UTF-16": lambda value: text_of(value).encode("utf-16-le"),
    "HTML in JSON": lambda value: json.dumps(html.escape(text_of(value))).encode(),
    "JSON in a URL": lambda value: quote(json.dumps(text_of(value)), safe="").encode(),
}


def leaves_nothing(value: bytes, cleaned: bytes) -> bool:
    """Judged by undoing what any reader could undo, not by the patterns under test."""
    texts = [cleaned, *undo_escapes(cleaned), cleaned.replace(b"\0", b"")]
    cores = [base64.b64encode(b"\0" * offset + value)[4:-4] for offset in range(3)]
    forms = [value, value.hex().encode(), *cores, *(core.translate(bytes.maketrans(b"+/", b"-_")) for core in cores)]
    return not any(form in text or form in text.lower() for form in forms for text in texts)


@pytest.mark.parametrize("value", [TOKEN, PLAIN], ids=["odd", "plain"])
@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoding_is_cut_out(name: str, value: bytes) -> None:
    body = b'{"echo": "' + ENCODERS[name](value) + b'", "rest": 1}'

    cleaned = SecretSet(replaced=[Secret(value)]).clean(body)

    assert cleaned.hits > 0
    assert cleaned.withheld or leaves_nothing(value, cleaned.data)
    assert cleaned.withheld or (PLACEHOLDER in cleaned.data and cleaned.data.endswith(b'"rest": 1}'))


@pytest.mark.parametrize("name", [name for name in ENCODERS if " in " not in name])
def test_one_encoding_alone_never_costs_the_body(name: str) -> None:
    cleaned = SecretSet(replaced=[Secret(PLAIN)]).clean(b"before " + ENCODERS[name](PLAIN) + b" after")

    assert not cleaned.withheld
    assert cleaned.data.startswith(b"before ")
    assert cleaned.data.endswith(b" after")


SECRETS = st.text(
    alphabet=st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=16, max_size=48
).filter(lambda text: len(text.encode()) >= 16)


@example(secret="0000000000000\\n\xa0", encoders=["HTML in JSON"], noise=[b""] * 5)  # as if a line ended
@example(secret="0000000000000\\r\xa0", encoders=["JSON in a URL"], noise=[b""] * 5)
@settings(max_examples=60, deadline=None)
@given(
    secret=SECRETS,
    encoders=st.lists(
        st.sampled_from(sorted(set(ENCODERS) - {"JSON, all of it escaped", "HTML, decimal"})), max_size=4
    ),
    noise=st.lists(st.binary(max_size=24), min_size=5, max_size=5),
)
def test_no_placement_of_any_encoding_leaves_a_form(secret: str, encoders: list[str], noise: list[bytes]) -> None:
    value = secret.encode()
    parts = [ENCODERS[name](value) for name in encoders]
    body = b"".join(part for pair in zip(noise, [*parts, b"", b"", b"", b""], strict=False) for part in pair)

    cleaned = SecretSet(replaced=[Secret(value)]).clean(body)

    assert cleaned.withheld or leaves_nothing(value, cleaned.data)


@settings(max_examples=60, deadline=None)
@given(secret=SECRETS, choices=st.lists(st.integers(0, 5), min_size=48, max_size=48))
def test_escapes_mixed_within_one_value_are_cut_out(secret: str, choices: list[int]) -> None:
    spelled = "".join(escape(character, choice) for character, choice in zip(secret, choices, strict=False)).encode()
    value = secret[: len(choices)].encode()

    cleaned = SecretSet(replaced=[Secret(value)]).clean(b"[" + spelled + b"]")

    assert cleaned.hits > 0
    assert cleaned.withheld or leaves_nothing(value, cleaned.data)


def escape(character: str, choice: int) -> str:
    """One character in one of six spellings. What begins an escape is not left plain: it would begin one."""
    number = ord(character)
    units = character.encode("utf-16-be")
    match choice:
        case 0 if character not in "\\%&":
            return character
        case 0 | 1:
            return quote(character.encode(), safe="")
        case 2:
            return quote(quote(character.encode(), safe=""), safe="")
        case 3:
            return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))
        case 4:
            return f"&#{number};"
        case _:
            return f"&#x{number:x};"


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=400))
def test_bytes_without_the_secret_are_never_changed(body: bytes) -> None:
    cleaned = SecretSet(replaced=[Secret(PLAIN)]).clean(body)

    assert (body, 0, False) == (cleaned.data, cleaned.hits, cleaned.withheld)


@settings(max_examples=100, deadline=None)
@given(spelled=st.text(alphabet="\\u0061%&#;amp25xX\"'/", max_size=60))
def test_undoing_ends_for_any_text(spelled: str) -> None:
    assert len(list(undo_escapes(spelled.encode()))) <= 18


def test_an_escape_beyond_unicode_stays_as_it_is() -> None:
    assert [] == list(undo_escapes(b"&#9999999; &nosuchname; %zz"))


def test_nesting_is_undone_to_a_bound_and_no_further() -> None:
    nested = b"x"
    for _ in range(9):
        nested = b"".join(b"%%%02x" % byte for byte in nested)

    assert 6 == len(list(undo_escapes(nested)))


def test_a_value_of_a_few_bytes_has_no_base64_form() -> None:
    assert SecretSet(replaced=[], names=[Secret("ab")]).clean(b"xx ab xx").withheld
    assert not SecretSet(replaced=[], names=[Secret("ab")]).clean(b"YWI=").withheld


def test_a_long_value_is_cut_out_of_escapes() -> None:
    value = b"canary" + b"0123456789abcdef" * 60
    assert len(value) > AT_ONCE_CHARACTERS
    secrets = SecretSet(replaced=[Secret(value)])
    escaped = b"".join(b"%%%02x" % byte for byte in value)

    assert b"a [redacted] b" == secrets.clean(b"a " + value + b" b").data
    assert b"a [redacted] b" == secrets.clean(b"a " + escaped + b" b").data
    assert b"a %s [redacted]" % escaped[:-3] == secrets.clean(b"a %s %s" % (escaped[:-3], escaped)).data


def test_base64_of_base64_is_cut_out() -> None:
    value = b"canary?secret>value-" + b"\xc3\xbf" * 3
    secrets = SecretSet(replaced=[Secret(value)])

    for before in (b"", b"a", b"ab"):
        inner = base64.urlsafe_b64encode(before + value)
        for outer in (b"", b"x", b"xy"):
            cleaned = secrets.clean(b"<" + base64.b64encode(outer + inner) + b">")
            assert (False, 1) == (cleaned.withheld, cleaned.hits)


def test_an_encoding_broken_over_lines_withholds() -> None:
    value = b"canary" + b"0123456789abcdef" * 5

    cleaned = SecretSet(replaced=[Secret(value)]).clean(base64.encodebytes(b"x" + value))

    assert cleaned.withheld


def test_forms_are_not_shown() -> None:
    spellings = spellings_of(PLAIN)

    assert "canary" not in repr(spellings) + repr(spellings.literals) + repr(SecretSet(replaced=[Secret(PLAIN)]))
