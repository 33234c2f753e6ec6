"""Services and their operations, from tables to values. Every fault is kept; see table.py."""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from broker.contract.reasons import Effect
from broker.contract.wire import JsonValue
from broker.core.effects import METHODS
from broker.core.policy.declarations import McpTool
from broker.core.policy.keys import (
    ANY_SERVICE,
    DECIDES,
    MCP,
    OPERATION,
    RECONCILE,
    REQUEST,
    SERVICE,
    SHARED,
    SSH_SERVICE,
    TLS,
)
from broker.core.policy.model import KEY_NAME, Operation, ReadBack, Service, Tls
from broker.core.policy.parse_answers import blocks_over, check_blocks, check_reach
from broker.core.policy.parse_request import STAND_IN, check_arguments, known_names, names_of, request_of
from broker.core.policy.parse_rules import NAME, NAME_SHAPE
from broker.core.policy.parse_ssh import ssh_service_of
from broker.core.policy.table import Table
from broker.core.policy.template import TemplateError, template_of
from broker.core.predicate import PredicateError, argument_names, compile_selection
from broker.core.request_headers import HeaderError, checked_headers
from broker.core.urls import CanonicalUrl, UrlError, canonical_url, is_loopback

ANY = r"(?s).*"  # looked at by a parser of its own
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_FILLED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KINDS = ("http", "ssh")
_STAND_IN_URL = "https://stand-in.invalid/"


def services_in(table: Table, assets: Mapping[str, str]) -> dict[str, tuple[Table, Service]]:
    """The services of one file. `assets` are CA files by name, beside the policy files."""
    tables = table.named("services", ANY_SERVICE, names=NAME, expected=NAME_SHAPE)
    return {name: (below, service_of(name, below, assets)) for name, below in tables.items()}


def service_of(name: str, table: Table, assets: Mapping[str, str]) -> Service:
    is_ssh = table.choice("kind", KINDS) == "ssh"
    for key in sorted(set(table.values) & ANY_SERVICE - (SSH_SERVICE if is_ssh else SERVICE)):
        table.fault(key, f"means nothing in a service of kind {'ssh' if is_ssh else 'http'}")
    return ssh_service_of(name, table, assets) if is_ssh else _http_service_of(name, table, assets)


def _http_service_of(name: str, table: Table, assets: Mapping[str, str]) -> Service:
    url = _base_url(table)
    defaults = table.table("defaults", SHARED)
    inherited = Operation(name="", method="GET", path="/", effect=Effect.READ, place=table.place)
    if defaults is not None:
        inherited = blocks_over(defaults, inherited)
    operations: dict[str, Operation] = {}
    tables = table.named(
        "operations", OPERATION, names=r"[a-z0-9][a-z0-9_.-]{0,63}", expected=f"{NAME_SHAPE}, and dots"
    )
    for operation_name, below in tables.items():
        operations[operation_name] = operation_of(operation_name, below, inherited)
    _check_operations(tables, operations)
    return Service(
        name=name,
        base_url=url.url.rstrip("/"),
        scheme=url.scheme,
        host=url.host,
        port=url.port,
        base_path=url.path.rstrip("/"),
        credential=table.optional_text("credential", pattern=NAME, expected=f"a credential's name: {NAME_SHAPE}"),
        headers=MappingProxyType(_headers(table)),
        ad_hoc=table.texts("ad_hoc", pattern="|".join(METHODS), expected=" or ".join(METHODS), may_be_empty=True),
        probe=_probe(table, operations),
        tls=_tls(table, assets),
        operations=MappingProxyType(operations),
        place=table.place,
    )


def _probe(table: Table, operations: Mapping[str, Operation]) -> str | None:
    name = table.optional_text("probe", pattern=ANY, expected="the name of an operation")
    if name is None:
        return None
    operation = operations.get(name)
    if operation is None or operation.effect is not Effect.READ or operation.required or "{" in operation.path:
        table.fault("probe", "not a read of this service that needs no argument", "such an operation's name")
    return name


