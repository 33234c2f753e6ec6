"""The public specification as JSON Schema (draft 2020-12), and the one way to load it.

`schema(name)` gives a document that stands alone: whatever it refers to is bundled into it, so that a validator
needs neither files nor network. Files are read when asked for, never at import. Validates nothing itself.
"""

from collections.abc import Iterator
from importlib import resources

from broker.contract.wire import JsonValue, parse_object

_SUFFIX = ".json"


class UnknownSchemaError(LookupError):
    """There is no schema of this name."""


def names() -> tuple[str, ...]:
    """The names of all schemas, in alphabetical order."""
    found = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def schema(name: str) -> dict[str, JsonValue]:
    """The schema of this name with all that it refers to under `$defs`. Raises UnknownSchemaError."""
    document = read(name)
    bundled: dict[str, JsonValue] = {}
    waiting = [document]
    while waiting:
        for other in sorted(set(references(waiting.pop()))):
            if other != name and other not in bundled:
                bundled[other] = part = read(other)
                waiting.append(part)
    if not bundled:
        return document
    parts: dict[str, JsonValue] = {f"{other}{_SUFFIX}": bundled[other] for other in sorted(bundled)}
    own = document.get("$defs")
    return {**document, "$defs": {**own, **parts} if isinstance(own, dict) else parts}


def read(name: str) -> dict[str, JsonValue]:
    """One schema as its file spells it, references unresolved. Raises UnknownSchemaError."""
    if name not in names():
        raise UnknownSchemaError(f"no schema is named {name!r}; there are {', '.join(names())}")
    return parse_object(resources.files(__name__).joinpath(name + _SUFFIX).read_bytes())


def references(part: JsonValue) -> Iterator[str]:
    """The names of the other schemas that a part refers to."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                target = value.partition("#")[0]
                if target:
                    yield target.removesuffix(_SUFFIX)
            else:
                yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)
