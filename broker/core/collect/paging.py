"""From one page to the next: where the token stands, what ends a walk, and how the next page is asked for.

An end counts only where it shows as declared. A token that is missing, empty or repeated where that is no declared end
stops the walk, and says that nothing is proven. What a page says is judged by shape alone: where a URL may lead is
looked at when the request is frozen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from broker.contract.reasons import IncompleteCode
from broker.contract.wire import JsonObject, JsonValue, digest, dump
from broker.core.collect.page import Page, fits
from broker.core.continuation import BARE, Shield
from broker.core.paging import asked_size, ends, is_empty, linked
from broker.core.policy.declarations import Pagination, PagingEnd, PagingKind
from broker.core.policy.model import Operation
from broker.core.policy.places import at, steps_of

MAX_TOKEN_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How the next page is asked for: with one argument set, or by a URL that the page named. `mark` tells it again."""

    args: JsonObject | None = None
    url: str | None = None
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """There is no next page, as declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Astray:
    """There may be a next page, and no way to it that can be relied on."""

    message: str
    code: IncompleteCode = IncompleteCode.COMPLETENESS_UNVERIFIED


Next: TypeAlias = Step | End | Astray


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a walk stands once a page was counted."""

    args: JsonObject  # of the first page
    rows: int
    pages: int
    total: int | None
    used: frozenset[str]  # marks of what was asked for already
    last: str | None  # the one of this page; None for the first


def next_of(operation: Operation, page: Page, position: Position, *, shield: Shield = BARE) -> Next:
    """What comes after a page, without what may not be said by us."""
    paging = operation.pagination
    if paging is None or paging.kind is PagingKind.NONE:
        return _only_page(operation, page)
    found = _shielded(_after(operation, paging, page, position), shield)
    if isinstance(found, Step) and found.mark in position.used:
        if paging.end is PagingEnd.TOKEN_REPEATS and found.mark == position.last:
            return End()
        return Astray(message="The upstream named a page that was read already; going on would never end.")
    if isinstance(found, End) and not _agrees(operation, page):
        return Astray(message="The pages ended without the sign that the operation declares for everything.")
    return found


def first_args(operation: Operation, args: JsonObject) -> JsonObject:
    """The arguments of a first page: the size that is declared, where the agent names none."""
    paging = operation.pagination
    if paging is None:
        return args
    more = dict(args)
    if paging.size_param is not None and paging.size is not None and paging.size_param not in args:
        more[paging.size_param] = paging.size
    if paging.kind is PagingKind.OFFSET and paging.param in operation.required:
        more[paging.param] = paging.first
    return more


def names_token(operation: Operation, args: JsonObject) -> bool:
    """Whether the arguments begin a walk somewhere in its middle."""
    paging = operation.pagination
    return paging is not None and paging.param is not None and at(dict(args), paging.param) is not None


def _only_page(operation: Operation, page: Page) -> Next:
    """Where nothing leads on, everything is there only if the operation says so, and no link speaks against it."""
    if _linked(page, "next") != ():
        message = "The upstream names a next page, and the operation does not declare how to follow it."
        return Astray(message=message, code=IncompleteCode.MORE_PAGES_AVAILABLE)
    completeness = operation.completeness
    declares_end = operation.pagination is not None or (completeness is not None and completeness.complete_when)
    if declares_end and _agrees(operation, page):
        return End()
    return Astray(message="Nothing declared tells whether this is everything.")


def _agrees(operation: Operation, page: Page) -> bool:
    when = operation.complete_when
    return when is None or fits(when, page.view)


def _after(operation: Operation, paging: Pagination, page: Page, position: Position) -> Next:
    if paging.end is PagingEnd.NO_ROWS and page.rows == ():
        return End()
    match paging.kind:
        case PagingKind.LINK_HEADER:
            found = _by_link(page, paging.token or "next")
            is_cut = paging.end is PagingEnd.NO_ROWS and isinstance(found, End)
            return Astray(message="A page with rows names no next page, as each of them has to.") if is_cut else found
        case PagingKind.OFFSET:
            return _by_offset(operation, paging, page, position)
        case PagingKind.LAST_ITEM_ID:
            return _by_last_id(operation, paging, page, position)
        case _:
            return _by_token(paging, at(page.view, paging.token or ""), position)


def _shielded(found: Next, shield: Shield) -> Next:
    """Before anything is remembered of it: a step holds no value, and no mark is made of one."""
    if not isinstance(found, Step):
        return found
    if found.url is not None:
        url = shield.without_claimed(found.url)
        found = Step(url=url, mark=mark_of(url))
    if shield.is_told_in(found.url if found.url is not None else dump(found.args).decode()):
        return Astray(message="What names the next page holds a part of the credential; it was not followed.")
    return found


