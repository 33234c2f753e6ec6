"""From what an agent asked to the one frozen request: names resolved, URL spelled, headers merged, body serialised.

A path that fits a declared operation is that operation, and arguments that spell another operation's path are refused,
so no rule about an operation can be walked around. Decides nothing: an ad hoc method that the service does not list
is frozen like any other and denied by the policy. Messages name what the policy names and repeat no agent's text.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from broker.contract.wire import JsonObject, JsonValue
from broker.core.arguments import (
    ArgumentError,
    arguments_of,
    body_of,
    encoded_query,
    given_by_path,
    over_asked,
    split_query,
    text_of,
    whole_query,
    with_body,
)
from broker.core.effects import METHODS, READING, effect_of, is_destructive
from broker.core.frozen import Deadlines, FrozenRequest
from broker.core.policy.model import Operation, Policy, Service
from broker.core.policy.template import Template, TemplateError, arguments_in, path_with, template_of
from broker.core.request_headers import HeaderError, checked_headers, merged_headers
from broker.core.urls import CanonicalUrl, UrlError, canonical_url, read_loosely, segments_of

MAX_UPLOAD_BYTES = 16_777_216  # of a body in frames: it is frozen whole, so that a human decides about these bytes

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAsk:
    """A request as the agent put it, its shape checked and nothing resolved.

    Either `operation` with `args`, or `method` with `path`, or `method` with `url`. `body_media` is the content type
    that the form of the body implies, used where the agent names none.
    """

    service: str | None = None
    operation: str | None = None
    args: JsonObject | None = None
    method: str | None = None
    path: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    body_media: str | None = None
    url: str | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    is_upload: bool = False  # the body came in frames, and may be larger than the policy lets a document be


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """The request itself is at fault. `code` is one of invalid_request's."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where a request goes, before its headers and body are settled."""

    service: Service
    declared: Operation | None
    method: str
    url: CanonicalUrl
    args: JsonObject
    body: bytes | None


class _InvalidError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.invalid = Invalid(code=code, message=message)


def resolve(policy: Policy, ask: HttpAsk) -> FrozenRequest | Invalid:
    """The frozen request, or what is wrong with it."""
    try:
        is_free = ask.is_upload and ask.operation is None  # of an operation it would be read as JSON
        if len(ask.body or b"") > (MAX_UPLOAD_BYTES if is_free else policy.limits.body_bytes):
            raise _too_large(policy)
        target = _by_operation(policy, ask) if ask.operation is not None else _by_request(policy, ask)
        if len(target.body or b"") > policy.limits.body_bytes and (target.declared is not None or not ask.is_upload):
            raise _too_large(policy)
        return _frozen(ask, target)
    except _InvalidError as fault:
        return fault.invalid
    except (ArgumentError, TemplateError) as fault:
        return Invalid(code="schema", message=f"The arguments don't fit: {fault}.")
    except UrlError as fault:
        return Invalid(code="bad_url", message=f"The URL is not acceptable: {fault}.")
    except HeaderError as fault:
        code = "reserved_header" if fault.reserved else "schema"
        return Invalid(code=code, message=f"The headers are not acceptable: {fault}.")


def _too_large(policy: Policy) -> _InvalidError:
    return _InvalidError("body_too_large", f"The body is over the policy's limit of {policy.limits.body_bytes} bytes.")


def _schema(message: str) -> _InvalidError:
    return _InvalidError("schema", message)


def _by_operation(policy: Policy, ask: HttpAsk) -> _Target:
    if ask.method is not None or ask.path is not None or ask.url is not None or ask.query:
        raise _schema("Give an operation with args, or a method with a path; not both.")
    service_name, operation_name = ask.service, ask.operation or ""
    if service_name is None:
        service_name, _, operation_name = operation_name.partition(".")
    service = _service(policy, service_name)
    operation = service.operations.get(operation_name)
    if operation is None:
        raise _InvalidError(
            "unknown_operation",
            f"The service {service.name} declares no operation of that name; see: doorward services",
        )
    template = template_of(operation.path)
    args = arguments_of(operation, template, with_body(operation, ask.args or {}, ask.body))
    return _declared_target(service, operation, args, ask.body)


def _declared_target(service: Service, operation: Operation, args: JsonObject, body: bytes | None) -> _Target:
    template = template_of(operation.path)
    path = path_with(template, {name: str(args[name]) for name in template.arguments})
    sent = over_asked(operation, args)
    url = _url_of(service, path, whole_query(operation, sent))
    best = _fitting(service, operation.method, _below(service, url), operation.fixed_query, operation.fixed_headers)
    if best is not None and best[0].name != operation.name:
        raise _schema(f"These arguments spell the path of the operation {best[0].name}; ask for that one.")
    return _Target(
        service=service,
        declared=operation,
        method=operation.method,
        url=url,
        args=args,
        body=body if operation.body_raw else body_of(operation, template, sent),
    )


