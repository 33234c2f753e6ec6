"""What a rule wants to be known before a change: evidence and a look just before, from tables to values.

Whether the operations that they name are there, and take these arguments, is looked at over the whole policy.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from broker.contract.reasons import Effect, WarningCode
from broker.contract.wire import JsonObject, JsonValue
from broker.core.policy.declarations import Claim, EvidenceNeed, Otherwise, Precheck
from broker.core.policy.keys import EVIDENCE, PRECHECK
from broker.core.policy.model import Rule, Service
from broker.core.policy.places import WITHIN, WITHIN_SHAPE
from broker.core.policy.table import Table
from broker.core.policy.template import TemplateError, template_of
from broker.core.predicate import PredicateError, argument_names, compile_predicate

_NAME = r"[a-z0-9][a-z0-9_.-]{0,127}"
_ANY = r"(?s).{0,4096}"  # looked at by a parser of its own
_ONE_ARGUMENT = r"\{[A-Za-z_][A-Za-z0-9_.]*\}"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.]*)\}")


def evidence_of(table: Table) -> EvidenceNeed | None:
    below = table.table("evidence", EVIDENCE)
    if below is None:
        return None
    told = below.text("id", pattern=WITHIN, expected=WITHIN_SHAPE)
    return EvidenceNeed(
        operation=below.text("from", pattern=_NAME, expected="a list of the rule's services"),
        args=_args(below),
        claim=below.member("claim", Claim),
        covers=below.text("covers", pattern=_ONE_ARGUMENT, expected='an argument of the request: "{release_id}"'),
        id=told.removeprefix("json.").removeprefix("xml."),
        max_age_s=below.integer("max_age_s", 900, low=1, high=86_400),
        refuse_warnings=below.members("refuse_warnings", WarningCode),
        otherwise=below.member("otherwise", Otherwise) if "otherwise" in below else Otherwise.DENY,
    )


def precheck_of(table: Table) -> Precheck | None:
    below = table.table("precheck", PRECHECK)
    if below is None:
        return None
    expect = below.text("expect", pattern=_ANY)
    try:
        compile_predicate(expect, dict.fromkeys(argument_names(expect), ""))
    except PredicateError as cause:
        below.fault("expect", str(cause), "a predicate over the answer, such as json.draft==`true`")
    return Precheck(
        operation=below.text("operation", pattern=_NAME, expected="a read of the rule's services"),
        args=_args(below),
        expect=expect,
    )


def _args(table: Table) -> JsonObject:
    args: dict[str, JsonValue] = {}
    for name, value in table.pairs("args"):
        if not isinstance(value, str | int | bool):
            table.fault("args", f"{name} is neither text, number, true nor false", 'a value, or "{argument}"')
        elif isinstance(value, str) and re.search(r"[{}]", _PLACEHOLDER.sub("", value)):
            table.fault("args", f"{name} holds an odd brace", 'a value, or "{argument}"')
        else:
            args[name] = value
    return MappingProxyType(args)


def check_reads(table: Table, rule: Rule, reached: Iterable[Service]) -> None:
    """The reads that a rule rests on are declared by every service that it reaches, and take these arguments."""
    asked: list[tuple[str, str, str, JsonObject]] = []
    if rule.evidence is not None:
        asked.append(("evidence", "from", rule.evidence.operation, rule.evidence.args))
    if rule.precheck is not None:
        asked.append(("precheck", "operation", rule.precheck.operation, rule.precheck.args))
    services = [service for service in reached if service.ssh is None]
    for block, key, name, args in asked:
        problem = None if services else "the rule reaches no service over HTTP"
        for service in services:
            problem = problem or _problem(service, name, args)
            if block == "evidence" and rule.evidence is not None:
                problem = problem or _uncounted(service, name, rule.evidence.id)
        if problem is not None:
            table.fault_at((*table.path, block, key), problem, "a declared read, with the arguments that it needs")


def _uncounted(service: Service, name: str, place: str) -> str | None:
    """What is leaned on has to be a list whose rows' ids stand where the rule looks for them."""
    declared = service.operations[name].completeness
    if declared is None or declared.items is None or declared.id is None:
        return f"{service.name}.{name} does not declare completeness with items and id"
    return None if declared.id == place else f"the id of {service.name}.{name}'s rows is declared as {declared.id}"


def _problem(service: Service, name: str, args: Mapping[str, JsonValue]) -> str | None:
    read = service.operations.get(name)
    if read is None or read.effect is not Effect.READ:
        return f'the service {service.name} declares no read "{name}"'
    try:
        needed = {*template_of(read.path).arguments, *read.required}
    except TemplateError:
        return None  # told already
    known = {*needed, *read.query, *(read.body or ())}
    if not read.body_free and not set(args) <= known:
        return f"{service.name}.{name} takes {', '.join(sorted(known)) or 'no argument'}"
    missing = sorted(needed - set(args))
    return f"{service.name}.{name} needs {', '.join(missing)}" if missing else None
