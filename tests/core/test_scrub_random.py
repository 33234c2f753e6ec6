"""Random placements of secrets, in every spelling, over every border: none gets out, and nothing else changes."""

import base64
import html
import json
import random
from collections.abc import Callable
from urllib.parse import quote

import pytest

from broker.core.credential import BasicSecret, BearerSecret, CredentialSecret, QuerySecret, SigV4Secret
from broker.core.scrub_stream import StreamScrubber
from broker.core.secret import Secret
from broker.core.secret_set import PLACEHOLDER, SecretSet, secret_set

PLACEMENTS = 10_000
WEIGHTS = (10, 10, 10, 10, 2, 1, 10, 10, 1)  # long ones take long
SEED = 20_260_304
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
FILLING = LETTERS + ' \n\t"\\/%&;:,.{}[]=+-_<>é'


def each(value: bytes, form: str) -> bytes:
    return "".join(form % octet for octet in value).encode()


Spell = Callable[[bytes, random.Random], bytes]
SPELLINGS: dict[str, Spell] = {
    "raw": lambda value, _: value,
    "base64": lambda value, _: base64.b64encode(value),
    "base64, shifted": lambda value, rng: base64.b64encode(rng.randbytes(rng.randint(0, 2)) + value + b"\0"),
    "base64, url-safe": lambda value, rng: base64.urlsafe_b64encode(rng.randbytes(rng.randint(0, 2)) + value),
    "base64 of base64": lambda value, rng: base64.b64encode(base64.b64encode(rng.randbytes(rng.randint(0, 2)) + value)),
    "hex": lambda value, _: value.hex().encode(),
    "hex, upper": lambda value, _: value.hex().upper().encode(),
    "percent": lambda value, _: each(value, "%%%02x"),
    "percent, upper": lambda value, _: each(value, "%%%02X"),
    "percent, twice": lambda value, _: quote(each(value, "%%%02x")).encode(),
    "percent, where needed": lambda value, _: quote(value, safe="").encode(),
    "json": lambda value, _: json.dumps(value.decode())[1:-1].encode(),
    "json, all": lambda value, _: "".join(f"\\u{ord(character):04x}" for character in value.decode()).encode(),
    "json of json": lambda value, _: json.dumps(json.dumps(value.decode()))[3:-3].encode(),
    "html": lambda value, _: html.escape(value.decode()).encode(),
    "html, all": lambda value, _: each(value, "&#%d;"),
    "utf-16": lambda value, _: value.decode().encode("utf-16-le"),
    "mixed": lambda value, rng: b"".join(
        rng.choice([bytes([octet]), b"%%%02x" % octet, b"\\u%04x" % octet, b"&#%d;" % octet]) for octet in value
    ),
}


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - to be repeated, not to be secret


def value_of(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(LETTERS + "+/=-_.") for _ in range(length))


def sets(rng: random.Random) -> list[tuple[SecretSet, list[bytes]]]:
    """Sets of every kind, short ones left out, and the values in them."""
    long = [value_of(rng, length) for length in (16, 21, 40, 40, 200, 700)]
    kinds: list[CredentialSecret] = [BearerSecret(token=Secret(value)) for value in long]
    kinds.append(QuerySecret(parameter="key", value=Secret(long[2])))
    kinds.append(BasicSecret(username="", password=Secret(long[3])))
    kinds.append(
        SigV4Secret(access_key_id="AKIACANARY", secret_access_key=Secret(long[2]), session_token=Secret(long[5]))
    )
    values = [[long[at]] for at in range(6)] + [[long[2]], [long[3]], [long[2], long[5]]]
    return [(secret_set(kind), [one.encode() for one in of_it]) for kind, of_it in zip(kinds, values, strict=True)]


def filling(rng: random.Random) -> bytes:
    return "".join(rng.choices(FILLING, k=rng.randint(0, 120))).encode()


def in_chunks(data: bytes, rng: random.Random) -> list[bytes]:
    borders = sorted(rng.randint(0, len(data)) for _ in range(rng.randint(0, 6)))
    return [data[start:end] for start, end in zip([0, *borders], [*borders, len(data)], strict=True)]


