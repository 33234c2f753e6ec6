"""XML as a plain tree that predicates and places can look into: `{"Error": {"Code": "SlowDown"}}`.

No document type, no entity of its own, nothing fetched, nothing deeper or larger than the bounds: such a document has
no tree. Namespaces are left out, an attribute is `@name`, text beside other content is `#text`, an element that comes
more than once is a list, and an empty one is "".
"""

from typing import Any
from xml.parsers import expat

from broker.contract.wire import JsonObject, JsonValue

MAX_CHARACTERS = 1 << 20
MAX_DEPTH = 60  # the view that holds the tree is bounded to 64
MAX_ELEMENTS = 50_000
_BORDER = "\x0b"  # between namespace and name; no XML holds it


class XmlError(ValueError):
    """The text has no tree. The message says why and repeats nothing of it."""


def tree_of(text: str) -> JsonObject:
    """The tree of a document. Raises XmlError."""
    if len(text) > MAX_CHARACTERS:
        raise XmlError(f"it has more than {MAX_CHARACTERS} characters")
    builder = _Builder()
    parser = expat.ParserCreate("utf-8", _BORDER)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_declarations
    parser.EntityDeclHandler = _refuse_declarations
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    try:
        parser.Parse(text.encode("utf-8"), True)  # noqa: FBT003 - expat's own signature
    except (expat.ExpatError, UnicodeEncodeError):
        raise XmlError("it is not well-formed XML") from None
    return builder.root


class _Builder:
    """Open elements from the outermost in, each as its name, its children and its text."""

    def __init__(self) -> None:
        self.root: dict[str, JsonValue] = {}
        self._open: list[tuple[str, dict[str, JsonValue], list[str]]] = []
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1 + len(attributes)
        if self._count > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            raise XmlError("it has more elements, or deeper ones, than are looked at")
        children: dict[str, JsonValue] = {f"@{_local(key)}": value for key, value in attributes.items()}
        self._open.append((_local(name), children, []))

    def end(self, _: str) -> None:
        name, children, texts = self._open.pop()
        text = "".join(texts)
        value: JsonValue = children or text
        if children and text.strip():
            children["#text"] = text
        parent = self._open[-1][1] if self._open else self.root
        if name not in parent:
            parent[name] = value
        elif isinstance(before := parent[name], list):
            before.append(value)
        else:
            parent[name] = [before, value]

    def text(self, text: str) -> None:
        self._open[-1][2].append(text)


def _local(name: str) -> str:
    return name.rpartition(_BORDER)[2]


def _refuse_declarations(*_: Any) -> None:
    raise XmlError("it declares a document type")