def _by_link(page: Page, relation: str) -> Next:
    targets = _linked(page, relation)
    if targets is None:
        return Astray(message="The upstream names a next page in a header that can't be read.")
    if len(targets) > 1:
        return Astray(message="The upstream names more than one next page.")
    return _by_url(targets[0]) if targets else End()


def _linked(page: Page, relation: str) -> tuple[str, ...] | None:
    headers = page.view.get("headers")
    told = headers.get("link") if isinstance(headers, Mapping) else None
    values = told if isinstance(told, list) else [told]
    return linked((("link", value) for value in values if isinstance(value, str)), relation)


def _by_token(paging: Pagination, token: JsonValue, position: Position) -> Next:
    if ends(paging, token):
        return End()
    if token is None or is_empty(token) or isinstance(token, bool):
        return Astray(message="Where the next page should be named stands what is neither a token nor a declared end.")
    if paging.kind is PagingKind.BODY_URL:
        return _by_url(token) if isinstance(token, str) else Astray(message="The next page's URL is no text.")
    if isinstance(token, list) and paging.kind is PagingKind.NEXT_HEADER:
        return Astray(message="The upstream names more than one next page.")
    return _with_argument(paging, token, position)


def _by_offset(operation: Operation, paging: Pagination, page: Page, position: Position) -> Next:
    """Rows end with a page that has none, a declared sign, or a total that is reached. A short page proves nothing."""
    if page.rows is None:
        return Astray(message="The rows can't be counted, so the next page can't be asked for.")
    if _is_last(operation, page) or _is_reached(operation, position):
        return End()
    if paging.counts_size:
        return _by_size(paging, page, position)
    if not page.rows:
        return End()
    so_far = position.pages if paging.counts_pages else position.rows
    return _with_argument(paging, paging.first + so_far, position)


def _by_size(paging: Pagination, page: Page, position: Position) -> Next:
    """Where rows may be left out of a page, no page proves an end by what is not in it: a total alone does."""
    size = asked_size(paging, position.args)
    if size is None:
        return Astray(message="Nobody knows how many rows were asked for, so the next page can't be.")
    so_far = position.pages * size
    if position.total is not None and so_far >= position.total:
        return End()
    if position.total is None and not page.rows:
        return Astray(message="A page without rows is no end here, for rows may be left out of one.")
    return _with_argument(paging, paging.first + so_far, position)


def _by_last_id(operation: Operation, paging: Pagination, page: Page, position: Position) -> Next:
    if _is_last(operation, page) or (page.rows == () and operation.complete_when is None):
        return End()
    last = page.ids[-1] if page.ids else None
    if last is None:
        return Astray(message="The last row has no id, so the next page can't be asked for.")
    return _with_argument(paging, last, position)


def _is_last(operation: Operation, page: Page) -> bool:
    return fits(operation.complete_when, page.view)


def _is_reached(operation: Operation, position: Position) -> bool:
    completeness = operation.completeness
    is_exact = completeness is not None and not completeness.estimated and operation.complete_when is None
    return is_exact and position.total is not None and position.rows >= position.total


def _by_url(url: str) -> Next:
    if not url or len(url) > MAX_TOKEN_CHARACTERS:
        return Astray(message="The next page's URL is empty or too long.")
    return Step(url=url, mark=mark_of(url))


def _with_argument(paging: Pagination, token: JsonValue, position: Position) -> Next:
    if len(dump(token)) > MAX_TOKEN_CHARACTERS or paging.param is None:
        return Astray(message="The next page's token is too large to be sent.")
    return Step(args=_set(position.args, steps_of(paging.param), token), mark=mark_of(token))


def mark_of(token: JsonValue) -> str:
    """The digest of a token: what was asked for is told again, and not kept."""
    return digest("doorward/page/v1", {"token": _spelled(token)})


def _spelled(token: JsonValue) -> JsonValue:
    """Canonical JSON has no fractions; nobody pages by one, and two of them must not be the same."""
    if isinstance(token, float):
        return f"float {token!r}"
    if isinstance(token, Mapping):
        return {name: _spelled(value) for name, value in token.items()}
    return [_spelled(value) for value in token] if isinstance(token, list | tuple) else token


def _set(args: JsonObject, steps: tuple[str, ...], token: JsonValue) -> dict[str, JsonValue]:
    if len(steps) == 1:
        return {**args, steps[0]: token}
    below = args.get(steps[0])
    return {**args, steps[0]: _set(below if isinstance(below, Mapping) else {}, steps[1:], token)}
