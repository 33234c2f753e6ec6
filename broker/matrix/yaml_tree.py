"""YAML 1.2 as plain values and the line of each: what a case file says, and where it says it.

Anchors, aliases and merge keys are followed. Tags, time stamps, duplicate keys and keys that are no words are faults;
so is a document that grows beyond a bound by its aliases.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from broker.contract.wire import JsonValue
from broker.matrix.faults import CaseError, FileFault, MatrixError

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

MAX_BYTES = 4 << 20
MAX_VALUES = 500_000
MAX_DEPTH = 60
_TAG = "tag:yaml.org,2002:"

Path = tuple[str | int, ...]
Lines = dict[Path, int]


def read(text: str, source: str) -> tuple[JsonValue, Lines]:
    """The value of a document and the line of everything in it. Raises CaseError."""
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415 - an extra, and whether it is there is found out here
        from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as missing:
        raise MatrixError(
            "ruamel.yaml is not installed; it comes with the extra matrix: "
            "uv tool install '.[matrix]' in a clone of doorward"
        ) from missing
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise CaseError((FileFault(source=source, line=1, problem=f"the file is larger than {MAX_BYTES} bytes"),))
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except YAMLError as cause:
        mark = cause.problem_mark if isinstance(cause, MarkedYAMLError) else None
        problem = (cause.problem if isinstance(cause, MarkedYAMLError) else None) or "this is no YAML"
        line = 1 if mark is None else mark.line + 1
        raise CaseError((FileFault(source=source, line=line, problem=str(problem)),)) from cause
    return _Tree(source).read(root)


class _Tree:
    def __init__(self, source: str) -> None:
        self._source = source
        self._faults: list[FileFault] = []
        self._lines: Lines = {}
        self._values = 0

    def read(self, root: "Node | None") -> tuple[JsonValue, Lines]:
        self._lines[()] = 1
        value = None if root is None else self._value(root, ())
        if self._faults:
            raise CaseError(tuple(self._faults))
        return value, self._lines

    def _value(self, node: "Node", path: Path) -> JsonValue:
        self._values += 1
        self._lines.setdefault(path, node.start_mark.line + 1)
        if self._values > MAX_VALUES or len(path) > MAX_DEPTH:
            raise CaseError((self._fault(node, "the document is too large or too deep, perhaps by its aliases"),))
        if is_mapping(node):
            return self._mapping(node, path)
        if is_sequence(node):
            return [self._value(one, (*path, place)) for place, one in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: "Node", path: Path) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        for key, value in self._pairs(node):
            if key.value in found:
                self._faults.append(self._fault(key, f"{key.value!r} stands here twice"))
            self._lines[*path, key.value] = key.start_mark.line + 1
            found[key.value] = self._value(value, (*path, key.value))
        return found

    def _pairs(self, node: "Node") -> Iterator[tuple[Any, "Node"]]:
        """The pairs of a mapping; what it merges in comes where it says nothing itself."""
        own = [(key, value) for key, value in node.value if key.tag != _TAG + "merge"]
        for key, _ in own:
            if is_mapping(key) or is_sequence(key):
                raise CaseError((self._fault(key, "a key has to be a word"),))
        yield from own
        said = {key.value for key, _ in own}
        for merged in (value for key, value in node.value if key.tag == _TAG + "merge"):
            for one in merged.value if is_sequence(merged) else [merged]:
                if not is_mapping(one):
                    raise CaseError((self._fault(one, "only a mapping can be merged in"),))
                for key, value in self._pairs(one):
                    if key.value not in said:
                        said.add(key.value)
                        yield key, value

    def _scalar(self, node: "Node") -> JsonValue:
        text = str(node.value)
        try:
            match str(node.tag).removeprefix(_TAG):
                case "str":
                    return text
                case "int":
                    return int(text.replace("_", ""), 0)
                case "float":
                    return float(text)
                case "bool":
                    return text.lower() == "true"
                case "null":
                    return None
                case _:
                    pass
        except ValueError:
            pass
        self._faults.append(self._fault(node, f"{text!r} is none of text, number, true, false and null; quote it"))
        return None

    def _fault(self, node: "Node", problem: str) -> FileFault:
        return FileFault(source=self._source, line=node.start_mark.line + 1, problem=problem)


def is_mapping(node: "Node") -> bool:
    return node.tag == _TAG + "map"


def is_sequence(node: "Node") -> bool:
    return node.tag == _TAG + "seq"
