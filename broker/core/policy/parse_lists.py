"""What an operation declares of lists, batches, slow work and repeats: from tables to values.

These blocks may stand in [services.X.defaults]; an operation's own block replaces the default as a whole.
"""

from dataclasses import replace

from broker.contract.reasons import IncompleteCode, Retry
from broker.contract.wire import JsonValue
from broker.core.policy.declarations import (
    Async,
    Batch,
    CallLimits,
    CompletenessDecl,
    Consistency,
    Delay,
    Idempotency,
    IdempotencyKind,
    IncompleteRule,
    Pagination,
    PagingEnd,
    PagingKind,
    Scope,
    Stability,
    Visibility,
)
from broker.core.policy.keys import (
    ASYNC,
    BATCH,
    COMPLETENESS,
    DEADLINES,
    DELAY,
    IDEMPOTENCY,
    INCOMPLETE,
    OPERATION_LIMITS,
    PAGINATION,
    PAGING_END,
    SCOPE,
)
from broker.core.policy.model import Operation
from broker.core.policy.parse_predicates import is_json, never, predicate_of, proven, proven_of_item
from broker.core.policy.places import PLACE, PLACE_SHAPE, ROWS, ROWS_SHAPE, WITHIN, WITHIN_SHAPE
from broker.core.policy.table import Table

DELAY_KINDS = ("http_retry_after", "delta_s", "epoch_s", "epoch_ms", "sf_param")
_ITEM_PLACE = rf"item\.{WITHIN}"
_ARGUMENT = r"[A-Za-z_$][A-Za-z0-9_\[\]$.-]{0,63}"
_HEADER = r"[a-z0-9!#$%&'*+.^_`|~-]{1,128}"
_RELATION = r"link:[a-z][a-z0-9-]{0,31}"
_MAX_WAIT_S = 86_400
_COUNT_MAX = 1_000_000
_RETRIES = (Retry.NEVER, Retry.BOUNDED, Retry.AFTER_HUMAN)
_NEEDS_TOKEN = {
    PagingKind.NEXT_HEADER: (r"headers\.[a-z0-9-]+", "the header that holds the token, such as headers.x-next-page"),
    PagingKind.BODY_TOKEN: (PLACE, PLACE_SHAPE),
    PagingKind.BODY_URL: (PLACE, PLACE_SHAPE),
}
_NEEDS_PARAM = (PagingKind.NEXT_HEADER, PagingKind.BODY_TOKEN, PagingKind.OFFSET, PagingKind.LAST_ITEM_ID)


def list_blocks_over(table: Table, inherited: Operation) -> Operation:
    """The blocks of this module in a table, over those that it inherits."""
    read = inherited
    if (completeness := table.table("completeness", COMPLETENESS)) is not None:
        read = replace(read, completeness=_completeness(completeness))
    if (pagination := table.table("pagination", PAGINATION)) is not None:
        read = replace(read, pagination=_pagination(pagination))
    if (scope := table.table("scope", SCOPE)) is not None:
        read = replace(read, scope=_scope(scope))
    if (limits := table.table("limits", OPERATION_LIMITS)) is not None:
        read = replace(read, limits=_limits(limits))
    if (batch := table.table("batch", BATCH)) is not None:
        read = replace(read, batch=_batch(batch))
    if (slow := table.table("async", ASYNC)) is not None:
        read = replace(read, asynchronous=_async(slow))
    if (idempotency := table.table("idempotency", IDEMPOTENCY)) is not None:
        read = replace(read, idempotency=_idempotency(idempotency))
    return read


def delay_of(table: Table, place: str = PLACE, shape: str = PLACE_SHAPE) -> Delay:
    """One place where a wait is told."""
    kind = table.choice("kind", DELAY_KINDS)
    if "parameter" in table and kind != "sf_param":
        table.fault("parameter", "means nothing here", 'kind = "sf_param"')
    return Delay(
        path=table.text("from", pattern=place, expected=shape),
        kind=kind,
        parameter=table.text("parameter", "t", pattern=r"[a-z*][a-z0-9_.*-]{0,31}", expected="a parameter's name"),
    )


