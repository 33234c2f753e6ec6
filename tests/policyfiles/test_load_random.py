"""Whatever stands in a policy file, it loads or is refused with faults: nothing else ever comes of it."""

import tomllib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.policyfiles.check import verified
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.shipped import pack_bytes, pack_names

CASES = tomllib.loads(Path(__file__).with_name("every_fault.toml").read_text())["cases"]
TEXTS = [file["text"].encode() for case in CASES for file in case["files"] if file["name"].endswith(".toml")]
PACKS = [pack_bytes(name)[:6000] for name in pack_names()]
PIECES = st.sampled_from(
    [
        text.encode()
        for text in ("", "\n", "=", "[", "]", "{", "}", '"', "'", ",", "1", "-1", "1e999", "nan", "inf", "true")
    ]
    + [b"[[rules]]\n", b"2026-11-30", b"\x00", b"\xff", b'"""', b"a.b.c", b"**", b"hours = [1]\n", b"0x" + b"f" * 400]
)


@settings(max_examples=250)
@given(
    st.sampled_from(TEXTS + PACKS),
    st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 40), PIECES), min_size=1, max_size=4),
)
def test_a_file_that_was_changed_anywhere_loads_or_is_refused(text: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    for at, length, piece in edits:
        begin = at % (len(text) + 1)
        text = text[:begin] + piece + text[begin + length :]
    try:
        verified([PolicyFile(name="a.toml", raw=text)])
    except PolicyError as refused:
        places = {(fault.file, fault.line >= 1) for fault in refused.faults}
        assert {("a.toml", True)} == places
