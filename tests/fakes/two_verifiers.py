"""The verifier that ships and the one written from the text alone, asked the same; and random changes of a log."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from broker.audit import AuditError
from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Rung
from broker.audit.verify import unreadable, verify
from broker.contract.wire import JsonValue
from tests.vectors import second_verifier

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
    """As the command line asks: what can't be used of the knowledge is a verdict too."""
    verdict = unreadable("", pinned=False)
    with suppress(AuditError):
        pin = Pin.load(known.pin) if known.pin else None
        verdict = unreadable("", pinned=pin is not None)
        verdict = verify(
            directory,
            pin=pin,
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


def emptied(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place
