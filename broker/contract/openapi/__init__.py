"""The two sockets as OpenAPI 3.1 documents, served as they are. They refer to the schemas by relative address."""

from importlib import resources

from broker.contract.wire import JsonValue, parse_object

FACES = ("agent", "control")


def document(face: str) -> dict[str, JsonValue]:
    """The document of one socket, `agent` or `control`. Raises LookupError."""
    if face not in FACES:
        raise LookupError(f"{face!r} has no document; there are {', '.join(FACES)}")
    return parse_object(resources.files(__name__).joinpath(face + ".json").read_bytes())
