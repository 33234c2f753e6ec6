"""The preamble is found in any chunking, taken out whole, and never forged without the nonce."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.core.ssh.outcome import MarkerState, StoreSeen
from broker.core.ssh.preamble import MAX_LINE_BYTES, Preamble

OPERATION, NONCE = "op_" + "a" * 44, "0123456789abcdef" * 2
TAG = f"\x1eDW1 {OPERATION} {NONCE} ".encode()
STORE = StoreSeen(id="store-id-1", boot="boot-1", path="/home/a b/.doorward")
STARTED = TAG + b"started store-id-1 boot-1 /home/a b/.doorward\n"
WORDS = [
    (STARTED, MarkerState.STARTED, STORE),
    (STARTED.replace(b"\n", b"\r\n"), MarkerState.STARTED, STORE),
    (TAG + b"no_store\n", MarkerState.NO_STORE, None),
    (TAG + b"refused\n", MarkerState.REFUSED_NO_STORE, None),
    (TAG + b"duplicate\n", MarkerState.DUPLICATE, None),
]
NOISE = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from([TAG[:1], TAG[:4], TAG[:-1], TAG[:60], b"\x1e", b"\n", b"\x1e\x1e", b"started"]),
    ),
    max_size=5,
).map(b"".join)


def fed(stream: bytes, cuts: list[int]) -> tuple[bytes, Preamble]:
    preamble = Preamble(OPERATION, NONCE)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    passed = b"".join(preamble.feed(stream[start:end]) for start, end in pairwise(places))
    return passed + preamble.rest(), preamble


@given(before=NOISE, after=NOISE, word=st.sampled_from(WORDS), cuts=st.lists(st.integers(0, 500), max_size=12))
@example(before=TAG[:-1], after=b"", word=WORDS[0], cuts=[])
def test_in_any_chunking_the_line_is_taken_out_and_the_rest_passes(
    before: bytes, after: bytes, word: tuple[bytes, MarkerState, StoreSeen | None], cuts: list[int]
) -> None:
    line, state, store = word
    passed, preamble = fed(before + line + after, cuts)

    assert (before + after, state, store) == (passed, preamble.state, preamble.store)


@given(line=st.sampled_from([line for line, _, _ in WORDS]))
def test_byte_by_byte_it_is_the_same(line: bytes) -> None:
    passed, preamble = fed(b"motd\n" + line + b"err", list(range(400)))

    assert b"motd\nerr" == passed
    assert preamble.state is not MarkerState.MISSING


@given(
    stream=st.one_of(NOISE, st.binary(max_size=300)),
    nonce=st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda nonce: nonce != NONCE),
    cuts=st.lists(st.integers(0, 500), max_size=8),
)
def test_without_the_nonce_nothing_is_a_preamble(stream: bytes, nonce: str, cuts: list[int]) -> None:
    forged = stream + STARTED.replace(NONCE.encode(), nonce.encode()) + stream
    other = STARTED.replace(OPERATION.encode(), OPERATION.replace("a", "b").encode())
    for told in (forged, other, STARTED.upper(), STARTED[1:]):
        passed, preamble = fed(told, cuts)
        assert (told, MarkerState.MISSING, None) == (passed, preamble.state, preamble.store)


def test_the_first_one_counts_and_a_second_passes() -> None:
    passed, preamble = fed(TAG + b"duplicate\n" + STARTED, [])

    assert (STARTED, MarkerState.DUPLICATE, None) == (passed, preamble.state, preamble.store)


@pytest.mark.parametrize(
    "line",
    [
        TAG + b"\n",
        TAG + b"finished\n",
        TAG + b"started\n",
        TAG + b"started x boot /p\n",
        TAG + b"started bad/store/id boot /p\n",
        TAG + b"started store-id-1 " + b"b" * 129 + b" /p\n",
        TAG + b"no_store \n",
        TAG + b"started store-id-1 boot-1 " + b"x" * MAX_LINE_BYTES,
        TAG + b"started store-id-1",
    ],
)
def test_a_line_that_says_nothing_known_passes_as_it_is(line: bytes) -> None:
    for cuts in ([], [5, 40, 120]):
        passed, preamble = fed(line, cuts)
        assert (line, MarkerState.MISSING) == (passed, preamble.state)


def test_one_behind_such_a_line_is_found() -> None:
    passed, preamble = fed(TAG + b"nonsense\n" + STARTED + b"rest", [])

    assert (TAG + b"nonsense\nrest", MarkerState.STARTED) == (passed, preamble.state)


def test_no_more_than_a_line_is_held_back() -> None:
    preamble = Preamble(OPERATION, NONCE)
    chunk = b"x" * 100_000
    assert chunk == preamble.feed(chunk)
    preamble.feed(TAG)
    passed = sum(len(preamble.feed(b"y" * 1000)) for _ in range(100))

    assert 100_000 - passed <= MAX_LINE_BYTES


def test_a_path_that_is_not_utf_8_is_spelled() -> None:
    _, preamble = fed(TAG + b"started store-id-1 boot-1 /h/\xff\n", [])

    assert preamble.store == StoreSeen(id="store-id-1", boot="boot-1", path="/h/\\xff")
