"""Files that programs keep secrets in: NAME=VALUE lines, and JSON. Read whole, and every fault named before any use.

Values are taken as they stand: nothing is expanded, looked up or run. What a line means in one program and not in
another is refused instead of guessed. Nothing here prints or keeps a value.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from broker.cli.faults import CliError, UsageError
from broker.contract.neutralise import visible
from broker.contract.wire import JsonValue, WireError, parse_json
from broker.core.secret import Secret

FILE_MAX_BYTES = 1 << 20
NAMES_MOST = 1000

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*", re.DOTALL)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?', re.DOTALL)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The values of a file by their names there."""

    file: str
    values: dict[str, Secret]


def read_values(kind: str, name: str) -> Found:
    """The values of a dotenv or JSON file. Raises UsageError, CliError with every fault and its place."""
    try:
        with Path(name).open("rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
    except OSError as cause:
        raise UsageError(f"{name} can't be read: {cause.strerror}") from None
    if len(content) > FILE_MAX_BYTES:
        raise CliError(f"{name} has more than {FILE_MAX_BYTES} bytes")
    values = _of_json(name, content) if kind == "json" else _of_lines(name, content)
    if len(values) > NAMES_MOST:
        raise CliError(f"{name} has more than {NAMES_MOST} names")
    return Found(file=name, values=values)


def _of_json(name: str, content: bytes) -> dict[str, Secret]:
    try:
        document = parse_json(content, max_bytes=FILE_MAX_BYTES)
    except WireError as cause:
        raise CliError(f"{name}: {cause}") from None
    if not isinstance(document, dict):
        raise CliError(f"{name}: expected an object of names and values")
    faults = [
        f"{name}: {key}: expected a text that is not empty" for key, value in document.items() if not _fits(value)
    ]
    if faults:
        raise CliError("\n".join(faults))
    return {key: Secret(str(value).encode("utf-8", "surrogatepass")) for key, value in document.items()}


def _fits(value: JsonValue) -> bool:
    return isinstance(value, str) and value != ""


def _of_lines(name: str, content: bytes) -> dict[str, Secret]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise CliError(f"{name}: byte {cause.start} is no UTF-8") from None
    values: dict[str, Secret] = {}
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):  # and at no other character: it may be in a value
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fault = _take(line, values)
        if fault is not None:
            faults.append(f"{name}:{number}: {fault}")
    if faults:
        raise CliError("\n".join(faults))
    return values


def _take(line: str, values: dict[str, Secret]) -> str | None:
    """Read one line; what is wrong with it, without its value."""
    match = _LINE.fullmatch(line)
    if match is None:
        return "expected NAME=VALUE"
    key, spelled = match.groups()
    if key in values:
        return f"{visible(key)}: stands here a second time"
    value = _value(spelled)
    if value is None:
        return f"{visible(key)}: its quotes do not close, or text follows them"
    if spelled[:1] != "'" and ("${" in value or "$(" in value):
        return f"{visible(key)}: ${{...}} and $(...) are not filled in here; write the value out, or in single quotes"
    values[key] = Secret(value.encode("utf-8"))
    return None


def _value(spelled: str) -> str | None:
    if spelled.startswith('"'):
        match = _DOUBLE.fullmatch(spelled)
        if match is None:
            return None
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], "\\" + found[1]), match[1])
    if spelled.startswith("'"):
        match = _SINGLE.fullmatch(spelled)
        return None if match is None else match[1]
    return re.split(r"\s#", spelled, maxsplit=1)[0].rstrip()
