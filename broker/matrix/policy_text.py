"""The policy of a run as a policy file: its services, and one rule that stands for the gate of the case."""

import json
from collections.abc import Mapping

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix.cases import Case
from broker.matrix.faults import MatrixError

EXPIRES_S = 5  # the shortest that a card may wait for a human who does not come
LIMITS: JsonObject = {"prompts_per_minute": 600}


def policy_text(case: Case, services: Mapping[str, JsonObject]) -> str:
    """TOML. Reads are free unless the case itself is one, so that a look at what became of a change asks nobody."""
    lines = ["version = 1", "", "[limits]"]
    lines += [f"{_key(key)} = {_value(told)}" for key, told in {**LIMITS, **case.limits}.items()]
    for rule in case.rules or _rules(case, list(services)):
        lines += ["", "[[rules]]", *_members(rule)]
    for name, service in services.items():
        operations = service.get("operations")
        lines += ["", f"[services.{_key(name)}]"]
        lines += _members({key: told for key, told in service.items() if key != "operations"})
        for operation, declared in (operations if isinstance(operations, Mapping) else {}).items():
            lines += ["", f"[services.{_key(name)}.operations.{_key(operation)}]"]
            lines += _members(declared if isinstance(declared, Mapping) else {})
    return "\n".join([*lines, ""])


def _rules(case: Case, services: list[str]) -> list[JsonObject]:
    gate: dict[str, JsonValue] = {"id": "matrix", "services": services, "approval": case.gate.policy}
    if case.gate.policy in {"session", "per_call"} and set(case.gate.approver) & {"silent", "absent"}:
        gate["expires_s"] = EXPIRES_S
    if case.is_read or case.gate.policy == "none":
        return [gate]
    free: JsonObject = {"id": "matrix-looks", "services": services, "effects": ["read"], "approval": "none"}
    return [free, {**gate, "effects": ["write", "exec"]}]


def _members(table: JsonObject) -> list[str]:
    return [f"{_key(key)} = {_value(told)}" for key, told in table.items()]


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _text(key)


def _text(text: str) -> str:
    """A JSON string is a TOML string, once DEL is escaped and a slash is left alone."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: JsonValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case Mapping():
            return "{ " + ", ".join(f"{_key(key)} = {_value(told)}" for key, told in value.items()) + " }"
        case None:
            raise MatrixError("a policy file has no null: leave the key out")
        case _:
            return "[" + ", ".join(_value(one) for one in value) + "]"