def _completeness(table: Table) -> CompletenessDecl:
    if table.values.get("over_ask") and not (table.values.get("full_page_means_cut") and "cap" in table):
        problem = "one row more proves an end only where a full page is taken for a cut, and up to what is served"
        table.fault("over_ask", problem, "full_page_means_cut = true, and cap")
    return CompletenessDecl(
        complete_when=predicate_of(table, "complete_when"),
        incomplete_when=tuple(_incomplete(entry) for entry in table.tables("incomplete_when", INCOMPLETE)),
        total=table.optional_text("total", pattern=PLACE, expected=PLACE_SHAPE),
        estimated=table.flag("estimated", default=False),
        cap=table.optional_integer("cap", low=1, high=_COUNT_MAX),
        full_page_means_cut=table.flag("full_page_means_cut", default=False),
        over_ask=table.integer("over_ask", 0, low=0, high=1),
        visibility=table.member("visibility", Visibility) if "visibility" in table else Visibility.FULL,
        consistency=table.member("consistency", Consistency) if "consistency" in table else Consistency.STRONG,
        max_age_s=table.optional_integer("max_age_s", low=0, high=_MAX_WAIT_S),
        never_provable=table.flag("never_provable", default=False),
        items=table.optional_text("items", pattern=ROWS, expected=ROWS_SHAPE),
        id=table.optional_text("id", pattern=WITHIN, expected=WITHIN_SHAPE),
    )


def _incomplete(table: Table) -> IncompleteRule:
    return IncompleteRule(
        when=predicate_of(table, "when", required=True) or never(),
        code=table.member("code", IncompleteCode),
        retry=table.optional_member("retry", Retry, _RETRIES),
    )


def _pagination(table: Table) -> Pagination:
    kind = table.member("kind", PagingKind)
    counts = table.choice("counts", ("rows", "pages", "size"), "rows")
    if counts == "size" and not {"size", "size_param"} & set(table.values):
        table.fault("counts", "nothing says how many rows a page is asked for", "size or size_param")
    end, end_values = _end(table)
    return Pagination(
        kind=kind,
        token=_token(table, kind),
        param=_param(table, kind),
        end=end,
        end_values=end_values,
        end_error_when=proven(table, "end_error_when"),
        expired_when=proven(table, "expired_when"),
        restarts=table.choice("restart", ("never", "from_start"), "never") == "from_start",
        stability=table.member("stability", Stability) if "stability" in table else Stability.NONE,
        size_param=table.optional_text("size_param", pattern=_ARGUMENT, expected="an argument"),
        size=table.optional_integer("size", low=1, high=_COUNT_MAX),
        counts_pages=counts == "pages",
        counts_size=counts == "size",
        first=table.integer("first", 0, low=0, high=1),
    )


def _token(table: Table, kind: PagingKind) -> str | None:
    if kind is PagingKind.LINK_HEADER:
        told = table.text("token", "link:next", pattern=_RELATION, expected="link:next, or another relation")
        return told.removeprefix("link:")
    if kind in _NEEDS_TOKEN:
        pattern, shape = _NEEDS_TOKEN[kind]
        return table.text("token", pattern=pattern, expected=shape)
    if "token" in table:
        table.fault("token", f'means nothing where kind = "{kind.value}"')
    return None


def _param(table: Table, kind: PagingKind) -> str | None:
    if kind in _NEEDS_PARAM:
        return table.text("param", pattern=_ARGUMENT, expected="the argument that takes the token")
    if "param" in table:
        table.fault("param", f'means nothing where kind = "{kind.value}"')
    return None


def _end(table: Table) -> tuple[PagingEnd, tuple[JsonValue, ...]]:
    """`end` is a word, or a table with the values that end a walk."""
    words = tuple(member.value for member in PagingEnd if member is not PagingEnd.VALUES)
    if isinstance(table.values.get("end"), str) or "end" not in table:
        return PagingEnd(table.choice("end", words, PagingEnd.ABSENT.value)), ()
    below = table.table("end", PAGING_END)
    if below is None:
        return PagingEnd.ABSENT, ()
    absent: tuple[JsonValue, ...] = (None,) if below.flag("absent", default=False) else ()
    values = below.values.get("values")
    if not isinstance(values, list) or not values or not is_json(values):
        below.fault("values", "missing, or no list of values", 'such as ["", {}]')
        return PagingEnd.ABSENT, ()
    return PagingEnd.VALUES, (*values, *absent)


