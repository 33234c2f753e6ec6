"""Predicates over answers: JMESPath as data, compiled once, its traps refused, its cost bounded on hostile answers.

A predicate sees `{status, headers, json, text, xml}`, or of a command's end `{exit_code, stdout, stderr}`. Answers over
1 MiB, deeper than 64 or dearer than a fixed number of steps are unverified: `holds` says None, and no caller may take
that for success. Nothing here reads a clock, so the same answer always gets the same verdict. Request arguments
(`$name`) are bound as literals before compilation.
"""

import json as json_text
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jmespath.exceptions import JMESPathError
from jmespath.parser import Parser
from jmespath.visitor import TreeInterpreter
from typing_extensions import override

from broker.contract.wire import JsonObject, JsonValue, WireError, parse_json
from broker.core.predicate_traps import ANSWER, Node, trap_in

MAX_RULE_CHARACTERS = 4096
MAX_BOUND_CHARACTERS = 65_536
MAX_ANSWER_CHARACTERS = 1 << 20
MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_STEPS = 20_000

_PIECES = re.compile(
    r"""'(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `(?:\\.|[^`\\])*` | \$[A-Za-z_][A-Za-z0-9_]* | [^'"`$]+ | .""",
    re.VERBOSE | re.DOTALL,
)


class PredicateError(ValueError):
    """The text is no acceptable predicate. The message says why and how to write it; it never holds a bound value."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled expression. `selects` marks one that picks values instead of answering yes or no."""

    text: str
    selects: bool = False
    sees: tuple[str, ...] = ANSWER
    _tree: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tree", _compiled(self.text, selects=self.selects, sees=self.sees))


def compile_predicate(text: str, bindings: JsonObject | None = None, *, sees: tuple[str, ...] = ANSWER) -> Predicate:
    """A yes-or-no predicate over these names. `$name` stands for `bindings[name]`. Raises PredicateError."""
    return Predicate(_bound(text, bindings or {}), sees=sees)


def compile_selection(text: str, bindings: JsonObject | None = None) -> Predicate:
    """An expression that selects values from an answer, such as `json[?title==$title]`. Raises PredicateError."""
    return Predicate(_bound(text, bindings or {}), selects=True)


def argument_names(text: str) -> frozenset[str]:
    """The `$name`s that stand in an expression, outside of its literals."""
    return frozenset(piece[1:] for piece in _PIECES.findall(text) if len(piece) > 1 and piece[0] == "$")


class AnswerView(dict[str, JsonValue]):
    """An answer as predicates see it, and whether it is within the bounds: measured once, asked by every rule."""

    __slots__ = ("is_bounded",)

    def __init__(self, view: JsonObject) -> None:
        super().__init__(view)
        self.is_bounded = _within_bounds(view)


def answer_view(
    *,
    status: int,
    headers: Iterable[tuple[str, str]] = (),
    json: JsonValue = None,
    text: str | None = None,
    xml: JsonValue = None,
) -> AnswerView:
    """What predicates look at. Header names become lower-case, a repeated header becomes a list."""
    seen: dict[str, list[str]] = {}
    for name, value in headers:
        seen.setdefault(name.lower(), []).append(value)
    folded: dict[str, JsonValue] = {name: values[0] if len(values) == 1 else values for name, values in seen.items()}
    return AnswerView({"status": status, "headers": folded, "json": json, "text": text, "xml": xml})


def holds(predicate: Predicate, view: JsonObject) -> bool | None:
    """Whether the answer fits; None where that can't be told (it raised, or the answer is over the bounds)."""
    value = _evaluated(predicate, view)
    if value is None or value is True or value is False:
        return bool(value)
    return None


def selected(predicate: Predicate, view: JsonObject) -> tuple[JsonValue, ...] | None:
    """The values that a selection picks; None where the answer has no such list, or it can't be told."""
    value = _evaluated(predicate, view)
    return tuple(value) if isinstance(value, list) else None


class _Unverifiable:
    """Marks an evaluation without a result; neither null nor false."""


class _TooDearError(Exception):
    pass


