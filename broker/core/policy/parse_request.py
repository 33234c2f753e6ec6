"""The request of an operation, from table to value: method, path, arguments, and what is the same in every one."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from broker.contract.reasons import Effect
from broker.core.arguments import FORM
from broker.core.effects import METHODS
from broker.core.policy.model import Operation
from broker.core.policy.table import Table
from broker.core.policy.template import Template, TemplateError, template_of
from broker.core.request_headers import HeaderError, checked_headers

JSON_BODY = "application/json"
STAND_IN: Mapping[str, object] = MappingProxyType({"method": "GET", "path": "/"})
ARGUMENT = r"[A-Za-z_$][A-Za-z0-9_\[\]$.-]{0,63}"
_ANY = r"(?s).*"  # looked at by a parser of its own
_MEDIA = r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}"
_MAX_FIXED = 500


def request_of(table: Table, operation: Operation) -> Operation:
    """The operation with the request of this table."""
    template = _template(table)
    query = table.texts("query", pattern=ARGUMENT, expected="names")
    operation = _with_body(table, replace(operation, query=query))
    names = (*template.arguments, *query, *(operation.body or ()))
    if len(set(names)) != len(names):
        table.fault(None, "an argument stands in two of path, query and body", "one place for each argument")
    fixed_query = _fixed(table, "fixed_query")
    if {name for name, _ in fixed_query} & set(names):
        table.fault("fixed_query", "a name of it is an argument as well", "other names")
    return replace(
        operation,
        method=table.choice("method", METHODS),
        path=table.text("path", pattern=_ANY),
        required=known_names(table, "required", (*query, *(operation.body or ())), free=operation.body_free),
        refused_words=_refused_words(table, names),
        fixed_query=fixed_query,
        fixed_headers=_fixed_headers(table),
    )


def names_of(operation: Operation) -> tuple[str, ...]:
    """The arguments that have a name."""
    return (*_path_arguments(operation), *operation.query, *(operation.body or ()))


def known_names(table: Table, key: str, known: tuple[str, ...], *, free: bool, dotted: bool = False) -> tuple[str, ...]:
    """A list of arguments. Where the body is free any name may stand; `dotted` allows places within an argument."""
    names = table.texts(key, pattern=ARGUMENT, expected="names of arguments", may_be_empty=True)
    for name in names:
        if not free and name not in known and not (dotted and name.partition(".")[0] in known):
            table.fault(key, f'the operation has no argument "{name}"', ", ".join(known) or "no name")
    return names


def check_arguments(table: Table, operation: Operation) -> Operation:
    """The blocks of an operation that name arguments of it. An inherited paging goes to those that take its token."""
    names, free = names_of(operation), operation.body_free
    paging = operation.pagination
    if paging is not None and "pagination" not in table and not _takes(paging.param, names, free=free):
        operation = replace(operation, pagination=None)
        paging = None
    _check_key_argument(table, operation)
    identity, batch = operation.identity, operation.batch
    asked = (
        ("pagination", "param", None if paging is None else paging.param),
        ("pagination", "size_param", None if paging is None else paging.size_param),
        ("identity", "must_equal", None if identity is None else identity.must_equal),
        ("batch", "request_count", None if batch is None else batch.request_count),
        ("idempotency", "param", operation.idempotency.param),
    )
    for block, key, name in asked:
        if not _takes(name, names, free=free):
            path = (*table.path, block, key) if block in table else table.path
            table.fault_at(path, f'the operation has no argument "{name}"', ", ".join(names) or "no name")
    return operation


def _check_key_argument(table: Table, operation: Operation) -> None:
    """The broker alone gives it, in the query or the body, and it tells no change from another."""
    name = None if operation.effect is Effect.READ else operation.idempotency.key_param
    if name is None:
        return
    path = (*table.path, "idempotency", "param") if "idempotency" in table else table.path
    first = name.partition(".")[0]
    if operation.body_raw or first in _path_arguments(operation):
        table.fault_at(path, "the broker can't put a key there", "an argument of the query, or of the body")
    if name != first and (first in operation.query or operation.body_media == FORM):
        table.fault_at(path, "only a JSON body has places within an argument", "an argument's name")
    for key, names in (("required", operation.required), ("change_key", operation.change_key or ())):
        if first in names:
            table.fault_at(path, f"it is the broker's, and stands in {key}", f"{key} without it")


def _path_arguments(operation: Operation) -> tuple[str, ...]:
    try:
        return template_of(operation.path).arguments
    except TemplateError:
        return ()


def _takes(name: str | None, names: tuple[str, ...], *, free: bool) -> bool:
    return name is None or free or name in names or name.partition(".")[0] in names


def _template(table: Table) -> Template:
    path = table.values.get("path")
    try:
        return template_of(path if isinstance(path, str) else "/")
    except TemplateError as cause:
        table.fault("path", str(cause), "such as /repos/{owner}/{repo}")
        return template_of("/")


def _with_body(table: Table, operation: Operation) -> Operation:
    """Names, "object" for any JSON object, or "raw" for bytes of a media type."""
    if isinstance(table.values.get("body"), str):
        kind = table.choice("body", ("object", "raw"))
        names = None
    else:
        kind = "named"
        names = table.texts("body", pattern=ARGUMENT, expected="names", may_be_empty=True) if "body" in table else None
    operation = replace(operation, body=names, body_free=kind == "object", body_raw=kind == "raw")
    return replace(operation, body_media=_media(table, operation))


def _media(table: Table, operation: Operation) -> str:
    if operation.body_raw:
        return table.text("media", pattern=_MEDIA, expected="the media type of the body, such as application/x-ndjson")
    if "media" in table and operation.body is None and not operation.body_free:
        table.fault("media", "means nothing without a body", "body")
    if table.values.get("media") == "form":
        if operation.body is None:
            table.fault("media", "a form has named fields", 'body = ["name"]')
        return FORM
    if table.values.get("media", "json") == "json":
        return JSON_BODY
    return table.text(
        "media", pattern=r"[a-z0-9.+-]+/[a-z0-9.+-]*json[a-z0-9.-]*", expected="json, form, or a JSON type"
    )


def _refused_words(table: Table, names: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    below = table.table("refused_words", frozenset())
    if below is None:
        return MappingProxyType({})
    for name in set(below.values) - set(names):
        table.fault("refused_words", f'the operation has no argument "{name}"', ", ".join(names) or "no name")
    return MappingProxyType({name: below.texts(name, pattern=r"\w{1,64}", expected="words") for name in below.values})


def _fixed(table: Table, key: str) -> tuple[tuple[str, str], ...]:
    pairs = list(table.pairs(key))
    if all(isinstance(value, str) and len(name) + len(value) <= _MAX_FIXED for name, value in pairs):
        return tuple((name, str(value)) for name, value in pairs)
    table.fault(key, "a value is no string, or too long", "names to strings")
    return ()


def _fixed_headers(table: Table) -> tuple[tuple[str, str], ...]:
    pairs = _fixed(table, "headers")
    if any(name.lower() in {"content-type", "accept-encoding"} for name, _ in pairs):
        table.fault("headers", "the content type follows from `media`, the encoding from the broker", "other headers")
    try:
        return tuple(checked_headers(pairs).items())
    except HeaderError as cause:
        table.fault("headers", str(cause))
        return ()
