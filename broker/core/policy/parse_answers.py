"""How the answers of an operation are read: success, errors, rate limits, completeness, with their examples run.

These blocks may stand in [services.X.defaults]; an operation's own block replaces the default as a whole.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from broker.contract.reasons import CODES, Category, Effect, RemoteEffect, Retry, WarningCode
from broker.core.policy.declarations import CallLimits, CompletenessDecl, Delay
from broker.core.policy.keys import (
    COMPLETENESS,
    DELAY,
    ERROR,
    EXAMPLE,
    EXAMPLES,
    IDEMPOTENCY,
    IDENTITY,
    OPERATION_LIMITS,
    RATE_LIMIT,
    RESPONSE,
    SUCCESS,
)
from broker.core.policy.model import AnswerRule, Identity, RateLimit
from broker.core.policy.table import Table
from broker.core.predicate import AnswerView, Predicate, PredicateError, answer_view, compile_predicate, holds
from broker.core.predicate_traps import ANSWER

JUDGEMENTS = (
    Category.PARTIAL,
    Category.LOCAL_FAILURE,
    Category.AUTHENTICATION_FAILED,
    Category.AUTHORIZATION_DENIED,
    Category.CONFIRMED_FAILURE,
    Category.RATE_LIMITED,
    Category.MALFORMED_RESPONSE,
    Category.OUTCOME_UNKNOWN,
)
DELAY_KINDS = ("http_retry_after", "delta_s", "epoch_s", "epoch_ms")
MEDIA = r"json|\+json|text|\+xml|xml|[a-z0-9.+-]+/[a-z0-9.+*-]+"
PLACE = r"(?:headers|json)(?:\.[A-Za-z0-9_-]+)+"
PLACE_SHAPE = "a dotted place in the answer, such as json.id or headers.retry-after"
_MAX_WAIT_S = 86_400
_UNKNOWN_BY_DEFAULT = frozenset({Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE, Category.PARTIAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The shared blocks of an operation, as far as they are declared."""

    success_statuses: tuple[int, ...] = ()
    success_when: Predicate | None = None
    media: tuple[str, ...] = ()
    response_headers: tuple[str, ...] = ()
    identity: Identity | None = None
    errors: tuple[AnswerRule, ...] = ()
    rate_limit: RateLimit | None = None
    completeness: CompletenessDecl | None = None
    limits: CallLimits = field(default_factory=CallLimits)


def reading_of(table: Table, inherited: Reading) -> Reading:
    """The blocks in a table over those that it inherits."""
    reading = inherited
    if (success := table.table("success", SUCCESS)) is not None:
        when = predicate_of(success, "when", examples_required=False)
        reading = replace(reading, success_statuses=success.integers("statuses", low=200, high=599), success_when=when)
    if (response := table.table("response", RESPONSE)) is not None:
        reading = replace(reading, media=_media(response), response_headers=_header_names(response))
    if (identity := table.table("identity", IDENTITY)) is not None:
        path = identity.text("path", pattern=PLACE, expected=PLACE_SHAPE)
        reading = replace(
            reading, identity=Identity(path=path, type=identity.choice("type", ("string", "integer"), "string"))
        )
    if "errors" in table:
        reading = replace(reading, errors=tuple(_error_rule(entry) for entry in table.tables("errors", ERROR)))
    if (limit := table.table("rate_limit", RATE_LIMIT)) is not None:
        reading = replace(reading, rate_limit=_rate_limit(limit))
    if (completeness := table.table("completeness", COMPLETENESS)) is not None:
        when = predicate_of(completeness, "complete_when", required=True)
        reading = replace(reading, completeness=CompletenessDecl(complete_when=when))
    if (limits := table.table("limits", OPERATION_LIMITS)) is not None:
        most = limits.optional_integer("max_bytes", low=1, high=1 << 30)
        reading = replace(reading, limits=CallLimits(max_bytes=most))
    if (idempotency := table.table("idempotency", IDEMPOTENCY)) is not None and idempotency.text("kind") != "none":
        idempotency.fault("kind", "not supported by this version", '"none"')
    return reading


def check_reading(table: Table, reading: Reading, effect: Effect) -> None:
    """What an operation's rules may not say together, whether they are its own or inherited."""
    key = "errors" if "errors" in table else None
    if reading.rate_limit is None and any(rule.use_rate_limit for rule in reading.errors):
        table.fault(key, 'a rule says use = "rate_limit", and there is no rate_limit', "a rate_limit block")
    if effect is not Effect.READ and any(map(_resends_in_doubt, reading.errors)):
        table.fault(
            key,
            "a rule lets a write be sent again while its effect is unknown",
            'another retry there, or remote_effect = "none" where that is proven',
        )


def _resends_in_doubt(rule: AnswerRule) -> bool:
    unknown = rule.remote_effect is RemoteEffect.UNKNOWN
    unknown |= rule.remote_effect is None and rule.category in _UNKNOWN_BY_DEFAULT
    return unknown and rule.retry in {Retry.BOUNDED, Retry.AFTER_DELAY}


