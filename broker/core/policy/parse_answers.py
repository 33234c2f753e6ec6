"""How the answers of an operation are read: success, errors, rate limits, logins, with their examples run.

These blocks may stand in [services.X.defaults]; an operation's own block replaces the default as a whole.
"""

from dataclasses import replace
from datetime import date, datetime

from broker.contract.reasons import CODES, Category, Effect, IncompleteCode, RemoteEffect, Retry, WarningCode
from broker.contract.wire import dump
from broker.core.policy.declarations import (
    Auth,
    Follow,
    Gateway,
    Redirect,
    ResponseSchema,
    WarningRule,
)
from broker.core.policy.keys import (
    AUTH,
    DELAY,
    ERROR,
    GATEWAY,
    IDENTITY,
    RATE_LIMIT,
    REDIRECT,
    RESPONSE,
    SUCCESS,
    WARNING,
)
from broker.core.policy.model import AnswerRule, Identity, Operation, RateLimit
from broker.core.policy.parse_lists import delay_of, list_blocks_over
from broker.core.policy.parse_predicates import is_json, never, predicate_of
from broker.core.policy.places import PLACE, PLACE_SHAPE
from broker.core.policy.schemas import fault_of_schema
from broker.core.policy.table import Table

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
MEDIA = r"json|\+json|text|\+xml|xml|[a-z0-9.+-]+/[a-z0-9.+*-]+"
_MEDIA_SHAPE = "json, +json, text, xml or type/subtype"
_MAX_WAIT_S = 86_400
_UNKNOWN_BY_DEFAULT = frozenset({Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE, Category.PARTIAL})
_MAX_MARKER = 100


def blocks_over(table: Table, inherited: Operation) -> Operation:
    """The shared blocks of a table over those that it inherits."""
    read = list_blocks_over(table, inherited)
    if (success := table.table("success", SUCCESS)) is not None:
        when = predicate_of(success, "when", examples_required=False)
        read = replace(read, success_statuses=success.integers("statuses", low=200, high=599), success_when=when)
    if (response := table.table("response", RESPONSE)) is not None:
        read = _with_response(response, read)
    if (identity := table.table("identity", IDENTITY)) is not None:
        read = replace(read, identity=_identity(identity))
    if "errors" in table:
        read = replace(read, errors=tuple(_error_rule(entry) for entry in table.tables("errors", ERROR)))
    if (limit := table.table("rate_limit", RATE_LIMIT)) is not None:
        read = replace(read, rate_limit=_rate_limit(limit))
    if (auth := table.table("auth", AUTH)) is not None:
        read = replace(read, auth=_auth(auth))
    if (redirect := table.table("redirect", REDIRECT)) is not None:
        redirect.choice("cross_host_credential", ("never",), "never")
        follow = redirect.choice("follow", tuple(Follow), Follow.NEVER)
        read = replace(read, redirect=Redirect(follow=Follow(follow)))
    if (gateway := table.table("gateway", GATEWAY)) is not None:
        read = replace(read, gateway=Gateway(reject_proof=gateway.integers("reject_proof", low=500, high=599)))
    if "warnings" in table:
        read = replace(read, warnings=tuple(_warning(entry) for entry in table.tables("warnings", WARNING)))
    return read


def check_blocks(table: Table, read: Operation) -> None:
    """What an operation's rules may not say together, whether they are its own or inherited."""
    key = "errors" if "errors" in table else None
    if read.rate_limit is None and any(rule.use_rate_limit for rule in read.errors):
        table.fault(key, 'a rule says use = "rate_limit", and there is no rate_limit', "a rate_limit block")
    if read.effect is not Effect.READ and not read.idempotency.may_be_safe and any(map(_resends_in_doubt, read.errors)):
        table.fault(
            key,
            "a rule lets a write be sent again while its effect is unknown",
            'another retry there, or remote_effect = "none" where that is proven',
        )


def check_reach(table: Table, read: Operation) -> None:
    """What an operation declares for itself, and what could never take place in it."""
    is_followed = read.effect is Effect.READ and read.method in {"GET", "HEAD"}
    if "redirect" in table and read.redirect.follow is Follow.SAME_HOST_GET_ONLY and not is_followed:
        table.fault_at(
            (*table.path, "redirect", "follow"), "only a read by GET or HEAD is followed", 'follow = "never"'
        )
    declared = read.completeness
    asks_more = declared is not None and declared.over_ask and declared.full_page_means_cut
    if "completeness" in table and asks_more and (read.pagination is None or read.pagination.size_param is None):
        path = (*table.path, "completeness", "over_ask")
        table.fault_at(path, "nothing says in which argument a number of rows is asked for", "pagination.size_param")


def _resends_in_doubt(rule: AnswerRule) -> bool:
    unknown = rule.remote_effect is RemoteEffect.UNKNOWN
    unknown |= rule.remote_effect is None and rule.category in _UNKNOWN_BY_DEFAULT
    return unknown and rule.retry in {Retry.BOUNDED, Retry.AFTER_DELAY}


