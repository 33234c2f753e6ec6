"""Arguments of a declared operation: from a request's path, query and body to one set of names, and back to bytes.

The same arguments always spell the same bytes, whether they came by name or by path. Values that travel in the path
or the query are strings from here on, so that `7` and `"7"` are one change and not two.
"""

import math
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote_plus

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject, JsonValue, WireError, dump, parse_object
from broker.core.policy.model import Operation
from broker.core.policy.places import at
from broker.core.policy.template import Template

MAX_QUERY_PAIRS = 256
_SIZE_DIGITS = 7
FORM = "application/x-www-form-urlencoded"
_BODY_BY_DEFAULT = frozenset({"POST", "PUT", "PATCH"})


class ArgumentError(ValueError):
    """Arguments that the operation does not take. The message names declared arguments and holds no value."""


def arguments_of(operation: Operation, template: Template, given: JsonObject) -> dict[str, JsonValue]:
    """Check names and types and bring path and query values into their one form. Raises ArgumentError."""
    body_names = operation.body or ()
    known = (*template.arguments, *operation.query, *body_names)
    if not operation.body_free and not set(given) <= set(known):
        raise ArgumentError(f"an argument that the operation does not take; it takes {', '.join(known) or 'none'}")
    if _says_key(operation, given):
        raise ArgumentError(f"{operation.idempotency.key_param} is the broker's own key for this change; leave it out")
    missing = [name for name in (*template.arguments, *operation.required) if name not in given]
    if missing:
        raise ArgumentError(f"missing: {', '.join(missing)}")
    arguments: dict[str, JsonValue] = {name: _segment_text(name, given[name]) for name in template.arguments}
    for name in operation.query:
        if name in given and given[name] != []:
            arguments[name] = _query_value(name, given[name])
    is_form = operation.body_media == FORM  # its values are text, as those of a query are
    for name, value in given.items():
        if name in template.arguments or name in operation.query or (is_form and value == []):
            continue
        told = name if name in known else "a body value"
        arguments[name] = _query_value(told, value) if is_form else _json_value(told, value)
    for name, words in operation.refused_words.items():
        if _holds_word(arguments.get(name), words):
            raise ArgumentError(f"{name} holds a word that this operation does not take: {' or '.join(words)}")
    for name in operation.change_key or ():
        if holds_fraction(arguments.get(name)):
            raise ArgumentError(f"{name} tells this change from others and can't hold a fraction")
    return arguments


def _says_key(operation: Operation, given: JsonObject) -> bool:
    """Whether somebody else names the key under which the upstream knows the change."""
    param = None if operation.effect is Effect.READ else operation.idempotency.key_param
    if param is None:
        return False
    below = given.get(param.partition(".")[0])
    if param in given or at(given, param) is not None:
        return True
    if below is not None and not isinstance(below, Mapping):
        raise ArgumentError(f"{param} is the broker's own key for this change, so what holds it is an object")
    return False


def _holds_word(value: JsonValue, words: Iterable[str]) -> bool:
    """Anywhere, whatever its case, and whatever it is part of a comment or a text of."""
    found = {word.lower() for word in re.findall(r"\w+", text_of(value))} if value is not None else set()
    return any(word.lower() in found for word in words)


def over_asked(operation: Operation, arguments: JsonObject) -> JsonObject:
    """The arguments as they are sent: with a row more where the operation can tell by that whether there are more."""
    name = operation.pagination.size_param if operation.pagination is not None else None
    more = more_rows(operation, arguments)
    if name is None or not more:
        return arguments
    size = arguments[name]
    return {**arguments, name: size + more if isinstance(size, int) else str(int(str(size)) + more)}


def more_rows(operation: Operation, arguments: JsonObject) -> int:
    """How many more than the agent names; none where the upstream does not serve so many at once."""
    declared, paging = operation.completeness, operation.pagination
    told = None if paging is None or paging.size_param is None else arguments.get(paging.size_param)
    if declared is None or declared.cap is None or isinstance(told, bool):
        return 0
    text = str(told)
    is_number = isinstance(told, str | int) and text.isascii() and text.isdigit() and len(text) <= _SIZE_DIGITS
    return declared.over_ask if is_number and int(text) + declared.over_ask <= declared.cap else 0


def query_of(operation: Operation, arguments: JsonObject) -> str:
    """The encoded query, in the declared order of names."""
    pairs: list[tuple[str, str]] = []
    for name in operation.query:
        value = arguments.get(name)
        if isinstance(value, str):
            pairs.append((name, value))
        elif isinstance(value, list):
            pairs += [(name, str(item)) for item in value]
    return encoded_query(pairs)


def whole_query(operation: Operation, arguments: JsonObject) -> str:
    """The same behind what is sent with every request of the operation."""
    own, fixed = query_of(operation, arguments), encoded_query(operation.fixed_query)
    return f"{fixed}&{own}" if fixed and own else fixed or own


