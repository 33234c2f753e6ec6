"""The verifier that ships and the one that was written from the text alone say the same, in every field but `note`.

Over the whole corpus of tampering, over random changes of the logs of the vectors and of what is known of them, and
over names and places.
"""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.audit.pin import Pin
from broker.audit.verdict import Rung
from broker.audit.verify import verify
from broker.contract.wire import dump
from tests.fakes.forger import Forger
from tests.fakes.two_verifiers import (
    CHANGES,
    EXAMPLES,
    LOGS,
    SCENES,
    Change,
    Known,
    apply,
    assert_agreement,
    knowledge_of,
    second,
    shipped,
)
from tests.tampering import chains, files, records
from tests.tampering.corpus import CASES, Base, make_base
from tests.vectors import second_verifier
from tests.vectors.second_format import SEGMENT_BYTES_MAX

MODULES = (chains, files, records)  # importing them enters their cases


# -- the corpus


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("name", list(CASES))
def test_both_say_the_same_of_every_known_way_of_tampering(base: Base, tmp_path: Path, name: str) -> None:
    forger = Forger(base.frozen, tmp_path / "audit", pin=base.log.pin, anchor=base.anchor)
    CASES[name].mutation(forger, base)
    pin, anchor, older, checkpoints = (tmp_path / name for name in ("pin", "anchor", "older", "checkpoints"))
    forger.pin.save(pin)
    forger.anchor.save(anchor)
    base.older_anchor.save(older)
    checkpoints.write_bytes(base.note)

    assert_agreement(
        forger.directory,
        {
            "nothing": Known(),
            "the pin": Known(pin=pin),
            "the anchor": Known(pin=pin, anchors=((Rung.FILE, anchor),)),
            "an older anchor": Known(pin=pin, anchors=((Rung.VAULT, older),)),
            "the anchor alone": Known(anchors=((Rung.FILE, anchor),)),
            "a checkpoint": Known(pin=pin, checkpoints=checkpoints),
            "all": Known(pin=pin, anchors=((Rung.FILE, anchor), (Rung.KEYRING, older)), checkpoints=checkpoints),
        },
    )


# -- random changes


