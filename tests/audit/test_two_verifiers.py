"""The verifier that ships and the one that was written from the text alone say the same, in every field but `note`.

Over the whole corpus of tampering, over random changes of the logs of the vectors, and over logs that somebody with
every key wrote, in any order and with any fault.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Rung
from broker.audit.verify import verify
from broker.contract.wire import JsonValue, dump
from tests.fakes.forger import Forger
from tests.fakes.scribe import FAULTS, Scribe, Step
from tests.tampering import chains, files, records
from tests.tampering.corpus import CASES, Base, make_base
from tests.vectors import second_verifier

MODULES = (chains, files, records)  # importing them enters their cases
LOGS = Path(__file__).parents[1] / "vectors" / "audit" / "logs"
SCENES = sorted(path.name for path in LOGS.iterdir())
EXAMPLES = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True, kw_only=True)
class Known:
    """Files of outside knowledge."""

    pin: Path | None = None
    anchors: tuple[tuple[Rung, Path], ...] = ()
    checkpoints: Path | None = None


def shipped(directory: Path, known: Known) -> dict[str, JsonValue]:
    verdict = verify(
        directory,
        pin=Pin.load(known.pin) if known.pin else None,
        anchors=[HeldAnchor(rung=rung, anchor=Anchor.load(path)) for rung, path in known.anchors],
        checkpoint=known.checkpoints.read_bytes() if known.checkpoints else None,
    )
    return dict(verdict.to_json()) | {"exit_code": verdict.exit_code, "note": None}


def second(directory: Path, known: Known) -> dict[str, object]:
    answer, exit_code = second_verifier.verify(
        [str(directory)],
        pin=str(known.pin) if known.pin else None,
        anchors=[(rung.value, str(path)) for rung, path in known.anchors],
        checkpoints=[str(known.checkpoints)] if known.checkpoints else [],
    )
    return answer | {"exit_code": exit_code, "note": None}


def assert_agreement(directory: Path, knowledge: dict[str, Known]) -> None:
    for kind, known in knowledge.items():
        assert (kind, second(directory, known)) == (kind, shipped(directory, known))


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


@dataclass(frozen=True, kw_only=True)
class Change:
    """`at` and `to` are shares of the file, so that a change fits any log."""

    kind: str
    file: int
    at: float
    to: float
    value: int
    near: int  # how far from the beginning of a record, where that is not negative


CHANGES = st.builds(
    Change,
    kind=st.sampled_from(["flip", "set", "zero", "cut", "drop", "repeat", "swap", "append", "remove", "empty", "fill"]),
    file=st.integers(0, 3),
    at=st.floats(0, 1, exclude_max=True),
    to=st.floats(0, 1, exclude_max=True),
    value=st.integers(1, 255),
    near=st.integers(-20, 40),
)


def starts(content: bytes) -> list[int]:
    """Where the records begin."""
    found, at = [0], 0
    while at + 20 <= len(content):
        at += 36 + int.from_bytes(content[at : at + 4])
        found.append(min(at, len(content)))
    return found


def place(content: bytes, share: float, near: int) -> int:
    if near < 0:
        return int(share * len(content))
    rows = starts(content)
    return min(rows[int(share * len(rows))] + near, len(content))


def apply(directory: Path, change: Change) -> None:
    paths = sorted(directory.glob("*.seg"))
    if not paths:
        return
    path, other = paths[change.file % len(paths)], paths[(change.file + 1) % len(paths)]
    content = path.read_bytes()
    at, to = sorted((place(content, change.at, change.near), place(content, change.to, change.near)))
    fill = bytes([change.value])
    match change.kind:
        case "flip":
            content = content[:at] + bytes(byte ^ change.value for byte in content[at : at + 1]) + content[at + 1 :]
        case "set":
            content = content[:at] + fill + content[at + 1 :]
        case "zero":
            content = content[:at] + bytes(to - at) + content[to:]
        case "cut":
            content = content[:at]
        case "drop":
            content = content[:at] + content[to:]
        case "repeat":
            content = content[:to] + content[at:to] + content[to:]
        case "append":
            content += other.read_bytes()[at:to]
        case "swap":
            theirs = other.read_bytes()
            other.write_bytes(content)
            content = theirs
        case "empty":
            content = b""
        case "fill":
            content += bytes(change.value)
        case _:
            path.unlink()
            return
    path.write_bytes(content)


def knowledge_of(log: str) -> dict[str, Known]:
    here = LOGS / log
    pin, anchor = here / "pin.json", here / "anchor.json"
    return {
        "nothing": Known(),
        "the pin": Known(pin=pin),
        "the anchor": Known(pin=pin, anchors=((Rung.FILE, anchor),)),
        "checkpoints": Known(pin=pin, checkpoints=here / "checkpoints.txt"),
        "older ones": Known(anchors=((Rung.VAULT, here / "older.json"),), checkpoints=here / "first-checkpoint.txt"),
        "false ones": Known(anchors=((Rung.FILE, here / "rewritten.json"),), checkpoints=here / "checkpoint-false.txt"),
    }


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


# -- logs by somebody with every key

STEPS = st.builds(
    Step,
    choice=st.integers(0, 20),
    value=st.integers(0, 1000),
    fault=st.one_of(*[st.none()] * 12, st.sampled_from(FAULTS)),
)


@EXAMPLES
@given(
    steps=st.lists(STEPS, min_size=3, max_size=40),
    share=st.floats(0, 1, exclude_max=True),
    changes=st.one_of(st.just([]), st.lists(CHANGES, min_size=1, max_size=1)),
)
def test_both_say_the_same_of_logs_by_somebody_with_every_key(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], share: float, changes: list[Change]
) -> None:
    place = tmp_path_factory.getbasetemp() / "scribe"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    scribe = Scribe(place / "audit")
    scribe.write(steps)
    for change in changes:
        apply(scribe.directory, change)
    size = 1 + int(share * len(scribe.leaves))
    contents = {
        "pin": scribe.pin(),
        "anchor": scribe.anchor(-1),
        "older": scribe.anchor(int(share * len(scribe.commits))),
        "by the root": scribe.checkpoint(size) + b"\n" + scribe.checkpoint(len(scribe.leaves)),
        "by an epoch": scribe.checkpoint(size, epoch=1 + int(share * scribe.epoch)),
    }
    for name, content in contents.items():
        (place / name).write_bytes(content)
    pin, last, older = place / "pin", (Rung.FILE, place / "anchor"), (Rung.KEYRING, place / "older")

    assert_agreement(
        scribe.directory,
        {
            "nothing": Known(),
            "the pin": Known(pin=pin),
            "the anchor": Known(pin=pin, anchors=(last,)),
            "two anchors": Known(anchors=(older, last)),
            "by the root": Known(pin=pin, anchors=(older,), checkpoints=place / "by the root"),
            "by an epoch": Known(pin=pin, checkpoints=place / "by an epoch"),
        },
    )


# -- names and places


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