def _base_url(table: Table) -> CanonicalUrl:
    text = table.text("base_url", pattern=ANY)
    try:
        url = canonical_url(text or _STAND_IN_URL)
    except UrlError as cause:
        table.fault("base_url", str(cause), "https://host or https://host/path")
        return canonical_url(_STAND_IN_URL)
    if url.query:
        table.fault("base_url", "it has a query", "https://host or https://host/path")
    if url.scheme == "http" and not is_loopback(url.host):
        table.fault("base_url", "plain http goes no further than this machine", "https, or http://127.0.0.1:port")
    return url


def _headers(table: Table) -> dict[str, str]:
    pairs = list(table.pairs("headers"))
    if not all(isinstance(value, str) for _, value in pairs):
        table.fault("headers", "a value is no string", "header names to strings")
        return {}
    if any(name.lower() == "content-type" for name, _ in pairs):
        table.fault("headers", "the content type follows from each body", "other headers")
    try:
        return checked_headers((name, str(value)) for name, value in pairs)
    except HeaderError as cause:
        table.fault("headers", str(cause))
        return {}


def _tls(table: Table, assets: Mapping[str, str]) -> Tls:
    below = table.table("tls", TLS)
    if below is None:
        return Tls()
    name = below.optional_text(
        "ca", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\.pem", expected="a .pem file of this directory"
    )
    directory = table.document.name.rpartition("/")[0]
    asset = f"{directory}/{name}" if directory else name
    if name is not None and asset not in assets:
        below.fault("ca", "there is no such file beside the policy files", "a .pem file of this directory")
    pin = below.optional_text("pin", pattern="sha256:[0-9a-f]{64}", expected="sha256: and 64 hexadecimal digits")
    return Tls(ca_pem=assets.get(asset or ""), pin=pin)


def operation_of(name: str, table: Table, inherited: Operation) -> Operation:
    effect = table.member("effect", Effect)
    request = table.table("request", REQUEST)
    if request is None:
        if "request" not in table:
            table.fault("request", "missing", "a table with method and path")
        request = Table(document=table.document, path=table.path, values=STAND_IN, known=REQUEST, faults=table.faults)
    read = request_of(request, replace(inherited, name=name, effect=effect, place=table.place))
    names, free = names_of(read), read.body_free
    destructive = table.flag("destructive", default=False)
    if destructive and effect is Effect.READ:
        table.fault("destructive", "a read destroys nothing", 'effect = "write" or "exec"')
    read = blocks_over(
        table,
        replace(
            read,
            destructive=destructive,
            title=_title(table, names, free=free),
            targets=known_names(table, "targets", names, free=free, dotted=True),
            change_key=known_names(table, "change_key", names, free=free) if "change_key" in table else None,
            reconcile=_reconcile(table, (*names, *_own_names(table, inherited)), effect, free=free),
            mcp=_mcp(table),
        ),
    )
    check_blocks(table, read)
    check_reach(table, read)
    return check_arguments(table, read)


def _title(table: Table, known: tuple[str, ...], *, free: bool) -> str:
    title = table.text("title", "")
    for name in _PLACEHOLDER.findall(title):
        if name not in known and not free:
            table.fault("title", f'the operation has no argument "{name}"', ", ".join(known) or "no placeholder")
    return title


def _own_names(table: Table, inherited: Operation) -> tuple[str, ...]:
    """What a read-back may ask for besides the arguments: the broker's key, where the change goes out under one."""
    own = table.values.get("idempotency")
    has_key = own.get("kind") == "key" if isinstance(own, dict) else inherited.idempotency.has_key
    return (KEY_NAME,) if has_key else ()