def undone(data: bytes) -> bytes:
    """All that can be read in it, by the means of others than the scrubber's."""
    text = html.unescape(data.decode("latin-1"))
    return text.encode("latin-1", "replace")


def test_nothing_of_a_secret_gets_out_whatever_its_spelling_and_the_borders() -> None:
    rng = seeded(SEED)
    made = sets(rng)
    leaks = []
    for count in range(PLACEMENTS):
        secrets, values = rng.choices(made, WEIGHTS)[0]
        name, spell = rng.choice(list(SPELLINGS.items()))
        value = rng.choice(values)
        spelled = spell(value, rng)
        data = filling(rng) + b"|" + spelled + b"|" + filling(rng)
        stream = StreamScrubber(secrets)
        out = b"".join([*(stream.feed(chunk) for chunk in in_chunks(data, rng)), stream.finish()])
        core = spelled[len(spelled) // 4 : len(spelled) // 4 + 12]
        if core in out or value in undone(out):
            leaks.append((count, name, len(value)))

    assert [] == leaks


def test_no_byte_that_is_of_no_secret_is_changed() -> None:
    rng = seeded(SEED + 1)
    made = sets(rng)
    for _ in range(2000):
        secrets, values = rng.choice(made)
        near = rng.choice(values)[: rng.randint(0, 12)]
        data = filling(rng) + near + filling(rng) + rng.randbytes(rng.randint(0, 200)) + near
        stream = StreamScrubber(secrets)
        out = b"".join([*(stream.feed(chunk) for chunk in in_chunks(data, rng)), stream.finish()])

        assert (data, 0) == (out, stream.hits)


@pytest.mark.parametrize("name", ["raw", "hex", "percent", "json", "json, all", "mixed"])
def test_around_a_secret_nothing_is_changed(name: str) -> None:
    rng = seeded(SEED + 2)
    for secrets, values in sets(rng):
        for _ in range(4):
            before, behind = filling(rng) + b"|", b"|" + filling(rng)
            data = before + SPELLINGS[name](values[0], rng) + behind
            stream = StreamScrubber(secrets)
            out = b"".join([*(stream.feed(chunk) for chunk in in_chunks(data, rng)), stream.finish()])

            assert before + PLACEHOLDER + behind == out


def test_only_what_could_begin_a_secret_waits() -> None:
    rng = seeded(SEED + 3)
    secrets, values = sets(rng)[2]
    value = values[0]
    stream = StreamScrubber(secrets)

    assert b"data: x\n\n" == stream.feed(b"data: x\n\n")
    assert b"data: " == stream.feed(b"data: " + value[:9])
    assert value[:9] + b"#\n\n" == stream.feed(b"#\n\n")
    assert b"data: " == stream.feed(b"data: " + each(value[:9], "%%%02x") + b"%")
    assert PLACEHOLDER + b"\n\n" == stream.feed(each(value[9:], "%%%02x")[1:] + b"\n\n")


def test_what_breaks_off_in_a_secret_stays() -> None:
    rng = seeded(SEED + 4)
    secrets, values = sets(rng)[2]
    cut, whole = StreamScrubber(secrets), StreamScrubber(secrets)

    assert b"a " == cut.feed(b"a " + values[0][:-1]) + cut.finish(is_whole=False)
    assert b"a " + values[0][:-1] == whole.feed(b"a " + values[0][:-1]) + whole.finish()


def test_escapes_within_escapes_wait_for_their_ends() -> None:
    rng = seeded(SEED + 5)
    secrets, values = sets(rng)[2]
    nested = quote("".join(f"\\u{octet:04x}" for octet in values[0])).encode()  # each is %5Cu0063
    for cut in range(1, 12):
        stream = StreamScrubber(secrets)

        out = stream.feed(b"a|" + nested[:cut]) + stream.feed(nested[cut:] + b"|b") + stream.finish()
        assert (b"a|", True) == (out, stream.withheld)  # found, and of no form that can be cut out


def test_without_values_nothing_is_found() -> None:
    assert 0 == SecretSet(replaced=[]).clean(b"anything").hits
