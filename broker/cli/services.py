"""`doorward services` and `doorward health`: what may be asked for, and whether anybody answers."""

from broker.cli.agent_side import ask
from broker.cli.arguments import Parser
from broker.contract.exits import EXIT_CODES
from broker.contract.neutralise import cells, visible

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from broker.contract.wire import JsonValue

    Answer = dict[str, JsonValue]

_GATES = {
    "none": "runs without asking",
    "session": "asks once in a session",
    "per_call": "asks each time",
    "deny": "is denied",
}


_SSH_WORDS = {"read": "READ", "write": "WRITE", "exec": "RUN"}


def run(noun: str, arguments: list[str]) -> int:
    parser = Parser(f"doorward {noun}")
    parser.add_argument("--json", action="store_true", help="print the machine form")
    options = parser.parse_args(arguments)
    if noun == "health":
        return ask(lambda client: client.health(), as_json=options.json, text=_health, again="doorward health")
    return ask(lambda client: client.services(), as_json=options.json, text=_services, again="doorward services")


def _health(answer: "Answer") -> tuple[list[str], int]:
    line = f"{answer.get('status')}: doorward {answer.get('version')}, vault {answer.get('vault')}"
    return [visible(line)], 0 if answer.get("status") == "ok" else EXIT_CODES["broker_unavailable"]


def _services(answer: "Answer") -> tuple[list[str], int]:
    if answer.get("vault") != "ready":
        line = f"the vault is {answer.get('vault')}: nothing runs until a human unlocks it (doorward unlock)"
        return [visible(line)], EXIT_CODES["vault_locked"]
    services = _objects(answer.get("services"))
    if not services:
        return ["no rule opens anything to this agent"], 0
    out: list[str] = []
    for service in services:
        out.append(visible(str(service.get("service"))))
        if service.get("kind") == "ssh":
            out += _ssh(service)
            continue
        out += _operations(_objects(service.get("operations")))
        methods = service.get("ad_hoc")
        if isinstance(methods, list) and methods:
            out.append(
                visible(f"  any path by {', '.join(map(str, methods))}; its answers are never known to be complete")
            )
    return out, 0


def _ssh(service: "Answer") -> list[str]:
    """Hosts with what may be asked of them freely, then the declared commands."""
    out = []
    for host in _objects(service.get("hosts")):
        free = host.get("ad_hoc")
        told = f"; any of {', '.join(map(str, free))}" if isinstance(free, list) and free else ""
        out.append(visible(f"  host {host.get('host')} as {host.get('user')}{told}"))
    for operation in _objects(service.get("operations")):
        effect = "DELETE" if operation.get("destructive") else _SSH_WORDS.get(str(operation.get("effect")), "RUN")
        gate = _GATES.get(str(operation.get("gate")), str(operation.get("gate")))
        words, hosts = operation.get("command"), operation.get("hosts")
        command = " ".join(map(str, words)) if isinstance(words, list) else ""
        where = ", ".join(map(str, hosts)) if isinstance(hosts, list) else ""
        out.append(visible(f"  {operation.get('operation')}  {effect} {command}; on {where}; {gate}"))
    return out


def _operations(operations: "list[Answer]") -> list[str]:
    names = [visible(str(operation.get("operation"))) for operation in operations]
    width = max((cells(name) for name in names), default=0)
    out = []
    for name, operation in zip(names, operations, strict=True):
        effect = "DELETE" if operation.get("destructive") else str(operation.get("effect")).upper()
        gate = _GATES.get(str(operation.get("gate")), str(operation.get("gate")))
        parameters = _parameters(operation.get("parameters"))
        what = f"{effect:<6} {operation.get('method')} {operation.get('path')}; {gate}"
        out.append(f"  {name}{' ' * (width - cells(name))}  {visible(what)}")
        if parameters:
            out.append(f"  {' ' * width}  takes {visible(parameters)}")
    return out


def _parameters(known: "JsonValue") -> str:
    """The arguments of a `doorward call`, those that may be left out in brackets."""
    if not isinstance(known, dict):
        return ""
    body = known.get("body")
    names = [name for part in (known.get("path"), known.get("query"), body) if isinstance(part, list) for name in part]
    required = known.get("required")
    needed = required if isinstance(required, list) else []
    told = [str(name) if name in needed else f"[{name}]" for name in names]
    return " ".join([*told, "and any others"] if body == "object" else told)


def _objects(value: "JsonValue") -> "list[Answer]":
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