def _error_rule(table: Table) -> AnswerRule:
    uses_limit = table.choice("use", ("rate_limit",), "rate_limit") == "rate_limit" and "use" in table
    category = table.optional_member("category", Category, JUDGEMENTS)
    code = table.optional_text("code")
    if (category is None) != uses_limit:
        table.fault(None, "says what the answer means twice, or not at all", 'either category or use = "rate_limit"')
    _refuse_useless(table, uses_limit=uses_limit)
    if code is not None and (category is None or code not in CODES[category]):
        known = ", ".join(sorted(CODES[category])) if category is not None else "none without a category"
        table.fault("code", "not one of the category's codes", known)
    return AnswerRule(
        when=predicate_of(table, "when", required=True) or never(),
        category=category,
        code=code,
        retry=table.optional_member("retry", Retry),
        remote_effect=table.optional_member("remote_effect", RemoteEffect),
        use_rate_limit=uses_limit,
        floor_s=table.optional_integer("floor_s", low=0, high=_MAX_WAIT_S),
        warn=table.members("warn", WarningCode),
    )


def _refuse_useless(table: Table, *, uses_limit: bool) -> None:
    """Keys that would have no effect beside what else the rule says."""
    for key in ("retry", "remote_effect"):
        if uses_limit and key in table:
            table.fault(key, 'means nothing beside use = "rate_limit"')
    waits = uses_limit or table.values.get("category") == "rate_limited" or table.values.get("retry") == "after_delay"
    if "floor_s" in table and not waits:
        table.fault(
            "floor_s", "means nothing where nothing is waited for", 'use = "rate_limit" or retry = "after_delay"'
        )


def _rate_limit(table: Table) -> RateLimit:
    return RateLimit(
        when=predicate_of(table, "when"),
        delays=tuple(
            Delay(path=delay.text("from", pattern=PLACE, expected=PLACE_SHAPE), kind=delay.choice("kind", DELAY_KINDS))
            for delay in table.tables("delay", DELAY)
        ),
        default_s=table.integer("default_s", 60, low=1, high=_MAX_WAIT_S),
        floor_s=table.integer("floor_s", 1, low=0, high=_MAX_WAIT_S),
        max_wait_s=table.integer("max_wait_s", 900, low=1, high=_MAX_WAIT_S),
    )


def _media(table: Table) -> tuple[str, ...]:
    """`media` is a list, or one string."""
    if isinstance(table.values.get("media"), str):
        return (table.text("media", pattern=MEDIA, expected="json, +json, text, xml or type/subtype"),)
    return table.texts("media", pattern=MEDIA, expected="json, +json, text, xml or type/subtype")


def _header_names(table: Table) -> tuple[str, ...]:
    names = table.texts("headers", pattern="[a-z0-9!#$%&'*+.^_`|~-]{1,128}", expected="lower-case header names")
    if {"set-cookie", "www-authenticate", "proxy-authenticate", "authorization"} & set(names):
        table.fault("headers", "names a header that is never passed on", "headers that carry no credential")
    return names


def predicate_of(
    table: Table,
    key: str,
    *,
    required: bool = False,
    examples_required: bool = True,
    sees: tuple[str, ...] = ANSWER,
    example: "tuple[frozenset[str], Callable[[Table], AnswerView | None]] | None" = None,
) -> Predicate | None:
    """A predicate with its examples run, each a table with these keys that `example` reads as an answer.

    None where it is not declared or at fault.
    """
    if key not in table:
        if required:
            table.fault(key, "missing", f"a predicate over {', '.join(sees)}")
        if "examples" in table:
            table.fault("examples", f"there is no {key} that they are examples of")
        return None
    text = table.values[key]
    if not isinstance(text, str):
        table.text(key)
        return None
    try:
        predicate = compile_predicate(text, sees=sees)
    except PredicateError as cause:
        table.fault(key, str(cause))
        return None
    _run_examples(table, key, predicate, example or (EXAMPLE, _example), required=examples_required)
    return predicate


def _run_examples(
    table: Table,
    key: str,
    predicate: Predicate,
    example: "tuple[frozenset[str], Callable[[Table], AnswerView | None]]",
    *,
    required: bool,
) -> None:
    known, read = example
    examples = table.table("examples", EXAMPLES)
    if examples is None:
        if required and "examples" not in table:
            table.fault(
                "examples", f"missing for {key}", "one answer that it matches and one that it does not, or more"
            )
        return
    for side, wanted in (("match", True), ("no_match", False)):
        entries = examples.tables(side, known)
        if side not in examples:
            examples.fault(side, "missing", "at least one answer")
        for entry in entries:
            answer = read(entry)
            verdict = holds(predicate, answer) if answer is not None else wanted
            if verdict is not wanted:
                said = {True: "matches it", False: "does not match it", None: "can't be evaluated on it"}[verdict]
                entry.fault(None, f"{key} {said}", "an example that holds")


def _example(table: Table) -> AnswerView | None:
    """The view of an example answer; None where it is at fault."""
    before = len(table.faults.found)
    headers: list[tuple[str, str]] = []
    for name, value in table.pairs("headers"):
        values = value if isinstance(value, list) else [value]
        if name != name.lower() or not all(isinstance(item, str) for item in values):
            table.fault("headers", "not headers of an answer", "lower-case names to a string or a list of strings")
        headers += [(name, str(item)) for item in values]
    body = table.values.get("json")
    if not _is_json(body):
        table.fault("json", "it holds a date or time", "JSON values")
    view = answer_view(
        status=table.integer("status", None, low=100, high=599),
        headers=headers,
        json=body,  # type: ignore[arg-type]  # looked through just above
        text=table.optional_text("text", pattern=r"(?s).{0,65536}", expected="at most 65536 characters"),
    )
    return view if len(table.faults.found) == before else None


def _is_json(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float | bool)


def never() -> Predicate:
    """Stands in for a predicate at fault; the policy that holds it is dropped."""
    return compile_predicate("`false`")
