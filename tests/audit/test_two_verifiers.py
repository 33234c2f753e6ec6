"""The verifier that ships and the one that was written from the text alone say the same, in every field but `note`.

Over the whole corpus of tampering, over random changes of the logs of the vectors, and over logs that somebody with
every key wrote, in any order and with any fault.
"""

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
from tests.fakes.forger import Forger
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


def shipped(directory: Path, known: Known) -> dict[str, object]:
    verdict = verify(
        directory,
        pin=Pin.load(known.pin) if known.pin else None,
        anchors=[HeldAnchor(rung=rung, anchor=Anchor.load(path)) for rung, path in known.anchors],
        checkpoint=known.checkpoints.read_bytes() if known.checkpoints else None,
    )
    return dict(verdict.to_json()) | {"exit_code": verdict.exit_code, "note": ...}


def second(directory: Path, known: Known) -> dict[str, object]:
    answer, exit_code = second_verifier.verify(
        [str(directory)],
        pin=str(known.pin) if known.pin else None,
        anchors=[(rung.value, str(path)) for rung, path in known.anchors],
        checkpoints=[str(known.checkpoints)] if known.checkpoints else [],
    )
    return answer | {"exit_code": exit_code, "note": ...}


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