def _with_response(table: Table, inherited: Operation) -> Operation:
    table.choice("body", ("optional", "required"), "optional")
    marker = table.optional_text("end_marker")
    if marker is not None and not 1 <= len(marker) <= _MAX_MARKER:
        table.fault("end_marker", "empty or too long", f"1 to {_MAX_MARKER} characters")
    return replace(
        inherited,
        media=_media(table),
        response_headers=_header_names(table),
        response_schema=_schema(table),
        body_required=table.values.get("body") == "required",
        end_marker=marker,
        lenient_media=table.flag("lenient_media", default=False),
    )


def _schema(table: Table) -> ResponseSchema | None:
    """A JSON Schema, written as a table of TOML."""
    if "schema" not in table:
        return None
    table.table("schema", frozenset())
    value = dict(table.pairs("schema"))
    if not is_json(value):
        table.fault("schema", "it holds a date or time", "a JSON Schema")
        return None
    text = dump(value).decode()  # type: ignore[arg-type]  # looked through just above
    problem = fault_of_schema(text)
    if problem is not None:
        table.fault("schema", problem, "a JSON Schema (2020-12) that needs no other document")
    return ResponseSchema(text=text)


def _identity(table: Table) -> Identity:
    table.choice("fallback", ("none",), "none")
    return Identity(
        path=table.text("path", pattern=PLACE, expected=PLACE_SHAPE),
        type=table.choice("type", ("string", "integer"), "string"),
        must_equal=table.optional_text("must_equal"),
    )


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
        reasons=table.members("reasons", IncompleteCode),
    )


def _refuse_useless(table: Table, *, uses_limit: bool) -> None:
    """Keys that would have no effect beside what else the rule says."""
    for key in ("retry", "remote_effect", "reasons"):
        if uses_limit and key in table:
            table.fault(key, 'means nothing beside use = "rate_limit"')
    waits = uses_limit or table.values.get("category") == "rate_limited" or table.values.get("retry") == "after_delay"
    if "floor_s" in table and not waits:
        table.fault(
            "floor_s", "means nothing where nothing is waited for", 'use = "rate_limit" or retry = "after_delay"'
        )


def _rate_limit(table: Table) -> RateLimit:
    pace = table.table("pace_from", DELAY)
    return RateLimit(
        when=predicate_of(table, "when"),
        delays=tuple(delay_of(delay) for delay in table.tables("delay", DELAY)),
        default_s=table.integer("default_s", 60, low=1, high=_MAX_WAIT_S),
        floor_s=table.integer("floor_s", 1, low=0, high=_MAX_WAIT_S),
        max_wait_s=table.integer("max_wait_s", 900, low=1, high=_MAX_WAIT_S),
        pace_from=None if pace is None else delay_of(pace),
    )


def _auth(table: Table) -> Auth:
    codes = table.texts("clock_codes")
    place = table.optional_text("clock_code", pattern=PLACE, expected=PLACE_SHAPE)
    if (place is None) == bool(codes):
        table.fault("clock_codes", "codes and the place where they stand go together", "clock_codes and clock_code")
    return Auth(
        masked_statuses=table.integers("masked_statuses", low=400, high=499),
        challenge=table.optional_text("challenge", pattern=PLACE, expected=PLACE_SHAPE),
        login_redirect=table.texts("login_redirect", pattern=r"/[!-~]{0,255}", expected="a path, * for any run"),
        clock_codes=codes,
        clock_code=place,
        human_remedy=table.texts("human_remedy", pattern=PLACE, expected=PLACE_SHAPE),
    )


def _warning(table: Table) -> WarningRule:
    review_by = table.values.get("review_by")
    if review_by is not None and (not isinstance(review_by, date) or isinstance(review_by, datetime)):
        table.fault("review_by", "no date", "a date without quotes: 2027-01-31")
        review_by = None
    return WarningRule(
        when=predicate_of(table, "when", required=True) or never(),
        code=table.member("code", WarningCode),
        owner=table.optional_text("owner"),
        review_by=review_by,
        place=table.place,
    )


def _media(table: Table) -> tuple[str, ...]:
    """`media` is a list, or one string."""
    if isinstance(table.values.get("media"), str):
        return (table.text("media", pattern=MEDIA, expected=_MEDIA_SHAPE),)
    return table.texts("media", pattern=MEDIA, expected=_MEDIA_SHAPE)


def _header_names(table: Table) -> tuple[str, ...]:
    names = table.texts("headers", pattern="[a-z0-9!#$%&'*+.^_`|~-]{1,128}", expected="lower-case header names")
    if {"set-cookie", "www-authenticate", "proxy-authenticate", "authorization"} & set(names):
        table.fault("headers", "names a header that is never passed on", "headers that carry no credential")
    return names
