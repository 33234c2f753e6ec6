"""Applying the edits of cases.json to a copy of the small log, and asking for its verdict."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from broker.audit.ladder import in_file
from broker.audit.pin import Anchor, Pin
from broker.audit.verify import verify
from broker.contract.wire import JsonObject, JsonValue


def apply_edits(source: Path, target: Path, edits: Sequence[JsonObject]) -> Path:
    shutil.copytree(source, target)
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
            case unknown:
                raise ValueError(f"no such edit: {unknown}")
    return target


def judge(directory: Path, pin: Pin, anchor: Anchor | None) -> JsonObject:
    """The verdict without the words meant for humans."""
    whole = verify(directory, pin=pin, anchors=in_file(anchor))
    return {key: value for key, value in whole.to_json().items() if key != "note"} | {"exit_code": whole.exit_code}


def _int(value: JsonValue) -> int:
    if not isinstance(value, int):
        raise TypeError("a number was expected")
    return value