def body_of(operation: Operation, template: Template, arguments: JsonObject) -> bytes | None:
    """The JSON object or the form that travels as the body, None where none does."""
    if operation.body is None and not operation.body_free:
        return None
    if operation.body_media == FORM:
        return _form_of(operation, arguments)
    elsewhere = {*template.arguments, *operation.query}
    order = (*(operation.body or ()), *(name for name in arguments if name not in (operation.body or ())))
    fields = {name: arguments[name] for name in order if name in arguments and name not in elsewhere}
    return dump(fields) if fields or operation.method in _BODY_BY_DEFAULT else None


def given_by_path(
    operation: Operation, found: Mapping[str, str], query: Iterable[tuple[str, str]], body: bytes | None
) -> dict[str, JsonValue]:
    """The arguments that a path request spells. Raises ArgumentError."""
    given: dict[str, JsonValue] = dict(found)
    for name, value in query:
        if name not in operation.query:
            known = ", ".join(operation.query) or "none"
            raise ArgumentError(f"a query name that the operation does not declare; it declares {known}")
        before = given.get(name)
        if before is None:
            given[name] = value
        else:
            given[name] = [*before, value] if isinstance(before, list) else [before, value]
    return with_body(operation, given, body)


def with_body(operation: Operation, given: JsonObject, body: bytes | None) -> dict[str, JsonValue]:
    """Add the fields of a JSON body to arguments; none may be given twice. Raises ArgumentError."""
    if body is None or operation.body_raw:
        return dict(given)
    if operation.body is None and not operation.body_free:
        raise ArgumentError("the operation takes no body")
    fields = _fields_of_form(body) if operation.body_media == FORM else _fields_of_json(body)
    elsewhere = {*given, *operation.query}
    if set(fields) & elsewhere:
        raise ArgumentError("an argument is given twice, in the body and elsewhere")
    return {**given, **fields}


def _fields_of_json(body: bytes) -> dict[str, JsonValue]:
    try:
        return parse_object(body, max_bytes=len(body))
    except WireError as cause:
        raise ArgumentError(f"the body of this operation is a JSON object: {cause}") from None


def _fields_of_form(body: bytes) -> dict[str, JsonValue]:
    try:
        pairs = split_query(body.decode("ascii"))
    except UnicodeDecodeError:
        raise ArgumentError("the body of this operation is a form, percent-encoded") from None
    fields: dict[str, JsonValue] = {}
    for name, value in pairs:
        before = fields.get(name)
        if before is None:
            fields[name] = value
        else:
            fields[name] = [*before, value] if isinstance(before, list) else [before, value]
    return fields


def _form_of(operation: Operation, arguments: JsonObject) -> bytes | None:
    """The fields in their declared order; a list repeats its field."""
    pairs: list[tuple[str, str]] = []
    for name in operation.body or ():
        if name in arguments:
            told = arguments[name]
            pairs += [(name, str(item)) for item in (told if isinstance(told, list) else [told])]
    return encoded_query(pairs).encode("ascii") if pairs or operation.method in _BODY_BY_DEFAULT else None


def split_query(query: str) -> list[tuple[str, str]]:
    """The pairs of an encoded query, decoded once."""
    parts = [part for part in query.split("&") if part]
    if len(parts) > MAX_QUERY_PAIRS:
        raise ArgumentError(f"more than {MAX_QUERY_PAIRS} values in the query")
    pairs = (part.partition("=") for part in parts)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]


def encoded_query(pairs: Iterable[tuple[str, str]]) -> str:
    """One spelling of pairs: everything but unreserved characters is percent-encoded."""
    try:
        return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    except UnicodeEncodeError:
        raise ArgumentError("a query value holds half a surrogate pair") from None


def text_of(value: JsonValue) -> str:
    """An argument as it is shown: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else dump(value).decode("utf-8", "replace")


def holds_fraction(value: JsonValue) -> bool:
    if isinstance(value, float):
        return True
    if isinstance(value, Mapping):
        return any(holds_fraction(item) for item in value.values())
    return isinstance(value, list | tuple) and any(holds_fraction(item) for item in value)


def _segment_text(name: str, value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ArgumentError(f"{name} stands in the path and is a string or an integer")


def _query_value(name: str, value: JsonValue) -> JsonValue:
    if not isinstance(value, list | tuple):
        return _scalar_text(name, value)
    texts: list[JsonValue] = [_scalar_text(name, item) for item in value]
    if len(texts) > MAX_QUERY_PAIRS:
        raise ArgumentError(f"{name} holds more than {MAX_QUERY_PAIRS} values")
    return texts if len(texts) > 1 else texts[0]


def _scalar_text(name: str, value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, str | int):
        return str(value)
    raise ArgumentError(f"{name} stands in the query and is a string, a number, true, false, or a list of these")


def _json_value(name: str, value: JsonValue) -> JsonValue:
    """Refuse what JSON can't spell, before it is written."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentError(f"{name} holds a number beyond what JSON can carry")
    if isinstance(value, Mapping):
        return {_json_key(name, key): _json_value(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(name, item) for item in value]
    return _json_key(name, value) if isinstance(value, str) else value


def _json_key(name: str, text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ArgumentError(f"{name} holds half a surrogate pair") from None
    return text