class _CountingInterpreter(TreeInterpreter):
    """JMESPath's interpreter with a limit on steps, so that no answer can hold the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._steps_left = MAX_STEPS

    @override
    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise _TooDearError
        return super().visit(node, *args, **kwargs)


def _evaluated(predicate: Predicate, view: JsonObject) -> Any:
    measured = view if isinstance(view, AnswerView) else AnswerView(view)
    if not measured.is_bounded:
        return _Unverifiable()
    try:
        return _CountingInterpreter().visit(predicate._tree, measured)  # noqa: SLF001 - the value is of this module
    except Exception:  # noqa: BLE001 - whatever a hostile answer made it raise, it never falls through to success
        return _Unverifiable()


def _within_bounds(view: JsonObject) -> bool:
    """Count before looking: depth, number of values and characters of everything in the view."""
    text = view.get("text")
    if isinstance(text, str) and len(text) > MAX_ANSWER_CHARACTERS:
        return False
    containers: list[Any] = [view]
    values = characters = 0
    for _ in range(MAX_DEPTH + 1):  # the view itself comes on top
        deeper: list[Any] = []
        for container in containers:
            values += len(container)
            if values > MAX_VALUES:
                return False
            members = container
            if isinstance(container, Mapping):
                characters += sum(map(len, container))
                members = container.values()
            characters += sum([len(member) for member in members if type(member) is str])
            deeper += [member for member in members if isinstance(member, dict | list)]
        if characters > 2 * MAX_ANSWER_CHARACTERS:  # an answer stands there as text and as JSON or XML
            return False
        if not deeper:
            return True
        containers = deeper
    return False


def _compiled(text: str, *, selects: bool, sees: tuple[str, ...]) -> Node:
    if not text.strip():
        raise PredicateError("it is empty; write what to look for, such as status==`404`")
    if len(text) > MAX_BOUND_CHARACTERS:
        raise PredicateError(f"it is longer than {MAX_BOUND_CHARACTERS} characters")
    _check_literals(text)
    try:
        tree: Node = Parser()._parse(text).parsed  # type: ignore[attr-defined]  # noqa: SLF001 - `parse` keeps a global cache
    except (JMESPathError, ValueError, IndexError) as cause:
        raise PredicateError(f"it is not JMESPath: {_reason(cause)}") from None
    except RecursionError:
        raise PredicateError("it is nested too deeply") from None
    if _depth(tree) > MAX_DEPTH:
        raise PredicateError("it is nested too deeply")
    trap = trap_in(tree, selects=selects, sees=sees)
    if trap is not None:
        raise PredicateError(trap)
    return tree


def _reason(cause: Exception) -> str:
    position = getattr(cause, "lex_position", getattr(cause, "lexer_position", None))
    return "it ends too early or holds an unknown token" if position is None else f"look at character {position + 1}"


def _check_literals(text: str) -> None:
    for piece in _PIECES.findall(text):
        if piece[0] == "`" and len(piece) > 1:
            try:
                parse_json(piece[1:-1].replace("\\`", "`").encode("utf-8", "surrogatepass"))
            except WireError:
                raise PredicateError("between back-ticks stands JSON; write a string as 'text'") from None


def _depth(tree: Node) -> int:
    """Nesting of the tree, counted level by level and no further than needed."""
    level, depth = [tree], 0
    while level and depth <= MAX_DEPTH:
        level = [child for node in level for child in node["children"] if isinstance(child, dict)]
        depth += 1
    return depth


def _bound(text: str, bindings: JsonObject) -> str:
    if len(text) > MAX_RULE_CHARACTERS:
        raise PredicateError(f"it is longer than {MAX_RULE_CHARACTERS} characters")
    parts: list[str] = []
    for piece in _PIECES.findall(text):
        if piece[0] != "$":
            parts.append(piece)
        elif piece[1:] in bindings:
            parts.append(_literal(bindings[piece[1:]]))
        else:
            raise PredicateError(f"{piece} stands for no argument that is known here")
    return "".join(parts)


def _literal(value: JsonValue) -> str:
    """A JMESPath literal that can't be left: JSON in ASCII, in which a back-tick is spelled as an escape."""
    try:
        spelled = json_text.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise PredicateError("an argument has no JSON spelling") from None
    return "`" + spelled.replace("`", "\\u0060") + "`"
