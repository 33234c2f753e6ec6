"""Predicates of a policy file, compiled and proven: each has answers that it matches and others that it does not.

The examples are run whenever a policy is loaded. One that does not hold is a fault like any other.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from broker.contract.wire import JsonValue
from broker.core.policy.keys import EXAMPLE, EXAMPLES, PROVEN
from broker.core.policy.table import Table
from broker.core.predicate import AnswerView, Predicate, PredicateError, answer_view, compile_predicate, holds
from broker.core.predicate_traps import ANSWER
from broker.core.xml_tree import XmlError, tree_of

Example: TypeAlias = tuple[frozenset[str], Callable[[Table], AnswerView | None]]
ANY_TEXT = r"(?s).{0,65536}"
ITEM = ("item",)  # what a predicate sees of a batch


def proven(table: Table, key: str) -> Predicate | None:
    """A predicate that stands with its examples in a table of its own: `key = { when = "...", examples = {...} }`."""
    below = table.table(key, PROVEN)
    return None if below is None else predicate_of(below, "when", required=True)


def proven_of_item(table: Table, key: str) -> Predicate | None:
    """The same over `item`, a member of a batch. Its examples are such members."""
    below = table.table(key, PROVEN)
    return None if below is None else predicate_of(below, "when", required=True, sees=ITEM, example=OF_ITEMS)


def predicate_of(
    table: Table,
    key: str,
    *,
    required: bool = False,
    examples_required: bool = True,
    sees: tuple[str, ...] = ANSWER,
    example: "Example | None" = None,
) -> Predicate | None:
    """A predicate with its examples run, each a table with these keys that `example` reads as an answer.

    None where it is not declared or at fault.
    """
    if key not in table:
        if required:
            table.fault(key, "missing", f"a predicate over {', '.join(sees)}")
        if "examples" in table:
            table.fault("examples", f"there is no {key} that they are examples of")
        return None
    text = table.values[key]
    if not isinstance(text, str):
        table.text(key)
        return None
    try:
        predicate = compile_predicate(text, sees=sees)
    except PredicateError as cause:
        table.fault(key, str(cause))
        return None
    _run_examples(table, key, predicate, example or OF_ANSWERS, required=examples_required)
    return predicate


def _run_examples(
    table: Table,
    key: str,
    predicate: Predicate,
    example: "Example",
    *,
    required: bool,
) -> None:
    known, read = example
    examples = table.table("examples", EXAMPLES)
    if examples is None:
        if required and "examples" not in table:
            table.fault(
                "examples", f"missing for {key}", "one answer that it matches and one that it does not, or more"
            )
        return
    for side, wanted in (("match", True), ("no_match", False)):
        entries = examples.tables(side, known)
        if side not in examples:
            examples.fault(side, "missing", "at least one answer")
        for entry in entries:
            answer = read(entry)
            verdict = holds(predicate, answer) if answer is not None else wanted
            if verdict is not wanted:
                said = {True: "matches it", False: "does not match it", None: "can't be evaluated on it"}[verdict]
                entry.fault(None, f"{key} {said}", "an example that holds")


def _example(table: Table) -> AnswerView | None:
    """The view of an example answer; None where it is at fault."""
    before = len(table.faults.found)
    headers: list[tuple[str, str]] = []
    for name, value in table.pairs("headers"):
        values = value if isinstance(value, list) else [value]
        if name != name.lower() or not all(isinstance(item, str) for item in values):
            table.fault("headers", "not headers of an answer", "lower-case names to a string or a list of strings")
        headers += [(name, str(item)) for item in values]
    body = table.values.get("json")
    if not is_json(body):
        table.fault("json", "it holds a date or time", "JSON values")
    xml_text = table.optional_text("xml", pattern=ANY_TEXT, expected="at most 65536 characters of XML")
    view = answer_view(
        status=table.integer("status", None, low=100, high=599),
        headers=headers,
        json=body,  # type: ignore[arg-type]  # looked through just above
        text=table.optional_text("text", pattern=ANY_TEXT, expected="at most 65536 characters") or xml_text,
        xml=_tree(table, xml_text),
    )
    return view if len(table.faults.found) == before else None


def _tree(table: Table, text: str | None) -> JsonValue:
    if text is None:
        return None
    try:
        return tree_of(text)
    except XmlError as cause:
        table.fault("xml", str(cause), "a document of XML")
        return None


def is_json(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(is_json, value.values()))
    if isinstance(value, list):
        return all(map(is_json, value))
    return value is None or isinstance(value, str | int | float | bool)


def _item(table: Table) -> AnswerView | None:
    """The view of an example of a batch's item; None where it is at fault."""
    if is_json(table.values):
        return AnswerView({"item": table.values})  # type: ignore[dict-item]  # looked through just above
    table.fault(None, "it holds a date or time", "JSON values")
    return None


def never() -> Predicate:
    """Stands in for a predicate at fault; the policy that holds it is dropped."""
    return compile_predicate("`false`")


OF_ANSWERS: Example = (EXAMPLE, _example)
OF_ITEMS: Example = (frozenset(), _item)  # their keys are free
