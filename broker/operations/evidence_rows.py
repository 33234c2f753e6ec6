"""A recorded collection as JSON, and back; what is not whole is none."""

from collections.abc import Mapping
from dataclasses import fields

from broker.contract.reasons import WarningCode
from broker.contract.wire import JsonObject, JsonValue
from broker.core.evidence import EvidenceRecord
from broker.core.policy.declarations import Visibility

_NAMES = frozenset(field.name for field in fields(EvidenceRecord))


class MisshapenError(ValueError):
    """The JSON is no recorded collection of this version."""


def to_json(record: EvidenceRecord) -> JsonObject:
    return {
        "id": record.id,
        "anchor_id": record.anchor_id,
        "service": record.service,
        "operation": record.operation,
        "args": dict(record.args),
        "credential": record.credential,
        "credential_version": record.credential_version,
        "policy_digest": record.policy_digest,
        "id_place": record.id_place,
        "ids": list(record.ids),
        "count": record.count,
        "total": record.total,
        "collected_at_ms": record.collected_at_ms,
        "expires_at_ms": record.expires_at_ms,
        "complete": record.complete,
        "reasons": [dict(reason) for reason in record.reasons],
        "warnings": [warning.value for warning in record.warnings],
        "visibility": record.visibility.value,
        "scope": None if record.scope is None else dict(record.scope),
        "snapshot": record.snapshot,
        "pages": record.pages,
        "cursor": record.cursor,
    }


def of_json(values: JsonObject) -> EvidenceRecord:
    """Raises MisshapenError, or ValueError for a word that is not known."""
    if values.keys() != _NAMES:
        raise MisshapenError("other fields than those of this version")
    return EvidenceRecord(
        id=_text(values["id"]),
        anchor_id=_text(values["anchor_id"]),
        service=_text(values["service"]),
        operation=_text(values["operation"]),
        args=_object(values["args"]),
        credential=_text_or_none(values["credential"]),
        credential_version=_integer_or_none(values["credential_version"]),
        policy_digest=_text(values["policy_digest"]),
        id_place=_text_or_none(values["id_place"]),
        ids=tuple(_text(one) for one in _list(values["ids"])),
        count=_integer(values["count"]),
        total=_integer_or_none(values["total"]),
        collected_at_ms=_integer(values["collected_at_ms"]),
        expires_at_ms=_integer(values["expires_at_ms"]),
        complete=values["complete"] is True,
        reasons=tuple(_object(one) for one in _list(values["reasons"])),
        warnings=tuple(WarningCode(_text(one)) for one in _list(values["warnings"])),
        visibility=Visibility(_text(values["visibility"])),
        scope=None if values["scope"] is None else _object(values["scope"]),
        snapshot=_text_or_none(values["snapshot"]),
        pages=_integer(values["pages"]),
        cursor=_text_or_none(values["cursor"]),
    )


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise MisshapenError("no text")
    return value


def _text_or_none(value: JsonValue) -> str | None:
    return None if value is None else _text(value)


def _integer(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MisshapenError("no integer")
    return value


def _integer_or_none(value: JsonValue) -> int | None:
    return None if value is None else _integer(value)


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, Mapping):
        raise MisshapenError("no object")
    return value


def _list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise MisshapenError("no list")
    return value
