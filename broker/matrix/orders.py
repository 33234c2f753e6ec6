"""What an agent is told to do in a run: the case's request and those of its roles, as they go out."""

from collections.abc import Callable, Mapping

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix.cases import Ask, Case

STALLING = frozenset({"silence", "stall", "delay", "timeout"})
BRIEF: JsonObject = {"connect_s": 1.0, "write_s": 1.0, "first_byte_s": 1.5, "total_s": 3.0}
PATIENT: JsonObject = {"first_byte_s": 15.0, "total_s": 20.0}


def orders(case: Case, place: Callable[[JsonValue], JsonValue], *, service: str) -> dict[str, JsonObject]:
    """`main` and the roles, each with verb and fields. `service` is meant where a request names none."""
    found = {"main": _order(case.ask, case.service or service, case.operation)}
    for role, ask in case.agent.uses.items():
        named, operation = ask.fields.get("service"), ask.fields.get("operation")
        own = named if isinstance(named, str) else case.service or service
        found[role] = _order(ask, own, _within(case, own, operation) if isinstance(operation, str) else None)
    is_brief = case.fault is not None and case.fault.kind in STALLING
    for order in found.values():
        fields = order["fields"]
        if isinstance(fields, dict) and order["verb"] == "http":
            fields.setdefault("deadline", dict(BRIEF if is_brief else PATIENT))
    return {role: {"verb": order["verb"], "fields": place(order["fields"])} for role, order in found.items()}


def _within(case: Case, service: str, operation: str) -> str:
    """A role may spell its operation with the service or without; a name that is declared as it is stays so."""
    declared = case.services.get(service, {}).get("operations")
    is_declared = isinstance(declared, Mapping) and operation in declared
    return operation if is_declared else operation.removeprefix(f"{service}.")


def _order(ask: Ask, service: str, operation: str | None) -> dict[str, JsonValue]:
    """By operation and arguments where there is no path; a path that fits an operation is that operation."""
    fields: dict[str, JsonValue] = dict(ask.fields)
    is_spelled = "path" in fields or "command" in fields or "argv" in fields
    if "url" not in fields and ask.verb != "ssh":
        fields["service"] = service
    if operation is not None and not is_spelled:
        fields["operation"] = operation
        fields.setdefault("args", {})
    elif isinstance(fields.get("args"), Mapping) and is_spelled:
        del fields["args"]
    return {"verb": ask.verb, "fields": fields}