def _scope(table: Table) -> Scope:
    return Scope(
        resource=table.text("resource", ""),
        default_region=table.optional_text("default_region"),
        snapshot=table.optional_text("snapshot", pattern=PLACE, expected=PLACE_SHAPE),
        defaults=table.texts("defaults"),
    )


def _limits(table: Table) -> CallLimits:
    deadlines = table.table("deadlines", DEADLINES)
    return CallLimits(
        max_pages=table.optional_integer("max_pages", low=1, high=_COUNT_MAX),
        max_items=table.optional_integer("max_items", low=1, high=_COUNT_MAX),
        max_bytes=table.optional_integer("max_bytes", low=1, high=1 << 30),
        connect_s=_seconds(deadlines, "connect_s"),
        write_s=_seconds(deadlines, "write_s"),
        first_byte_s=_seconds(deadlines, "first_byte_s"),
        total_s=_seconds(deadlines, "total_s"),
    )


def _seconds(table: Table | None, key: str) -> float | None:
    if table is None or key not in table:
        return None
    return table.milliseconds(key, 1000, low_ms=50, high_ms=3_600_000) / 1000


def _batch(table: Table) -> Batch:
    items = table.optional_text("items", pattern=ROWS, expected=ROWS_SHAPE)
    failed = table.optional_text("failed_items", pattern=ROWS, expected=ROWS_SHAPE)
    resubmit = table.optional_text("resubmit_path", pattern=PLACE, expected=PLACE_SHAPE)
    if items is None and failed is None and resubmit is None:
        table.fault(None, "it says nowhere how the items fared", "items, failed_items or resubmit_path")
    return Batch(
        items=items,
        item_ok=proven_of_item(table, "item_ok"),
        item_retry=proven_of_item(table, "item_retry"),
        item_delay=tuple(
            delay_of(delay, _ITEM_PLACE, "a place in the item, such as item.headers.Retry-After")
            for delay in table.tables("item_delay", DELAY)
        ),
        failed_items=failed,
        resubmit_path=resubmit,
        request_count=table.optional_text("request_count", pattern=_ARGUMENT, expected="the argument with the items"),
        names_failures_only=table.flag("names_failures_only", default=False),
    )


def _async(table: Table) -> Async:
    return Async(
        poll=table.texts("poll", pattern=PLACE, expected=PLACE_SHAPE),
        done_when=proven(table, "done_when"),
        failed_when=proven(table, "failed_when"),
        delay=tuple(delay_of(delay) for delay in table.tables("delay", DELAY)),
        default_s=table.integer("default_s", 10, low=1, high=_MAX_WAIT_S),
    )


def _idempotency(table: Table) -> Idempotency:
    kind = IdempotencyKind(table.choice("kind", tuple(IdempotencyKind)))
    header = table.optional_text("header", pattern=_HEADER, expected="a lower-case header name")
    param = table.optional_text("param", pattern=_ARGUMENT, expected="an argument")
    _check_key(table, kind)
    if kind is IdempotencyKind.KEY and (header is None) == (param is None):
        table.fault(None, "a key travels in one place", "either header or param")
    return Idempotency(
        kind=kind,
        header=header,
        param=param,
        window_s=table.optional_integer("window_s", low=1, high=365 * _MAX_WAIT_S),
        replays_errors=table.flag("replays_errors", default=False),
        replay_forbidden=table.choice("replay", ("allowed", "forbidden"), "allowed") == "forbidden",
        replay_ok_when=proven(table, "replay_ok_when"),
        replay_marker=proven(table, "replay_marker"),
        in_progress_when=proven(table, "in_progress_when"),
        mismatch_when=proven(table, "mismatch_when"),
        absent_is_success=table.flag("absent_is_success", default=False),
    )


def _check_key(table: Table, kind: IdempotencyKind) -> None:
    """What says something of a key, or of a version, means nothing where there is none."""
    if kind is IdempotencyKind.KEY and "window_s" not in table:
        table.fault("window_s", "missing", "how long the upstream knows a key")
    if kind is not IdempotencyKind.KEY:
        for key in ("window_s", "replays_errors", "replay_ok_when", "replay_marker"):
            if key in table:
                table.fault(key, "it is about a key of the broker's, and there is none", 'kind = "key"')
    if kind in {IdempotencyKind.NONE, IdempotencyKind.NATURAL}:
        for key in ("header", "param"):
            if key in table:
                table.fault(key, f'means nothing where kind = "{kind.value}"')
