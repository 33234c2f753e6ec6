"""Applying the edits of the vectors to a copy of a log, and asking for its verdict with each kind of knowledge."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from broker.audit.ladder import HeldAnchor
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Rung
from broker.audit.verify import verify
from broker.contract.wire import JsonObject, JsonValue

HERE = Path(__file__).resolve().parent
LOGS = HERE / "logs"


def apply_edits(log: str, target: Path, edits: Sequence[JsonObject]) -> Path:
    """A changed copy of the log's audit/ directory."""
    shutil.copytree(LOGS / log / "audit", target)
    for edit in edits:
        path = target / str(edit["file"])
        match edit["op"]:
            case "flip":
                content = bytearray(path.read_bytes())
                content[_int(edit["offset"])] ^= _int(edit["mask"])
                path.write_bytes(content)
            case "splice":
                before = path.read_bytes() if path.exists() else b""
                start, end = _int(edit["start"]), _int(edit["end"])
                path.write_bytes(before[:start] + bytes.fromhex(str(edit["hex"])) + before[end:])
            case "remove":
                path.unlink()
            case "exchange":
                other = target / str(edit["with"])
                first, second = path.read_bytes(), other.read_bytes()
                path.write_bytes(second)
                other.write_bytes(first)
            case "copy":
                shutil.copyfile(LOGS / str(edit["log"]) / "audit" / str(edit["of"]), path)
            case unknown:
                raise ValueError(f"no such edit: {unknown}")
    return target


def answer(directory: Path, knowledge: JsonObject) -> JsonObject:
    """The verdict without the words meant for humans. Files of the knowledge are named from logs/ on."""
    pin, anchors, checkpoint = knowledge["pin"], knowledge["anchors"], knowledge["checkpoints"]
    assert isinstance(anchors, list)
    whole = verify(
        directory,
        pin=None if pin is None else Pin.load(LOGS / str(pin)),
        anchors=[
            HeldAnchor(rung=Rung(str(held["rung"])), anchor=Anchor.load(LOGS / str(held["file"])))
            for held in anchors
            if isinstance(held, dict)
        ],
        checkpoint=None if checkpoint is None else (LOGS / str(checkpoint)).read_bytes(),
    )
    return {key: value for key, value in whole.to_json().items() if key != "note"} | {"exit_code": whole.exit_code}


def knowledge_of(log: str) -> dict[str, JsonObject]:
    """What each answer of cases.json was given."""
    pin: JsonValue = f"{log}/pin.json"
    anchor: JsonValue = {"rung": "file", "file": f"{log}/anchor.json"}
    return {
        "unpinned": {"pin": None, "anchors": [], "checkpoints": None},
        "alone": {"pin": pin, "anchors": [], "checkpoints": None},
        "anchored": {"pin": pin, "anchors": [anchor], "checkpoints": None},
        "noted": {"pin": pin, "anchors": [], "checkpoints": f"{log}/checkpoints.txt"},
    }


def _int(value: JsonValue) -> int:
    if not isinstance(value, int):
        raise TypeError("a number was expected")
    return value