def _by_request(policy: Policy, ask: HttpAsk) -> _Target:
    if ask.args is not None:
        raise _schema("args belong to an operation; give the operation's name.")
    method = (ask.method or "").upper()
    if method not in METHODS:
        raise _schema(f"The method is one of {', '.join(METHODS)}.")
    service, url, query = _by_url(policy, ask) if ask.url is not None else _by_path(policy, ask)
    fitting = _fitting(service, method, _below(service, url), query, checked_headers(ask.headers).items())
    if fitting is not None:
        if len(ask.body or b"") > policy.limits.body_bytes:  # it would be read as JSON
            raise _too_large(policy)
        operation, found = fitting
        template = template_of(operation.path)
        given = given_by_path(operation, found, _without(query, operation.fixed_query), ask.body)
        return _declared_target(service, operation, arguments_of(operation, template, given), ask.body)
    _refuse_near_miss(service, method, _below(service, url))
    _refuse_beside(policy, service, url)
    if ask.body is not None and method in READING:
        raise _schema(f"A {method} request carries no body.")
    return _Target(service=service, declared=None, method=method, url=url, args={}, body=ask.body)


def _by_url(policy: Policy, ask: HttpAsk) -> tuple[Service, CanonicalUrl, list[tuple[str, str]]]:
    if ask.service is not None or ask.path is not None:
        raise _schema("Give a service with a path, or a full url; not both.")
    url = canonical_url(_with_query(ask.url or "", encoded_query(ask.query)))
    covering = [service for service in policy.services.values() if _covers(service, url)]
    longest = max((len(service.base_path) for service in covering), default=0)
    nearest = [service for service in covering if len(service.base_path) == longest]
    if not nearest:
        raise _InvalidError("unknown_service", "No service has a base URL that covers this one.")
    if len(nearest) > 1:
        raise _InvalidError("unknown_service", "More than one service has that base URL; name the service and a path.")
    return nearest[0], url, split_query(url.query)


def _by_path(policy: Policy, ask: HttpAsk) -> tuple[Service, CanonicalUrl, list[tuple[str, str]]]:
    if ask.service is None or ask.path is None:
        raise _schema("Give a service with an operation or a path, or a full url.")
    service = _service(policy, ask.service)
    if not ask.path.startswith("/"):
        raise UrlError("a path begins with a slash")
    url = _url_of(service, ask.path, encoded_query(ask.query))
    return service, url, split_query(url.query)


def _service(policy: Policy, name: str) -> Service:
    service = policy.services.get(name)
    if service is None:
        raise _InvalidError("unknown_service", "The policy has no service of that name; see: doorward services")
    if service.ssh is not None:
        raise _InvalidError("unknown_service", f"The service {name} is reached by SSH; see: doorward ssh --help")
    return service


def _url_of(service: Service, path: str, query: str) -> CanonicalUrl:
    return canonical_url(_with_query(f"{service.base_url}{path}", query))


def _with_query(text: str, query: str) -> str:
    if not query:
        return text
    return f"{text}&{query}" if "?" in text else f"{text}?{query}"


def _covers(service: Service, url: CanonicalUrl) -> bool:
    same_origin = (service.scheme, service.host, service.port) == (url.scheme, url.host, url.port)
    return same_origin and f"{url.path}/".startswith(f"{service.base_path}/")


def _below(service: Service, url: CanonicalUrl) -> str:
    """The canonical path below the base URL."""
    return url.path.removeprefix(service.base_path) or "/"


def _fitting(
    service: Service,
    method: str,
    path: str,
    query: Iterable[tuple[str, str]],
    headers: Iterable[tuple[str, str]],
) -> tuple[Operation, dict[str, str]] | None:
    """The declared operation whose template fits most literally, with the arguments found in the path.

    Of those with one template it is the one of which most that is fixed is there.
    """
    best: tuple[Operation, dict[str, str]] | None = None
    given_query, given_headers = set(query), set(headers)
    for operation in service.operations.values():
        if operation.method != method:
            continue
        found = arguments_in(template_of(operation.path), path)
        fixed = given_query.issuperset(operation.fixed_query) and given_headers.issuperset(operation.fixed_headers)
        if found is not None and fixed and (best is None or _rank(operation) < _rank(best[0])):
            best = (operation, found)
    return best