@EXAMPLES
@given(log=st.sampled_from(SCENES), changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_both_say_the_same_of_random_changes(
    tmp_path_factory: pytest.TempPathFactory, log: str, changes: list[Change]
) -> None:
    directory = tmp_path_factory.getbasetemp() / "changed"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(LOGS / log / "audit", directory)
    for change in changes:
        apply(directory, change)

    assert_agreement(directory, knowledge_of(log))


SPLICES = [
    b"",
    b"0",
    b"\n",
    b"\n\n",
    b" ",
    b",",
    b"{}",
    b"1",
    b"1.0",
    b"true",
    b"A",
    b"=",
    b"\xff",
    b"+",
    b"\xe2\x80\x94 ",
]


@EXAMPLES
@example(kind="checkpoints.txt", at=60, length=0, splice="—".encode())  # letters of no base64, in the root
@example(kind="pin.json", at=281, length=1, splice=b"1.0")
@example(kind="anchor.json", at=254, length=1, splice=b"1.0")
@given(
    kind=st.sampled_from(["pin.json", "anchor.json", "checkpoints.txt"]),
    at=st.integers(0, 540),
    length=st.integers(0, 20),
    splice=st.sampled_from(SPLICES),
)
def test_both_say_the_same_of_changed_knowledge(
    tmp_path_factory: pytest.TempPathFactory, kind: str, at: int, length: int, splice: bytes
) -> None:
    changed = tmp_path_factory.getbasetemp() / kind
    content = (LOGS / "whole" / kind).read_bytes()
    changed.write_bytes(content[:at] + splice + content[at + length :])
    known = {
        "pin.json": Known(pin=changed),
        "anchor.json": Known(anchors=((Rung.FILE, changed),)),
        "checkpoints.txt": Known(checkpoints=changed),
    }

    assert_agreement(LOGS / "whole" / "audit", {kind: known[kind]})


# -- sizes, writers, names and places


@pytest.mark.parametrize("size_bytes", [SEGMENT_BYTES_MAX, SEGMENT_BYTES_MAX + 1])
@pytest.mark.parametrize("name", ["00000001.seg", "00000004.seg"])
def test_both_say_the_same_of_the_largest_file(tmp_path: Path, name: str, size_bytes: int) -> None:
    directory = shutil.copytree(LOGS / "whole" / "audit", tmp_path / "audit")
    os.truncate(directory / name, size_bytes)

    assert_agreement(directory, knowledge_of("whole"))


@EXAMPLES
@example(log="disk-full", changes=[Change(kind="cut", file=0, at=0, to=0, value=1, near=1)])  # known to be longer
@given(log=st.sampled_from(SCENES), changes=st.lists(CHANGES, min_size=1, max_size=2))
def test_both_say_the_same_beside_a_writer(
    tmp_path_factory: pytest.TempPathFactory, log: str, changes: list[Change]
) -> None:
    directory = tmp_path_factory.getbasetemp() / "live"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(LOGS / log / "audit", directory)
    for change in changes:
        apply(directory, change)
    writer = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert second(directory, Known())["live"]
        assert_agreement(directory, knowledge_of(log))
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    "names",
    [
        [b"00000000.seg"],
        ["0000000\N{ARABIC-INDIC DIGIT THREE}.seg".encode()],
        ["00000001.\N{ARABIC-INDIC DIGIT THREE}.torn".encode()],
        [b"00000001.7.torn", b"00000001.7.2.torn", b"reserve"],
        [b"\xff\xfe", "\U0001f6aa".encode()],  # in the order of bytes, not in that of characters
        [b"\xff\xfe\xc3"],
        [b"00000001.seg\n"],
        [b"00000009.seg"],
    ],
)
def test_both_say_the_same_of_every_name(tmp_path: Path, names: list[bytes]) -> None:
    directory = shutil.copytree(LOGS / "two-segments" / "audit", tmp_path / "audit")
    for name in names:
        shutil.copyfile(directory / "00000001.seg", os.fsencode(directory) + b"/" + name)

    assert_agreement(directory, knowledge_of("two-segments"))
    assert dump(shipped(directory, Known())["segment"])  # it can be printed


def test_both_say_the_same_of_files_given_by_name(tmp_path: Path) -> None:
    directory = shutil.copytree(LOGS / "whole" / "audit", tmp_path / "audit")
    elsewhere = shutil.copytree(directory, tmp_path / "elsewhere")
    first, second_file, third, fourth = sorted(directory.glob("*.seg"))
    (tmp_path / "link").symlink_to(directory)
    (tmp_path / "00000001.seg").symlink_to(first)
    (tmp_path / "00000002.seg").mkdir()
    os.mkfifo(tmp_path / "00000003.seg")
    given = [
        [fourth, third, second_file, first],
        [first, second_file, elsewhere / third.name, fourth],
        [first, second_file, elsewhere / first.name, third],
        [second_file, third],
        [directory, elsewhere],
        [tmp_path / "link"],
        [tmp_path / "00000001.seg", second_file],
        [tmp_path / "00000002.seg"],
        [first, tmp_path / "00000003.seg"],
        [tmp_path / "missing", tmp_path / "link" / "reserve"],
        [directory / "00000001.2948.torn", tmp_path / "missing"],
    ]
    for places in given:
        pin = LOGS / "whole" / "pin.json"
        answer, exit_code = second_verifier.verify([str(path) for path in places], pin=str(pin))
        verdict = verify(places, pin=Pin.load(pin))

        assert (places, answer | {"note": None}, exit_code) == (
            places,
            dict(verdict.to_json()) | {"note": None},
            verdict.exit_code,
        )
