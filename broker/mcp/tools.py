"""The tools: what each is called, takes and does at the daemon.

There is one for each verb, and one for each operation that the policy lists for models. Annotations are hints for the
agent's client and decide nothing here: the gate is the daemon's.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from broker.client.agent import AgentClient
from broker.client.envelope_lines import parts
from broker.contract.wire import JsonValue
from broker.mcp.schemas import input_schema

Answer = dict[str, JsonValue]
Arguments = Mapping[str, JsonValue]

_COMMON = ("request_id", "reason", "deadline", "evidence", "wait_s")
_LONGEST_NAME = 64
DEFAULT_WAIT_S = 150.0
LONGEST_WAIT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """`acts` marks what a human may have to allow and what has an outcome of its own."""

    name: str
    title: str
    description: str
    schema: dict[str, JsonValue]
    ask: Callable[[AgentClient, Arguments], Answer]
    acts: bool = False
    reads_only: bool = False
    destructive: bool = True
    idempotent: bool = False


def verbs() -> list[Tool]:
    """The tools that there always are."""
    return [*_over_http(), _over_ssh(), *_about_earlier_calls(), *_about_the_daemon()]


def _over_http() -> Iterable[Tool]:
    free = ("service", "method", "path", "url", "query", "headers", "body", "body_b64")
    yield Tool(
        name="http",
        title="HTTP request",
        description=(
            "Perform an HTTP request through doorward, which adds the credential; you never see it. Name a service"
            " with method and path, or give a full url. Act on the fields of the answer: category, retry,"
            " remote_effect, completeness. After outcome_unknown never send again: use reconcile."
        ),
        schema=input_schema("http-request", *free, *_COMMON, required=("method",)),
        ask=lambda client, arguments: client.http(arguments),
        acts=True,
    )
    declared = ("service", "operation")
    yield Tool(
        name="call",
        title="Declared operation",
        description="Perform an operation that the policy declares for a service; services lists them.",
        schema=input_schema("http-request", *declared, "args", *_COMMON, required=declared),
        ask=lambda client, arguments: client.http(arguments),
        acts=True,
    )
    yield Tool(
        name="collect",
        title="Whole list",
        description=(
            "Walk a declared list to its end within a budget. Only completeness.complete = true says that nothing"
            " is missing; an empty or cut list proves no absence. Go on with completeness.next_cursor."
        ),
        schema=input_schema("collect-request"),
        ask=lambda client, arguments: client.collect(arguments),
        acts=True,
        reads_only=True,
        destructive=False,
        idempotent=True,
    )


def _over_ssh() -> Tool:
    return Tool(
        name="ssh",
        title="Remote command",
        description=(
            "Run a command on a host that the policy names, as command (text), argv (words) or a declared"
            " operation with args. After outcome_unknown never run it again: use reconcile."
        ),
        schema=input_schema("ssh-request"),
        ask=lambda client, arguments: client.ssh(arguments),
        acts=True,
    )


def _about_earlier_calls() -> Iterable[Tool]:
    schema = input_schema("reconcile-request")
    waits: JsonValue = {
        "description": "How long to wait for a human or for an action that runs; left out it does not wait.",
        "type": "number",
        "minimum": 0,
        "maximum": LONGEST_WAIT_S,
    }
    yield Tool(
        name="reconcile",
        title="Settle an unknown outcome",
        description="Read back, as the operation declares it, what became of a change whose outcome is unknown.",
        schema=schema,
        ask=lambda client, arguments: client.reconcile(
            _text(arguments, "correlation_id"), wait_s=wait_of(arguments, DEFAULT_WAIT_S)
        ),
        acts=True,
        reads_only=True,
        destructive=False,
        idempotent=True,
    )
    yield Tool(
        name="result",
        title="Earlier result",
        description=(
            "Fetch the result of an earlier call by its correlation_id: after approval_pending, a cancelled call or a"
            " lost connection. With wait_s it waits for a human or a running action. Sends nothing."
        ),
        schema={**schema, "properties": {**_properties(schema), "wait_s": waits}},
        ask=lambda client, arguments: client.result(_text(arguments, "correlation_id"), wait_s=wait_of(arguments, 0.0)),
        reads_only=True,
        destructive=False,
        idempotent=True,
    )


def _about_the_daemon() -> Iterable[Tool]:
    yield Tool(
        name="services",
        title="What may be asked for",
        description="List services, operations and hosts that a rule could open to you, with effect and gate.",
        schema={"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        ask=lambda client, _: client.services(),
        reads_only=True,
        destructive=False,
        idempotent=True,
    )
    yield Tool(
        name="explain",
        title="Dry run",
        description=(
            "Say what would become of a request (of http, collect, ssh) now: gate, rule, missing evidence. Sends"
            " nothing and asks nobody."
        ),
        schema=input_schema("explain-request"),
        ask=lambda client, arguments: client.explain(
            _object(arguments.get("request")), action=_text(arguments, "action")
        ),
        reads_only=True,
        destructive=False,
        idempotent=True,
    )
    yield Tool(
        name="request_credential",
        title="Ask for a credential",
        description=(
            "Have the human asked to add the credential of a service that the policy names. The answer is provided or"
            " declined; you are never shown a value, and must never ask the human to paste one to you."
        ),
        schema=input_schema("credential-request"),
        ask=lambda client, arguments: client.request_credential(arguments),
        acts=True,
        destructive=False,
        idempotent=True,
    )


def declared(services: Answer, taken: Iterable[str]) -> list[Tool]:
    """A tool for each operation that the policy lists for models, by name; a name that is taken is left out."""
    tools: dict[str, Tool] = {}
    names = set(taken)
    for service in parts(services, "services"):
        for operation in parts(service, "operations"):
            words = operation.get("mcp")
            if not isinstance(words, dict):
                continue
            tool = _of_operation(str(service.get("service")), operation, words)
            if tool.name not in names:
                names.add(tool.name)
                tools[tool.name] = tool
    return [tools[name] for name in sorted(tools)]


def _of_operation(service: str, operation: Mapping[str, JsonValue], words: Answer) -> Tool:
    name = str(operation.get("operation"))
    reads = operation.get("effect") == "read"
    what = words.get("description") or f"{operation.get('method')} {operation.get('path')} of {service}."

    schema = _arguments_schema(operation)
    ours = _common_beside(operation)

    def ask(client: AgentClient, arguments: Arguments) -> Answer:
        said = {key: value for key, value in arguments.items() if key in ours}
        args = {key: value for key, value in arguments.items() if key not in ours}
        return client.http({"service": service, "operation": name, "args": args, **said})

    return Tool(
        name=str(words.get("name") or f"{service}_{name}".replace(".", "_").replace("-", "_"))[:_LONGEST_NAME],
        title=f"{service} {name}",
        description=str(what),
        schema=schema,
        ask=ask,
        acts=True,
        reads_only=reads,
        destructive=bool(operation.get("destructive")),
        idempotent=reads,
    )


def _common_beside(operation: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """What every call may say of itself, but where an argument of the operation has that very name."""
    own = _arguments(operation)
    return tuple(name for name in _COMMON if name not in own)


def _arguments(operation: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    parameters = operation.get("parameters")
    if not isinstance(parameters, dict):
        return {}
    found: dict[str, JsonValue] = {}
    for name in _names(parameters.get("path")):
        found[name] = {"description": "Part of the path.", "type": ["string", "integer"]}
    for name in _names(parameters.get("query")):
        found[name] = {"description": "Query parameter.", "type": ["string", "number", "boolean", "array"]}
    for name in _names(parameters.get("body")):
        found[name] = {"description": "Member of the body."}
    return found


def _arguments_schema(operation: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    parameters = operation.get("parameters")
    known = parameters if isinstance(parameters, dict) else {}
    common = _properties(input_schema("http-request", *_common_beside(operation), required=()))
    return {
        "type": "object",
        "properties": {**_arguments(operation), **common},
        "required": _names(known.get("required")),
        "additionalProperties": not known or known.get("body") == "object",
    }


def _properties(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    found = schema["properties"]
    return dict(found) if isinstance(found, dict) else {}


def _names(value: JsonValue) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _object(value: JsonValue) -> Answer:
    if not isinstance(value, dict):
        raise ArgumentError("request: an object is missing")
    return value


def _text(arguments: Arguments, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise ArgumentError(f"{name}: a text is missing")
    return value


def wait_of(arguments: Arguments, otherwise: float) -> float:
    """The seconds that a call may wait for a human. Raises ArgumentError."""
    value = arguments.get("wait_s", otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_WAIT_S:
        raise ArgumentError(f"wait_s: expected 0 to {LONGEST_WAIT_S} seconds")
    return float(value)


class ArgumentError(ValueError):
    """An argument that does not reach the daemon: what is wrong and what was expected."""
