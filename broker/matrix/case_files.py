"""Case files: YAML to cases, strictly. Every fault of all files is told at once, with its line and what was expected.

The short form (id, request, fixture_response, expect) and the long one are the same format: what is left out has a
default. Services of a file are tables of a policy file and are checked by the daemon that is to trust them.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix import packs, points
from broker.matrix.cases import AD_HOC, APPROVERS, DECISIONS, POLICIES, REVIEW, Agent, Answer, Ask, Case, Fault, Gate
from broker.matrix.expectations import EXPECT, expectation
from broker.matrix.faults import CaseError, FileFault
from broker.matrix.reading import Reading, Table
from broker.matrix.yaml_tree import Path as Place
from broker.matrix.yaml_tree import read

FILE = ("cases", "services", "packs", "rules", "limits", "group", "anchors")
CASE = (
    "id", "title", "group", "service", "operation", "request", "fixture_response", "fault", "deadline", "expect",
    "agent", "expected_agent_decision", "vault", "approver", "policy", "second_process", "repeat", "rules", "limits",
)  # fmt: skip
REQUEST = (
    "verb", "effect", "service", "method", "path", "url", "query", "headers", "body", "body_b64", "args", "cursor",
    "budget", "request_id", "reason", "evidence", "wait_s", "host", "command", "argv", "stdin", "operation",
)  # fmt: skip
ANSWER = (
    "status", "headers", "body", "body_b64", "commits", "honours_key", "when", "exit_status", "exit_signal",
    "stdout", "stderr", "seconds",
)  # fmt: skip
FAULT = ("point", "kind", "seconds", "on", "step", "side")
DEADLINE = ("connect_s", "write_s", "first_byte_s", "login_s", "exec_s", "idle_s", "total_s")
AGENT = ("script", "permitted", "forbidden", "uses")
SCRIPTS = (
    "act", "create_read_annotate", "create_then_read", "delete_by_inventory", "delete_by_inventory_hasty",
    "restart_and_verify", "approved_denied_after_exit", "in_turn",
)  # fmt: skip
VERBS = ("http", "collect", "ssh")
ARROW = "->"
NOTE = Ask(fields={"service": AD_HOC, "method": "POST", "path": "/notes", "body": {"note": "it is there"}})
MOST_ROUNDS = 1000
_UNTOLD = frozenset({"verb", "effect", "service", "operation"})  # said elsewhere in what goes out


def load_files(paths: list[Path]) -> list[Case]:
    faults: list[FileFault] = []
    found: list[Case] = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as cause:
            faults.append(FileFault(source=str(path), line=1, problem=f"it can't be read: {cause}"))
            continue
        try:
            found += parse(text, str(path), group=path.stem)
        except CaseError as error:
            faults += error.faults
    seen: dict[str, str] = {}
    for one in found:
        if one.id in seen:
            source, _, line = one.place.rpartition(":")
            faults.append(FileFault(source=source, line=int(line), problem=f"{one.id} is in {seen[one.id]} too"))
        seen.setdefault(one.id, one.place)
    if faults:
        raise CaseError(tuple(faults))
    return found


def parse(text: str, source: str, *, group: str = "cases") -> list[Case]:
    """The cases of one document. Raises CaseError."""
    value, lines = read(text, source)
    reading = Reading(source, lines)
    file = reading.table((), value, FILE, ("cases",))
    services = _services(file)
    shared = _Shared(
        reading=reading,
        services=services,
        rules=_rules(file),
        limits=dict(limits.values) if (limits := file.table("limits")) is not None else {},
        group=file.text("group", group),
    )
    found = [shared.case(path, one) for path, one in file.rows("cases")]
    if reading.faults:
        raise CaseError(tuple(sorted(dict.fromkeys(reading.faults), key=lambda fault: fault.line)))
    return found


class _Shared:
    """What the cases of a file have in common."""

    def __init__(
        self,
        *,
        reading: Reading,
        services: dict[str, JsonObject],
        rules: tuple[JsonObject, ...],
        limits: JsonObject,
        group: str,
    ) -> None:
        self._reading = reading
        self._services = services
        self._rules = rules
        self._limits = limits
        self._group = group

    def case(self, path: Place, value: JsonValue) -> Case:
        row = self._reading.table(path, value, CASE, ("id", "request", "expect"))
        service, operation = self._named(row)
        ask = _ask(row.table("request", REQUEST) or _nothing(row), row.table("deadline", DEADLINE))
        limits = row.table("limits")
        return Case(
            id=row.text("id"),
            title=row.text("title"),
            group=row.text("group", self._group),
            place=f"{self._reading.source}:{self._reading.line(path)}",
            ask=ask,
            service=service,
            operation=operation,
            expect=expectation(row.table("expect", EXPECT, ("category", "retry")) or _nothing(row)),
            answers=_answers(row),
            fault=_fault(row),
            gate=_gate(row),
            agent=_agent(row),
            decision=row.word("expected_agent_decision", (*DECISIONS, REVIEW)) or None,
            repeat=min(row.whole("repeat", 1, least=1), MOST_ROUNDS),
            services=self._services,
            rules=_rules(row) or self._rules,
            limits=self._limits if limits is None else dict(limits.values),
        )

    def _named(self, row: Table) -> tuple[str | None, str | None]:
        """The service and the operation, which may be spelled with its service or without."""
        request = row.table("request", REQUEST)
        told = request.values if request is not None else {}
        service = row.text("service") or str(told.get("service") or "")
        operation = row.text("operation") or str(told.get("operation") or "")
        if service and service not in self._services:
            row.reading.fault(row.at("service"), f"there is no service {service!r}", self._known())
        if not operation:
            return service or None, None  # a service that lets everything through
        owners = [name for name in self._services if operation in _operations(self._services[name])]
        if service:
            owners = [name for name in owners if name == service]
        spelled = [
            name for name in self._services if operation.removeprefix(f"{name}.") in _operations(self._services[name])
        ]
        if len(owners) == 1:
            return owners[0], operation
        if not owners and len(spelled) == 1:
            return spelled[0], operation.removeprefix(f"{spelled[0]}.")
        problem = "is declared by several services" if owners else "is declared by no service"
        row.reading.fault(row.at("operation"), f"the operation {operation!r} {problem}", "SERVICE.OPERATION")
        return service or None, operation

    def _known(self) -> str:
        return ", ".join(sorted(self._services)) or "a table in `services:`, or a pack in `packs:`"


def _services(file: Table) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    for name in file.texts("packs") or ():
        loaded = packs.services(name)
        if loaded is None:
            file.reading.fault(file.at("packs"), f"there is no pack {name!r}", ", ".join(packs.names()))
        found |= loaded or {}
    table = file.table("services")
    for name in table.values if table is not None else {}:
        one = table.table(name) if table is not None else None
        found[name] = {} if one is None else one.values
    return found


def _operations(service: JsonObject) -> Mapping[str, JsonValue]:
    told = service.get("operations")
    return told if isinstance(told, Mapping) else {}


def _rules(table: Table) -> tuple[JsonObject, ...]:
    return tuple(table.reading.table(path, one).values for path, one in table.rows("rules"))


def _nothing(row: Table) -> Table:
    return Table(row.reading, row.path, {})


def _ask(table: Table, deadline: Table | None = None) -> Ask:
    fields = {key: value for key, value in table.values.items() if key not in _UNTOLD and value is not None}
    if deadline is not None:
        fields["deadline"] = {key: deadline.seconds(key) for key in deadline.values}
    verb = table.word("verb", VERBS) or ("ssh" if table.has("host") else "http")
    return Ask(verb=verb, effect=table.word("effect", ("read", "write", "exec")) or None, fields=fields)


def _answers(row: Table) -> tuple[Answer, ...]:
    """One answer, or several that are given in order."""
    value = row.values.get("fixture_response")
    if value is None:
        return (Answer(),)
    if isinstance(value, list):
        return tuple(_answer(row.reading.table(path, one, ANSWER)) for path, one in row.rows("fixture_response"))
    return (_answer(row.reading.table(row.at("fixture_response"), value, ANSWER)),)


def _answer(table: Table) -> Answer:
    told = table.table("headers")
    headers = [
        (name.lower(), str(one))
        for name, value in ({} if told is None else told.values).items()
        for one in (value if isinstance(value, list) else [value])
    ]
    body = _body(table)
    if isinstance(table.values.get("body"), dict | list) and all(name != "content-type" for name, _ in headers):
        headers.append(("content-type", "application/json"))
    return Answer(
        status=table.whole("status", 200, least=0),
        headers=tuple(headers),
        body=body,
        commits=table.flag("commits") if table.has("commits") else None,
        honours_key=table.flag("honours_key", default=True),
        when=table.text("when") or None,
        exit_status=table.whole("exit_status"),
        exit_signal=table.text("exit_signal") or None,
        stdout=table.text("stdout"),
        stderr=table.text("stderr"),
        seconds=table.seconds("seconds"),
    )


def _body(table: Table) -> bytes:
    if table.has("body_b64"):
        if table.has("body"):
            table.reading.fault(table.at("body_b64"), "there is a body and a body_b64", "one of them")
        try:
            return base64.b64decode(table.text("body_b64"), validate=True)
        except binascii.Error:
            table.reading.fault(table.at("body_b64"), "body_b64 is no base64", "standard base64")
            return b""
    match table.values.get("body"):
        case None:
            return b""
        case str(text):
            return text.encode()
        case value:
            return json.dumps(value, ensure_ascii=False).encode()


def _fault(row: Table) -> Fault | None:
    table = row.table("fault", FAULT, ("point",))
    if table is None:
        return None
    known = [point for channel in points.CHANNELS.values() for point in channel]
    point = table.word("point", known)
    kinds = points.kinds_of(point)
    return Fault(
        point=point,
        kind=table.word("kind", kinds, kinds[0]) if kinds else "",
        seconds=table.seconds("seconds"),
        on=table.whole("on", 1, least=1),
        step=table.word("step", points.steps_of(point)) or None,
        side=table.word("side", ("before", "after"), "before"),
    )


def _gate(row: Table) -> Gate:
    policy = row.word("policy", POLICIES, "none")
    is_list = isinstance(row.values.get("approver"), list)
    told = row.texts("approver") if is_list else (row.word("approver", APPROVERS),)
    for place, word in enumerate(told or ()):
        if is_list and word not in APPROVERS:
            row.reading.fault((*row.at("approver"), place), f"{word!r} is no approver", ", ".join(APPROVERS))
    given = tuple(word for word in told or () if word)
    approver = given or ("approve" if policy in {"session", "per_call"} else "absent",)
    vault = row.word("vault", ("locked", "unlocked"), "unlocked")
    return Gate(vault=vault, approver=approver, policy=policy, second_process=row.flag("second_process"))


def _agent(row: Table) -> Agent:
    table = row.table("agent", AGENT)
    if table is None:
        return Agent()
    uses = table.table("uses")
    roles = {} if uses is None else {role: uses.table(role, REQUEST) for role in uses.values}
    permitted = _chains(table, "permitted")
    asks = {role: _use(told) for role, told in roles.items() if told is not None}
    if any("attach_note" in chain for chain in permitted):
        asks.setdefault("annotate", NOTE)
    return Agent(
        script=table.word("script", SCRIPTS, "act"),
        permitted=permitted,
        forbidden=_chains(table, "forbidden"),
        uses=asks,
    )


def _use(table: Table) -> Ask:
    """A further request of the agent's: it names its operation itself."""
    ask = _ask(table)
    named = {key: table.text(key) for key in ("service", "operation") if table.has(key)}
    return Ask(verb=ask.verb, effect=ask.effect, fields={**ask.fields, **named})


def _chains(table: Table, key: str) -> tuple[tuple[str, ...], ...]:
    chains = []
    for place, text in enumerate(table.texts(key) or ()):
        words = tuple(word.strip() for word in text.split(ARROW))
        if not all(words) or any(" " in word for word in words):
            table.reading.fault((*table.at(key), place), f"{text!r} is no transition", "deed -> outcome -> deed ...")
        chains.append(words)
    return tuple(chains)
