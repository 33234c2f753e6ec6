"""Octets that can stand in a spelling, and where there is room for one."""

import base64
import html
import json
from urllib.parse import quote

import pytest

from broker.core.alphabet import Alphabet
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet

VALUE = b"canary value/with: odd (signs) 0123"
ALPHABET = Alphabet((VALUE,), shortest_bytes=len(VALUE))
OUTSIDE = b"\x00\xff"


@pytest.mark.parametrize(
    "spelled",
    [
        VALUE,
        VALUE.upper(),
        quote(VALUE, safe="").encode(),
        quote(quote(VALUE, safe=""), safe="").encode(),
        html.escape(VALUE.decode()).encode(),
        b"".join(b"&#%d;" % octet for octet in VALUE),
        b"".join(b"\\u%04x" % octet for octet in VALUE),
        b"".join(b"\\x%02x" % octet for octet in VALUE),
        json.dumps(json.dumps(VALUE.decode() + '"')).encode(),
        base64.encodebytes(VALUE * 3),
    ],
)
def test_there_is_room_for_every_spelling_between_octets_of_none(spelled: bytes) -> None:
    assert ALPHABET.has_room(OUTSIDE + spelled + OUTSIDE)


def test_there_is_no_room_where_octets_of_no_spelling_lie_close() -> None:
    assert not ALPHABET.has_room((VALUE[:-1] + OUTSIDE) * 50)


def test_the_last_run_begins_behind_the_last_octet_of_no_spelling() -> None:
    assert len(b"ab\xff") == ALPHABET.last_run(b"ab\xffcanary")
    assert ALPHABET.last_run(b"canary") == 0
    assert len(b"canary\xff") == ALPHABET.last_run(b"canary\xff")


@pytest.mark.parametrize("around", [b"\xff", b"\x00\x80", b"{\xfe}"])
def test_a_value_among_octets_of_no_spelling_is_cut_out(around: bytes) -> None:
    secrets = SecretSet(replaced=[Secret(VALUE.decode())])

    assert secrets.clean(around * 9 + VALUE + around * 9).data == around * 9 + b"[redacted]" + around * 9


def test_a_value_that_began_among_octets_of_no_spelling_is_held_back() -> None:
    secrets = SecretSet(replaced=[Secret(VALUE.decode())])
    data = b"\xff" * 99 + VALUE[:20]

    assert secrets.unfinished_in(data) == 99
