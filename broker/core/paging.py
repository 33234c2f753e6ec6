"""What one answer of a list says of the page after it, and how many rows it holds. Reads one answer, walks nothing.

A next page elsewhere than on the same origin is told of and never handed on. A token that was used already leads
nowhere: whoever follows it reads the same page for ever.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from broker.contract.wire import JsonObject, JsonValue, dump
from broker.core.arguments import more_rows
from broker.core.frozen import FrozenRequest
from broker.core.policy.declarations import CompletenessDecl, Pagination, PagingEnd, PagingKind
from broker.core.policy.model import Operation
from broker.core.policy.places import at, rows_at
from broker.core.predicate import holds
from broker.core.urls import canonical_url

_LINK = re.compile(r"<([^<>\s]*)>([^<]*)")
_RELATION = re.compile(r""";\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+)(?=[\s;,]|$))""", re.IGNORECASE)
_EMPTY: tuple[JsonValue, ...] = ("", {}, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPage:
    """`more` is None where it can't be told. Of `value` and `url` the one is set that leads on, where there is one."""

    more: bool | None
    value: JsonValue = None  # what the argument `param` has to be
    url: str | None = None  # canonical, on the same origin

    @property
    def cursor(self) -> str | None:
        """The same as text, for an answer; None where nothing leads on."""
        if self.url is not None or self.value is None:
            return self.url
        return self.value if isinstance(self.value, str) else dump(self.value).decode()


END = NextPage(more=False)
UNCLEAR = NextPage(more=None)


def next_page(
    paging: Pagination | None,
    completeness: CompletenessDecl | None,
    frozen: FrozenRequest,
    view: JsonObject,
    headers: Iterable[tuple[str, str]],
) -> NextPage:
    """The page after this answer. Without declared paging a Link header is looked at, and its absence tells nothing."""
    if paging is None:
        found = _by_link(frozen, headers, "next")
        return found if found.more else UNCLEAR
    if paging.kind is PagingKind.NONE:
        return END
    if paging.end is PagingEnd.NO_ROWS and rows_of(completeness, view) == ():
        return END
    if paging.kind is PagingKind.LINK_HEADER:
        found = _by_link(frozen, headers, paging.token or "next")
        return UNCLEAR if paging.end is PagingEnd.NO_ROWS and found.more is False else found
    if paging.kind is PagingKind.OFFSET:
        return _by_offset(paging, completeness, frozen, view)
    if paging.kind is PagingKind.LAST_ITEM_ID:
        return _by_last_item(completeness, view)
    return _by_token(paging, frozen, at(view, paging.token or "json"))


def begins_the_list(paging: Pagination | None, frozen: FrozenRequest, headers: Iterable[tuple[str, str]]) -> bool:
    """Whether nothing of the list comes before this answer, as far as the request tells."""
    if paging is None:
        return True
    if paging.kind is PagingKind.LINK_HEADER:
        told = tuple(headers)
        return linked(told, "prev") == linked(told, "previous") == ()
    given = argument_at(frozen.args, paging.param) if paging.param is not None else None
    return (
        given is None or given in _EMPTY or (paging.kind is PagingKind.OFFSET and whole_number(given) == paging.first)
    )


def rows_of(completeness: CompletenessDecl | None, view: JsonObject) -> tuple[JsonValue, ...] | None:
    """The rows of an answer: where they are declared to stand, else the one list that it is or holds."""
    if completeness is not None and completeness.items is not None:
        return rows_at(view, completeness.items)
    value = view.get("json")
    if isinstance(value, Mapping):
        lists = [member for member in value.values() if isinstance(member, list)]
        value = lists[0] if len(lists) == 1 else None
    return tuple(value) if isinstance(value, list) else None


def row_id(completeness: CompletenessDecl | None, row: JsonValue) -> str | None:
    """A row's id as text; None where none is declared, or it is neither text nor an integer."""
    told = None if completeness is None or completeness.id is None else at(row, completeness.id)
    if isinstance(told, bool) or not isinstance(told, str | int) or told == "":
        return None
    return str(told)


def asked_size(paging: Pagination | None, args: JsonObject) -> int | None:
    """How many rows a page was to hold, as far as request or declaration tells."""
    if paging is None:
        return None
    given = argument_at(args, paging.size_param) if paging.size_param is not None else None
    size = whole_number(given)
    return paging.size if size is None else size


def cut_size(operation: Operation, args: JsonObject) -> int | None:
    """From how many rows on a page may be a cut: what was asked for, or the most that is ever served."""
    size = asked_size(operation.pagination, args)
    if size is None:
        return None
    size += more_rows(operation, args)
    cap = None if operation.completeness is None else operation.completeness.cap
    return size if cap is None else min(size, cap)


def argument_at(args: JsonObject, name: str) -> JsonValue:
    """An argument, or what stands at a dotted name within one."""
    return args[name] if name in args else at(args, name)


def on_same_origin(base: str, target: str) -> str | None:
    """The canonical URL of a link, None where it leads elsewhere or can be read in two ways."""
    try:
        url = canonical_url(urljoin(base, target))
        return url.url if url.origin == canonical_url(base).origin else None
    except ValueError:
        return None