def _mcp(table: Table) -> McpTool | None:
    """Words for a model, one line of them."""
    below = table.table("mcp", MCP)
    if below is None:
        return None
    return McpTool(
        expose=below.flag("expose", default=True),
        name=below.optional_text("name", pattern=r"[a-z][a-z0-9_]{0,63}", expected="a name such as issue_create"),
        description=below.text("description", "", pattern=r"[^\x00-\x1f\x7f]{0,500}", expected="one line of text"),
    )


def _reconcile(table: Table, names: tuple[str, ...], effect: Effect, *, free: bool) -> ReadBack | None:
    below = table.table("reconcile", RECONCILE)
    if below is None:
        return None
    if effect is Effect.READ:
        table.fault("reconcile", "a read changes nothing that could be in doubt", "no reconcile here")
    match = below.text("match", pattern=ANY)
    try:
        asked = argument_names(match)
        compile_selection(match, {name: "" for name in asked if free or name in names})
    except PredicateError as cause:
        below.fault("match", str(cause), "a selection such as json[?title==$title]")
    one_proves, none_proves = _decides(below)
    return ReadBack(
        operation=below.text("operation"),
        args=MappingProxyType(dict(_read_back_args(below, names, free=free))),
        match=match,
        not_before_s=below.integer("not_before_s", 0, low=0, high=3600),
        one_proves=one_proves,
        none_proves=none_proves,
    )


def _decides(table: Table) -> tuple[bool, bool]:
    """Whether one match proves the change, and none its absence. It may be said to prove less, and never more."""
    below = table.table("decides", DECIDES)
    if below is None:
        return True, True
    below.choice("many", ("unknown",), "unknown")
    one = below.choice("one", ("applied", "unknown"), "applied")
    none = below.choice("none", ("not_applied", "unknown"), "not_applied")
    return one == "applied", none == "not_applied"


def _read_back_args(table: Table, names: tuple[str, ...], *, free: bool) -> list[tuple[str, JsonValue]]:
    args: list[tuple[str, JsonValue]] = []
    for name, value in table.pairs("args"):
        if not isinstance(value, str | int | bool):
            table.fault("args", f"{name} is neither text, number, true nor false", 'a value, or "{argument}"')
            continue
        args.append((name, value))
        found = _PLACEHOLDER.findall(str(value))
        unknown = [one for one in found if not _FILLED.fullmatch(one) or (not free and one not in names)]
        if unknown or re.search(r"[{}]", _PLACEHOLDER.sub("", str(value))):
            problem = f"{name} holds a placeholder that this version does not support"
            table.fault("args", problem, "{argument} of this operation")
    return args


def _check_operations(tables: Mapping[str, Table], operations: Mapping[str, Operation]) -> None:
    """What only the whole service shows: two operations with one path, read-backs that lead nowhere."""
    seen: dict[tuple[object, ...], str] = {}
    for name, operation in operations.items():
        table = tables[name]
        try:
            key = (operation.method, template_of(operation.path).shape, operation.fixed_query, operation.fixed_headers)
        except TemplateError:
            continue  # told already
        if key in seen:
            table.fault(
                "request", f'the same requests fit the operation "{seen[key]}"', "one operation for a method and path"
            )
        seen.setdefault(key, name)
        if operation.reconcile is not None:
            _check_read_back(table, operation.reconcile, operations)


def _check_read_back(table: Table, read_back: ReadBack, operations: Mapping[str, Operation]) -> None:
    read = operations.get(read_back.operation)
    if read is None or read.effect is not Effect.READ:
        table.fault_at((*table.path, "reconcile", "operation"), "not a read of this service", "a declared read")
        return
    try:
        needed = set(template_of(read.path).arguments)
    except TemplateError:
        return
    args = set(read_back.args)
    if not (needed | set(read.required)) <= args or not args <= needed | set(read.query):
        wanted = ", ".join((*sorted(needed), *(f"{name}?" for name in read.query))) or "no argument"
        table.fault_at((*table.path, "reconcile", "args"), "not the arguments of that read", wanted)