def _rank(operation: Operation) -> tuple[object, ...]:
    return (*template_of(operation.path).rank, -len(operation.fixed_query) - len(operation.fixed_headers))


def _without(query: list[tuple[str, str]], fixed: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """The pairs without those that are the operation's own, each of which may stand once."""
    left = list(query)
    for pair in fixed:
        left.remove(pair)
    return left


def _refuse_near_miss(service: Service, method: str, path: str) -> None:
    """A slash more, or another case, is how an upstream is asked for an operation under another name."""
    loose = read_loosely(path)
    for operation in service.operations.values():
        if operation.method == method and _fits_loosely(template_of(operation.path), loose):
            raise UrlError(
                f"it is the path of the operation {operation.name} but for case, parameters, or what stands at the end"
            )


def _fits_loosely(template: Template, loose: str) -> bool:
    literals = {read_loosely(part.text): part.text for part in template.segments if part.argument is None}
    spelled = "/".join(literals.get(segment, quote(segment)) for segment in loose.split("/"))
    return arguments_in(template, f"{spelled}/" if template.ends_in_slash else spelled or "/") is not None


def _refuse_beside(policy: Policy, service: Service, url: CanonicalUrl) -> None:
    """What another service declares more closely is asked of that one: its rules must not be walked around."""
    for other in policy.services.values():
        if len(other.base_path) > len(service.base_path) and _covers(other, url):
            raise UrlError(f"it lies below the base URL of the service {other.name}; ask for that one")


def _frozen(ask: HttpAsk, target: _Target) -> FrozenRequest:
    service, declared, url = target.service, target.declared, target.url
    agent_headers = checked_headers(ask.headers)
    effect = declared.effect if declared else effect_of(target.method)
    destructive = declared.destructive if declared else is_destructive(target.method)
    return FrozenRequest(
        service=service,
        operation=f"{service.name}.{declared.name if declared else target.method}",
        declared=declared,
        method=target.method,
        url=url.url,
        host=url.host,
        port=url.port,
        path=url.path,
        query=url.query,
        headers=merged_headers(
            agent_headers,
            {**service.headers, **dict(declared.fixed_headers if declared else ())},
            content_type=_content_type(ask, target, agent_headers),
        ),
        body=target.body or b"",
        effect=effect,
        destructive=destructive,
        args=target.args,
        targets=_targets(target, destructive=destructive),
        identifies=_identifies(target),
        deadlines=_deadlines(ask.deadlines, declared),
    )


def _deadlines(asked: Deadlines, declared: Operation | None) -> Deadlines:
    """The agent's, within what the operation allows."""
    if declared is None:
        return asked
    most = declared.limits
    return Deadlines(
        connect_s=min(asked.connect_s, most.connect_s or asked.connect_s),
        write_s=min(asked.write_s, most.write_s or asked.write_s),
        first_byte_s=min(asked.first_byte_s, most.first_byte_s or asked.first_byte_s),
        total_s=min(asked.total_s, most.total_s or asked.total_s),
    )


def _content_type(ask: HttpAsk, target: _Target, agent_headers: Mapping[str, str]) -> str | None:
    if target.body is None:
        return None
    if target.declared is None:
        return ask.body_media or "application/octet-stream"
    media = target.declared.body_media
    named = agent_headers.get("content-type", media)
    if named.partition(";")[0].strip().lower() != media:
        raise HeaderError(f"this operation sends {media}")
    return media


def _targets(target: _Target, *, destructive: bool) -> tuple[str, ...]:
    if target.declared is not None and target.declared.targets:
        return tuple(text for name in target.declared.targets for text in _texts_at(target.args, name))
    if not destructive:
        return ()
    if target.declared is not None:
        names = template_of(target.declared.path).arguments
        return (str(target.args[names[-1]]),) if names else ()
    return segments_of(target.url.path)[-1:]


def _texts_at(args: JsonObject, name: str) -> Iterable[str]:
    """The values under a dotted name; a list stands for its members."""
    value: JsonValue = args
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        return ()
    return tuple(text_of(item) for item in value) if isinstance(value, list) else (text_of(value),)


def _identifies(target: _Target) -> str:
    if target.declared is None:
        return target.url.path
    args = target.args
    if target.declared.title:
        return _PLACEHOLDER.sub(lambda match: text_of(args.get(match[1], "")), target.declared.title).strip()
    template = template_of(target.declared.path)
    spelled = ""
    follows = False
    for segment in template.segments:
        if segment.argument is not None:
            spelled += ("/" if follows else " ") + str(args[segment.argument])
        follows = segment.argument is not None
    return spelled.strip() or target.url.path
