"""Reading the answers of control.sock: an object, what was refused and why, and the fields that have to be there."""

import math

from broker.client.faults import Broken, Refused
from broker.client.transport import Answer
from broker.contract.wire import JsonObject, JsonValue, WireError, parse_object


def parsed(answer: Answer) -> dict[str, JsonValue]:
    try:
        return parse_object(answer.body or b"{}", max_bytes=max(len(answer.body), 2))
    except WireError as cause:
        raise Broken(f"the daemon's answer ({answer.status}) is not usable: {cause}", sent=True) from cause


def refusal(status: int, value: JsonObject) -> Exception:
    error = value.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return Broken(f"the daemon answered {status} without a reason: it may be of another version than this client")
    listed = error.get("faults")
    faults = listed if isinstance(listed, list) else []
    delay = error.get("retry_after_s")
    return Refused(
        str(error.get("message") or error["code"]),
        status=status,
        code=str(error["code"]),
        faults=tuple(_fault(fault) for fault in faults if isinstance(fault, dict)),
        retry_after_s=math.ceil(delay) if isinstance(delay, int | float) else None,
    )


def _fault(fault: JsonObject) -> tuple[str, str, str]:
    path, problem, expected = (fault.get(name) for name in ("path", "problem", "expected"))
    return str(path or ""), str(problem or ""), str(expected or "")


def items(answer: JsonObject, name: str) -> list[dict[str, JsonValue]]:
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Broken(f"the daemon's answer holds no list of {name}")
    return [item for item in value if isinstance(item, dict)]


def part(answer: JsonObject, name: str) -> dict[str, JsonValue]:
    value = answer.get(name)
    if not isinstance(value, dict):
        raise Broken(f"the daemon's answer holds no {name}")
    return value


def text(answer: JsonObject, name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise Broken(f"the daemon's answer holds no {name}")
    return value


def integer(answer: JsonObject, name: str) -> int:
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Broken(f"the daemon's answer holds no {name}")
    return value
