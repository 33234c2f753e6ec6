"""Shapes: bytes that came in become checked documents, every fault named with its path, values never repeated.

The hand-written JSON Schemas of broker/contract/schemas are the specification and the check at once.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import jsonschema_rs

from broker.contract.neutralise import visible
from broker.contract.schemas import schema
from broker.contract.wire import JsonObject, JsonValue, WireError, dump, parse_object
from broker.core.frozen import Deadlines
from broker.core.resolve import HttpAsk

FAULTS_MAX = 20
MEMBERS_MAX = 100
MESSAGE_LOOKED_AT = 1000  # it may name every key of a hostile body
VALUES_MAX = 20_000  # what one request may cost of the time that all share


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeFault:
    path: str
    problem: str

    def to_json(self) -> dict[str, JsonValue]:
        return {"path": self.path, "problem": self.problem}


class UnreadableError(Exception):
    """Not JSON, or not an object."""


class ShapeError(Exception):
    """Readable, but not what the schema asks for."""

    def __init__(self, faults: tuple[ShapeFault, ...]) -> None:
        super().__init__("; ".join(f"{fault.path}: {fault.problem}" for fault in faults))
        self.faults = faults


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema(name), mask="it", offline=True)


def read_body(raw: bytes, name: str, *, max_bytes: int = 1 << 20) -> dict[str, JsonValue]:
    """The document, checked against the schema of that name. Raises UnreadableError, ShapeError."""
    try:
        document = parse_object(raw or b"{}", max_bytes=max_bytes, max_values=VALUES_MAX)
    except WireError as cause:
        raise UnreadableError(str(cause)) from None
    check(document, name)
    return document


def check(document: JsonObject, name: str) -> None:
    if len(document) > MEMBERS_MAX:  # no schema has as many; naming them all would cost more than reading them
        raise ShapeError((ShapeFault(path="(document)", problem=f"more than {MEMBERS_MAX} members"),))
    faults = tuple(
        ShapeFault(path=_path(error.instance_path), problem=visible(error.message[:MESSAGE_LOOKED_AT], limit=160))
        for error, _ in zip(_validator(name).iter_errors(document), range(FAULTS_MAX), strict=False)
    )
    if faults:
        raise ShapeError(tuple(sorted(faults, key=lambda fault: fault.path)))


def http_ask(document: JsonObject, content: bytes | None = None) -> HttpAsk:
    """A checked http-request document as a value. `content` is the body that came beside it, in frames."""
    body, media = _body(document)
    if content is not None:
        if body is not None:
            raise ShapeError((ShapeFault(path="body", problem="the body comes in frames already"),))
        body = content
    deadline = document.get("deadline")
    told: JsonObject = deadline if isinstance(deadline, Mapping) else {}
    args = document.get("args")
    return HttpAsk(
        service=text_or_none(document, "service"),
        operation=text_or_none(document, "operation"),
        args=args if isinstance(args, Mapping) else None,
        method=text_or_none(document, "method"),
        path=text_or_none(document, "path"),
        query=_query(document.get("query")),
        headers=_pairs(document.get("headers")),
        body=body,
        body_media=media,
        url=text_or_none(document, "url"),
        deadlines=_deadlines(told),
        is_upload=content is not None,
    )


def decoded(document: JsonObject, name: str) -> bytes:
    """A base64 field as bytes. Raises ShapeError."""
    value = document.get(name)
    try:
        return base64.b64decode(value if isinstance(value, str) else "", validate=True)
    except ValueError:
        raise ShapeError((ShapeFault(path=name, problem="not base64"),)) from None


def _path(parts: list[str | int]) -> str:
    return visible("/".join(str(part) for part in parts), limit=120) or "(document)"


def texts(document: JsonObject, name: str) -> tuple[str, ...]:
    """A list of texts whose shape was checked; empty where there is none."""
    value = document.get(name)
    return tuple(str(one) for one in value) if isinstance(value, list | tuple) else ()


def text_or_none(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _body(document: JsonObject) -> tuple[bytes | None, str | None]:
    if "body_b64" in document:
        return decoded(document, "body_b64"), None
    body = document.get("body")
    if body is None:
        return None, None
    if isinstance(body, str):
        return body.encode("utf-8"), "text/plain; charset=utf-8"
    return dump(body), "application/json"


def _query(value: JsonValue) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    if isinstance(value, Mapping):
        for name, item in value.items():
            many = item if isinstance(item, list) else [item]
            pairs += [(name, _spelled(one)) for one in many]
    return tuple(pairs)


def _spelled(value: JsonValue) -> str:
    return value if isinstance(value, str) else dump(value).decode()


def _pairs(value: JsonValue) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(item)) for name, item in value.items()) if isinstance(value, Mapping) else ()


def _deadlines(told: JsonObject) -> Deadlines:
    usual = Deadlines()

    def seconds(name: str, otherwise: float) -> float:
        value = told.get(name)
        return float(value) if isinstance(value, int | float) else otherwise

    total_s = seconds("total_s", usual.total_s)
    return Deadlines(
        connect_s=min(seconds("connect_s", usual.connect_s), total_s),
        write_s=min(seconds("write_s", usual.write_s), total_s),
        first_byte_s=min(seconds("first_byte_s", usual.first_byte_s), total_s),
        total_s=total_s,
    )
