"""The traps of JMESPath, found in a parsed expression before it can mislead anyone.

A trap is an expression that parses, and then is silently null, true for the wrong reason, or raises on ordinary
answers. Knows the grammar's tree and the names that a predicate sees; evaluates nothing.
"""

from typing import Any, TypeAlias

from jmespath.functions import Functions

Node: TypeAlias = dict[str, Any]

ANSWER = ("status", "headers", "json", "text", "xml")  # what a predicate sees of an answer over HTTP
ENDING = ("exit_code", "stdout", "stderr")  # and of the end of a command
_ORDER = frozenset({"lt", "lte", "gt", "gte"})
_YES_OR_NO = frozenset({"contains", "starts_with", "ends_with"})
_NEVER_MISSING = frozenset(
    {
        "abs", "ceil", "contains", "ends_with", "floor", "join", "keys", "length", "map", "merge", "reverse", "sort",
        "sort_by", "starts_with", "sum", "to_array", "to_string", "type", "values",
    }
)  # fmt: skip
_PATHS = frozenset({"subexpression", "index_expression", "projection", "value_projection", "flatten", "comparator"})
_SIGNATURES: dict[str, Any] = Functions.FUNCTION_TABLE


def trap_in(tree: Node, *, selects: bool, sees: tuple[str, ...]) -> str | None:
    """The first trap as a sentence that says how to write it instead; None where there is none."""
    found = _trap(tree, at_root=sees)
    if found is None and not selects and not _is_condition(tree):
        return _not_a_condition(tree)
    return found


def _trap(node: Node, *, at_root: tuple[str, ...]) -> str | None:
    """`at_root` are the names of the whole view, and empty where the node is evaluated against a part of it."""
    found = _own_trap(node, at_root=at_root)
    if found is not None:
        return found
    for child, child_at_root in _children(node, at_root=at_root):
        found = _trap(child, at_root=child_at_root)
        if found is not None:
            return found
    return None


def _children(node: Node, *, at_root: tuple[str, ...]) -> list[tuple[Node, tuple[str, ...]]]:
    """Children with what they are evaluated against: in a path only the first one still sees the whole view."""
    children = [child for child in node["children"] if isinstance(child, dict)]
    if node["type"] in {"subexpression", "index_expression", "projection", "value_projection", "filter_projection"}:
        return [(child, at_root if position == 0 else ()) for position, child in enumerate(children)]
    if node["type"] == "pipe":
        return [(children[0], at_root), (children[1], ())]
    return [(child, () if node["type"] == "expref" else at_root) for child in children]


def _own_trap(node: Node, *, at_root: tuple[str, ...]) -> str | None:
    kind = node["type"]
    if kind == "field" and at_root and node["value"] not in at_root:
        return f"a predicate sees {', '.join(at_root)}, and nothing of another name"
    if kind in {"multi_select_list", "multi_select_dict"}:
        return "lists and objects can't be built in a predicate; write a literal such as `[200, 201]`"
    if kind in _PATHS and any(child["type"] == "not_expression" for child in _nodes(node)):
        return "`!a.b` and `!a == b` negate `a` alone; write !(...) around the whole"
    if kind == "subexpression":
        return _header_trap(node)
    if kind == "not_expression":
        return _negation_trap(node["children"][0])
    if kind == "and_expression" and not all(_is_condition(child) for child in node["children"]):
        return _not_a_condition(next(child for child in node["children"] if not _is_condition(child)))
    if kind == "filter_projection" and not _is_condition(node["children"][2]):
        return _not_a_condition(node["children"][2])
    if kind == "function_expression":
        return _function_trap(node)
    return None


def _nodes(node: Node) -> list[Node]:
    return [child for child in node["children"] if isinstance(child, dict)]


def _header_trap(node: Node) -> str | None:
    first, second = node["children"][:2]
    named = first["type"] == "field" and first["value"] == "headers" and second["type"] == "field"
    if named and second["value"] != second["value"].lower():
        return "header names are lower-case here"
    return None


def _negation_trap(operand: Node) -> str | None:
    if not _is_condition(operand):
        return _not_a_condition(operand)
    if _orders(operand):
        return "the negation of < or > is true where the value is missing; turn the comparison round"
    return None


def _orders(node: Node) -> bool:
    if node["type"] == "comparator":
        return node["value"] in _ORDER
    return node["type"] in {"and_expression", "or_expression", "not_expression"} and any(map(_orders, _nodes(node)))


def _is_condition(node: Node) -> bool:
    kind = node["type"]
    if kind in {"comparator", "not_expression"}:
        return True
    if kind in {"and_expression", "or_expression"}:
        return all(_is_condition(child) for child in node["children"])
    if kind == "literal":
        return isinstance(node["value"], bool)
    return kind == "function_expression" and node["value"] in _YES_OR_NO


def _not_a_condition(node: Node) -> str:
    if node["type"] == "function_expression":
        return f"{node['value']}() answers neither yes nor no; compare its result"
    return (
        "a bare value is no test of presence: empty lists, objects and strings count as false; "
        "compare it, as in json.id != `null` or json.draft == `true`"
    )


def _function_trap(node: Node) -> str | None:
    name, arguments = node["value"], _nodes(node)
    if name not in _SIGNATURES:
        return f"there is no function {name}()"
    signature = _SIGNATURES[name]["signature"]
    variadic = bool(signature) and bool(signature[-1].get("variadic"))
    if len(arguments) < len(signature) or (len(arguments) > len(signature) and not variadic):
        return f"{name}() takes {len(signature)} argument{'s' if len(signature) != 1 else ''}"
    if name == "join" and arguments[0]["type"] != "literal":
        return "the separator of join() is written out, as in join(',', ...)"
    for position, argument in enumerate(arguments):
        types = signature[min(position, len(signature) - 1)]["types"]
        if types == ["expref"] and argument["type"] != "expref":
            return f"{name}() takes an expression such as &name there"
        if types and types != ["expref"] and not _never_missing(argument):
            return f"{name}() raises on what is missing; give a default, as in x || {_default_for(types[0])}"
    return None


def _never_missing(node: Node) -> bool:
    kind = node["type"]
    if kind == "literal":
        return node["value"] is not None
    if kind == "or_expression":
        return _never_missing(node["children"][1])
    return kind == "function_expression" and node["value"] in _NEVER_MISSING


def _default_for(kind: str) -> str:
    return {"string": "''", "object": "`{}`", "number": "`0`"}.get(kind, "`[]`")
