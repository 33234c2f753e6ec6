"""Input schemas of the tools, made from the public specification so that no second one can differ from it.

A model's client resolves no references and takes no alternatives at the top, so references are written out, and what
says only how fields exclude each other is left to the daemon, which checks the whole again.
"""

from broker.contract.schemas import read
from broker.contract.wire import JsonValue

_DROPPED = frozenset({"$schema", "$id", "$defs", "title", "examples", "allOf", "anyOf", "oneOf", "not"})
_RULES = frozenset({"dependentSchemas", "dependentRequired", "if", "then", "else"})


def input_schema(name: str, *fields: str, required: tuple[str, ...] | None = None) -> dict[str, JsonValue]:
    """The request of this name as a schema that stands alone; with `fields` these alone, in this order."""
    document = {key: value for key, value in read(name).items() if key not in _DROPPED | _RULES}
    whole = _object(_written_out(document, read(name), ()))
    properties = _object(whole["properties"])
    chosen = {field: properties[field] for field in fields} if fields else properties
    wanted = whole.get("required", []) if required is None else list(required)
    return {"type": "object", "properties": chosen, "required": wanted, "additionalProperties": False}


def _written_out(part: JsonValue, home: dict[str, JsonValue], above: tuple[str, ...]) -> JsonValue:
    """A part with every reference replaced by what it refers to, in `home` or in another document."""
    if isinstance(part, list):
        return [_written_out(item, home, above) for item in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    own = {key: _written_out(value, home, above) for key, value in part.items() if key != "$ref"}
    if not isinstance(reference, str):
        return own
    if reference in above:  # a schema that holds itself has no end
        return own
    file, _, pointer = reference.partition("#")
    document = read(file.removesuffix(".json")) if file else home
    found: JsonValue = document
    for step in pointer.strip("/").split("/") if pointer.strip("/") else ():
        found = _object(found)[step]
    meant = _written_out(found, document, (*above, reference))
    return {**meant, **own} if isinstance(meant, dict) else meant


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise TypeError("the specification is not written as it is read here")
    return value