def linked(headers: Iterable[tuple[str, str]], relation: str) -> tuple[str, ...] | None:
    """Where links with a relation lead; None where one is spoken of that can't be read, which is no sign of none."""
    values = [value for name, value in headers if name == "link"]
    links = [link for value in values for link in _LINK.findall(value)]
    found = [target for target, parameters in links if _is_related(parameters, relation)]
    spoken = sum(_names(one, relation) for value in values for one in _RELATION.findall(value))
    return tuple(dict.fromkeys(found)) if spoken == len(found) else None


def _is_related(parameters: str, relation: str) -> bool:
    found = _RELATION.search(parameters)
    return found is not None and _names((found[1] or "", found[2] or ""), relation)


def _names(told: tuple[str, str], relation: str) -> bool:
    return relation in (told[0] or told[1]).lower().split()


def _by_link(frozen: FrozenRequest, headers: Iterable[tuple[str, str]], relation: str) -> NextPage:
    targets = linked(headers, relation)
    if targets is None or len(targets) > 1:
        return UNCLEAR if targets is None else NextPage(more=True)
    return _by_url(frozen, targets[0]) if targets else END


def _by_url(frozen: FrozenRequest, target: str) -> NextPage:
    url = on_same_origin(frozen.url, target)
    return UNCLEAR if url == frozen.url else NextPage(more=True, url=url)


def _by_token(paging: Pagination, frozen: FrozenRequest, token: JsonValue) -> NextPage:
    if ends(paging, token):
        return END
    if token is None:
        return UNCLEAR
    if paging.kind is PagingKind.BODY_URL:
        return _by_url(frozen, token) if isinstance(token, str) else UNCLEAR
    used = None if paging.param is None else argument_at(frozen.args, paging.param)
    if token == used:
        return END if paging.end is PagingEnd.TOKEN_REPEATS else UNCLEAR
    return NextPage(more=True, value=token)


def ends(paging: Pagination, token: JsonValue) -> bool:
    """Whether what stands in the place of the next token is a declared end."""
    match paging.end:
        case PagingEnd.ABSENT:
            return token is None
        case PagingEnd.PRESENT_AND_EMPTY:
            return is_empty(token)
        case PagingEnd.VALUES:
            return _same_as_any(token, paging.end_values)
        case PagingEnd.TOKEN_REPEATS | PagingEnd.NO_ROWS:
            return False


def is_empty(token: JsonValue) -> bool:
    return _same_as_any(token, _EMPTY)


def _same_as_any(token: JsonValue, values: tuple[JsonValue, ...]) -> bool:
    """Equal in type too: 0, false and "" are three values."""
    return any(type(token) is type(value) and token == value for value in values)


def _by_offset(
    paging: Pagination, completeness: CompletenessDecl | None, frozen: FrozenRequest, view: JsonObject
) -> NextPage:
    """Rows count from the beginning. Where no total is told, an empty page alone is an end."""
    rows = rows_of(completeness, view)
    given = None if paging.param is None else argument_at(frozen.args, paging.param)
    start = paging.first if given is None else whole_number(given)
    if rows is None or start is None:
        return UNCLEAR
    following = NextPage(more=True, value=_following(paging, frozen, start, len(rows)))
    total = total_of(completeness, view)
    if total is None:
        return following if rows else UNCLEAR if paging.counts_size else END
    size = asked_size(paging, frozen.args) if paging.counts_pages else 1
    before = (start - paging.first) * size if size is not None else 0 if start == paging.first else None
    if before is None:
        return following if rows else UNCLEAR
    if before + len(rows) >= total:
        return END if rows or before <= total else UNCLEAR
    return following if rows else UNCLEAR


def _following(paging: Pagination, frozen: FrozenRequest, start: int, came: int) -> int | None:
    """Where the next page begins; None where nobody knows."""
    if paging.counts_size:
        size = asked_size(paging, frozen.args)
        return None if size is None else start + size
    return start + (1 if paging.counts_pages else came)


def total_told(completeness: CompletenessDecl | None, view: JsonObject) -> int | None:
    """How many rows there are, as the answer tells."""
    if completeness is None or completeness.total is None:
        return None
    return whole_number(at(view, completeness.total))


def total_of(completeness: CompletenessDecl | None, view: JsonObject) -> int | None:
    """The same where it is exact: an estimate proves no end."""
    return None if completeness is None or completeness.estimated else total_told(completeness, view)


def _by_last_item(completeness: CompletenessDecl | None, view: JsonObject) -> NextPage:
    """`complete_when` says whether this page is the last: the id of its last row leads on in any case."""
    rows = rows_of(completeness, view)
    when = None if completeness is None else completeness.complete_when
    if rows is None or (when is None and rows):
        last = None if not rows else row_id(completeness, rows[-1])
        return UNCLEAR if last is None else NextPage(more=True, value=last)
    if when is None or holds(when, view) is True:
        return END
    last = row_id(completeness, rows[-1]) if rows else None
    return UNCLEAR if last is None else NextPage(more=True, value=last)


def whole_number(value: JsonValue) -> int | None:
    """A count; text only where all of it is one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 1 << 53 else None
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15
    return int(value) if is_number and isinstance(value, str) else None
