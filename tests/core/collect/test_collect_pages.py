"""What single pages say, how the next one is asked for, and what speaks against the whole."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, IncompleteCode, RemoteEffect, Retry, WarningCode
from broker.contract.wire import JsonValue
from broker.core.collect.budget import USUAL
from broker.core.collect.ending import Lost, concluded
from broker.core.collect.progress import Progress
from broker.core.collect.request import CollectAsk, is_family, resolve_collect
from broker.core.collect.walk import begun
from broker.core.frozen import FrozenRequest, WalkBound
from broker.core.outcome import RawOutcome, Verdict
from broker.core.policy.declarations import (
    CompletenessDecl,
    Consistency,
    IncompleteRule,
    Pagination,
    PagingEnd,
    PagingKind,
    Scope,
    Stability,
    Visibility,
    WarningRule,
)
from broker.core.policy.model import AnswerRule, Operation
from broker.core.predicate import compile_predicate
from broker.core.resolve import HttpAsk, Invalid, resolve
from tests.fakes import market
from tests.fakes.walked import ROWS, Seen, by_token, collecting, listing, page, policy_with, things, walk_it

NONE = Pagination(kind=PagingKind.NONE)
BAD = compile_predicate("json.bad==`true`")


def one(operation: Operation, answer: RawOutcome, *more: RawOutcome) -> Seen:
    answers = iter((answer, *more))
    return walk_it(operation, lambda _: next(answers))


def tokens(*told: JsonValue) -> list[RawOutcome]:
    return [page(things(number), next=token) for number, token in enumerate(told)]


@pytest.mark.parametrize("token", ["", {}, [], False])
def test_what_is_empty_is_no_token_and_no_end_unless_it_is_declared_to_be_one(token: JsonValue) -> None:
    seen = one(listing(by_token(Stability.SNAPSHOT)), *tokens(token))

    assert ["COMPLETENESS_UNVERIFIED"] == seen.codes
    assert 1 == len(seen.asked)


def test_a_token_that_has_to_be_there_is_missing() -> None:
    present = by_token(Stability.SNAPSHOT, end=PagingEnd.PRESENT_AND_EMPTY)

    assert not one(listing(present), page(things(1))).complete
    assert one(listing(present), page(things(1), next="")).complete


def test_of_values_that_end_a_walk_each_is_of_its_own_type() -> None:
    zero = by_token(Stability.SNAPSHOT, end=PagingEnd.VALUES, end_values=(0,))

    assert one(listing(zero), *tokens(0)).complete
    assert not one(listing(zero), *tokens(None)).complete


def test_a_token_may_be_a_table_and_its_fractions_are_told_apart() -> None:
    paging = by_token(Stability.SNAPSHOT, param="after.key")
    operation = listing(paging, method="POST", query=(), body=("after", "q"))
    seen = one(operation, *tokens({"a": [1.5]}, {"a": [1.25]}, None))

    assert seen.complete
    assert [b"{}", b'{"after":{"key":{"a":[1.5]}}}', b'{"after":{"key":{"a":[1.25]}}}'] == [
        asked.body for asked in seen.asked
    ]


def test_what_stands_beside_a_dotted_token_stays() -> None:
    paging = by_token(Stability.SNAPSHOT, param="after.key")
    operation = listing(paging, method="POST", query=(), body=("after", "q"))
    answers = iter(tokens("t", None))
    seen = walk_it(operation, lambda _: next(answers), args={"after": {"limit": 2}})

    assert b'{"after":{"limit":2,"key":"t"}}' == seen.asked[1].body
    assert seen.complete


def test_a_token_that_is_too_large_or_can_not_be_sent_is_not_sent() -> None:
    for token in ("x" * 20_000, {"a": "table"}):
        seen = one(listing(by_token(Stability.SNAPSHOT)), *tokens(token))

        assert ["COMPLETENESS_UNVERIFIED"] == seen.codes
        assert 1 == len(seen.asked)


def test_a_token_that_was_used_before_stops_the_walk() -> None:
    seen = one(listing(by_token(Stability.SNAPSHOT)), *tokens("a", "b", "a"))

    assert ["COMPLETENESS_UNVERIFIED"] == seen.codes
    assert 3 == len(seen.asked)


def test_a_repeated_token_is_an_end_where_it_is_declared_and_follows_itself() -> None:
    repeats = listing(by_token(Stability.SNAPSHOT, end=PagingEnd.TOKEN_REPEATS))

    assert one(repeats, *tokens("a", "b", "b")).complete
    assert not one(repeats, *tokens("a", "b", "a")).complete
    assert not one(repeats, *tokens("a", None)).complete


def test_a_page_without_rows_is_an_end_where_each_page_names_a_next_one() -> None:
    paging = by_token(Stability.KEYSET, kind=PagingKind.LINK_HEADER, token="next", end=PagingEnd.NO_ROWS)
    pages = [page(things(*ids), ("link", f'</{number}>; rel="next"')) for number, ids in enumerate(((1, 2), (3,), ()))]
    seen = one(listing(paging), *pages)

    assert seen.complete
    assert 3 == len(seen.asked)
    assert ["COMPLETENESS_UNVERIFIED"] == one(listing(paging), pages[0], page(things(3))).codes


def test_a_header_with_two_tokens_leads_nowhere() -> None:
    paging = by_token(Stability.SNAPSHOT, kind=PagingKind.NEXT_HEADER, token="headers.x-next")
    both = page(things(1), ("x-next", "a"), ("x-next", "b"))

    assert ["COMPLETENESS_UNVERIFIED"] == one(listing(paging), both).codes


def test_a_url_that_is_no_text_or_empty_leads_nowhere() -> None:
    by_url = Pagination(kind=PagingKind.BODY_URL, token="json.next")

    for token in (7, "x" * 20_000):
        assert ["COMPLETENESS_UNVERIFIED"] == one(listing(by_url), *tokens(token)).codes


def test_two_links_to_two_next_pages_lead_nowhere_and_two_to_one_lead_there() -> None:
    by_link = listing(Pagination(kind=PagingKind.LINK_HEADER, token="next", stability=Stability.KEYSET))
    apart = page(things(1), ("link", '</a>; rel="next"'), ("link", "</b>; rel=next"))
    alike = page(things(1), ("link", '</a>; rel="next last"'), ("link", "</a>; rel=next"), ("link", "</x>; title=t"))

    assert ["COMPLETENESS_UNVERIFIED"] == one(by_link, apart).codes
    assert one(by_link, alike, page(things(2))).complete
    assert not one(by_link, page(things(1), ("link", '<a b>; rel="next"'))).complete


def test_a_link_that_nobody_declared_speaks_against_the_whole() -> None:
    linked = page(things(1), ("link", '</a>; rel="next"'))

    assert ["MORE_PAGES_AVAILABLE"] == one(listing(None), linked).codes
    assert ["MORE_PAGES_AVAILABLE"] == one(listing(NONE), linked).codes
    assert ["COMPLETENESS_UNVERIFIED"] == one(listing(None), page(things(1))).codes
    assert one(listing(NONE), page(things(1))).complete


def test_without_paging_a_declared_sign_proves_the_whole() -> None:
    done = replace(ROWS, complete_when=compile_predicate("json.done==`true`"))

    assert one(listing(None, done), page(things(1), done=True)).complete
    assert not one(listing(None, done), page(things(1), done=False)).complete


def test_an_end_without_its_declared_sign_proves_nothing() -> None:
    done = replace(ROWS, complete_when=compile_predicate("json.done==`true`"))
    seen = one(listing(by_token(Stability.SNAPSHOT), done), *tokens(None))

    assert ["COMPLETENESS_UNVERIFIED"] == seen.codes


def test_rows_without_ids_lead_no_further() -> None:
    last = listing(Pagination(kind=PagingKind.LAST_ITEM_ID, param="page", stability=Stability.KEYSET))

    assert not one(last, page([{"name": "x"}])).complete
    assert one(last, page(things(1)), page([])).complete
    more = replace(ROWS, complete_when=compile_predicate("json.more==`false`"))
    assert not one(replace(last, completeness=more), page([], more=True)).complete
    assert one(replace(last, completeness=more), page(things(1), more=True), page(things(2), more=False)).complete


def test_offsets_need_rows_that_can_be_counted() -> None:
    offset = listing(Pagination(kind=PagingKind.OFFSET, param="page"))
    broken = market.answered(200, b'{"items": "none"}')

    assert ["COMPLETENESS_UNVERIFIED"] == one(offset, broken).codes


def test_an_offset_that_the_upstream_wants_from_the_beginning_is_sent() -> None:
    offset = Pagination(kind=PagingKind.OFFSET, param="page", counts_pages=True, first=1, size_param="size", size=2)
    seen = one(listing(offset, required=("page",)), page(things(1, 2)), page([]))

    assert ["page=1&size=2", "page=2&size=2"] == [asked.query for asked in seen.asked]


def test_an_offset_may_go_on_by_what_was_asked_for() -> None:
    offset = Pagination(kind=PagingKind.OFFSET, param="page", counts_size=True, size_param="size", size=2)
    seen = one(listing(offset), page(things(1)), page(things(3, 4)), page([]))
    known = one(
        listing(offset, replace(ROWS, total="json.total")), page(things(1), total=4), page(things(3, 4), total=4)
    )
    unknown = one(listing(replace(offset, size=None)), page(things(1)))

    assert ["size=2", "page=2&size=2", "page=4&size=2"] == [asked.query for asked in seen.asked]
    assert ["size=2", "page=2&size=2"] == [asked.query for asked in known.asked]
    assert ["COMPLETENESS_UNVERIFIED"] == seen.codes == known.codes == unknown.codes


def test_a_next_page_after_rows_that_can_not_be_counted_is_not_read() -> None:
    seen = one(listing(by_token(Stability.SNAPSHOT)), market.answered(200, b'{"items": 3, "next": "a"}'))

    assert ["MORE_PAGES_AVAILABLE"] == seen.codes


def test_an_end_after_rows_that_can_not_be_counted_is_not_the_whole() -> None:
    seen = one(listing(by_token(Stability.SNAPSHOT)), market.answered(200, b'{"items": 3}'))

    assert ["COMPLETENESS_UNVERIFIED"] == seen.codes


def incomplete(code: IncompleteCode, retry: Retry | None = None) -> CompletenessDecl:
    return replace(ROWS, incomplete_when=(IncompleteRule(when=BAD, code=code, retry=retry),))


def test_every_sign_of_something_missing_is_told_once_and_the_walk_goes_on() -> None:
    rules = incomplete(IncompleteCode.TIME_BUDGET_EXCEEDED)
    pages = [page(things(1), next="a", bad=True), page(things(2), next=None, bad=True)]
    seen = one(listing(by_token(Stability.SNAPSHOT), rules), *pages)

    assert ["TIME_BUDGET_EXCEEDED"] == seen.codes
    assert [1, 2] == seen.ids
    assert seen.ending is not None
    assert Retry.BOUNDED is seen.ending.verdict.retry


@pytest.mark.parametrize("retry", [Retry.NEVER, Retry.BOUNDED, Retry.AFTER_HUMAN])
def test_how_to_go_on_is_what_the_sign_declares(retry: Retry) -> None:
    seen = one(listing(NONE, incomplete(IncompleteCode.ITEM_FAILURES, retry)), page(things(1), bad=True))

    assert seen.ending is not None
    assert retry is seen.ending.verdict.retry


def test_what_is_shown_in_part_or_never_provable_is_never_the_whole() -> None:
    assert ["VISIBILITY_RESTRICTED"] == one(
        listing(NONE, replace(ROWS, visibility=Visibility.FILTERED)), page(things(1))
    ).codes
    assert ["COMPLETENESS_UNVERIFIED"] == one(listing(NONE, replace(ROWS, never_provable=True)), page(things(1))).codes


def test_an_answer_that_an_error_rule_calls_incomplete_keeps_its_rows_and_its_reason() -> None:
    rule = AnswerRule(when=BAD, category=Category.PARTIAL, retry=Retry.BOUNDED)
    named = replace(rule, reasons=(IncompleteCode.SOURCE_UNAVAILABLE,))
    quiet = AnswerRule(when=BAD, category=Category.SUCCESS)

    for errors, codes in (((rule,), ["COMPLETENESS_UNVERIFIED"]), ((named,), ["SOURCE_UNAVAILABLE"]), ((quiet,), [])):
        seen = one(listing(NONE, errors=errors), page(things(1), bad=True))
        assert codes == seen.codes
        assert [1] == seen.ids


def test_warnings_are_told_once_for_the_walk() -> None:
    operation = listing(
        by_token(Stability.SNAPSHOT),
        replace(ROWS, consistency=Consistency.EVENTUAL, total="json.total", estimated=True),
        scope=Scope(resource="things", defaults=("no drafts",), default_region="eu"),
        warnings=(WarningRule(when=BAD, code=WarningCode.PROVIDER_NOTICE, place=market.PLACE),),
    )
    answers = iter([page(things(1), next="a", total=5, bad=True), page(things(2), total=9, bad=True)])
    policy = policy_with(operation)
    frozen = resolve_collect(policy, collecting(), None)
    assert isinstance(frozen, FrozenRequest)
    seen = walk_it(operation, lambda _: next(answers))

    assert seen.ending is not None
    assert ("no drafts", "region eu") == seen.ending.completeness.defaults
    assert seen.complete


def test_a_page_that_is_a_part_by_its_status_makes_the_whole_a_part() -> None:
    seen = one(listing(by_token(Stability.SNAPSHOT)), page(things(1), status=206, next="a"), page(things(2)))

    assert ["OUTPUT_TRUNCATED"] == seen.codes
    assert [1, 2] == seen.ids


def test_what_can_not_be_told_is_no_good_sign() -> None:
    fine = one(listing(NONE, incomplete(IncompleteCode.ITEM_FAILURES)), page(things(1), bad=False))

    assert fine.complete
    seen = one(listing(NONE, incomplete(IncompleteCode.ITEM_FAILURES)), page(list(range(100_001))))
    assert not seen.complete


def test_xml_that_can_not_be_read_has_no_rows() -> None:
    broken = replace(market.answered(200, b"<List><Thing>"), headers=(("content-type", "application/xml"),))
    seen = one(listing(NONE, CompletenessDecl(items="xml.List.Thing")), broken)

    assert ["COMPLETENESS_UNVERIFIED"] == seen.codes


def test_an_old_answer_is_stale() -> None:
    aged = listing(NONE, replace(ROWS, max_age_s=60))
    for age, _ in (("61", True), ("59", False), ("many", False)):
        assert one(aged, page(things(1), ("age", age))).complete


def test_a_total_is_a_count_and_nothing_else() -> None:
    counted = listing(NONE, replace(ROWS, total="json.total"))
    for total, complete in ((1, True), ("1", True), (2, False), (-1, False), (True, False), ("x", False), (1.0, False)):
        assert complete is one(counted, page(things(1), total=total)).complete, total


def test_a_total_that_changed_is_two_lists() -> None:
    offset = Pagination(kind=PagingKind.OFFSET, param="page", stability=Stability.SNAPSHOT)
    seen = one(
        listing(offset, replace(ROWS, total="json.total")), page(things(1, 2), total=4), page(things(3), total=3)
    )

    assert ["SNAPSHOT_CHANGED"] == seen.codes


@pytest.mark.parametrize(
    ("total", "rows", "complete"), [(9, 3, False), (3, 3, True), (2, 2, True), (None, 3, False), (None, 2, True)]
)
def test_a_window_that_is_full_may_hide_more(total: int | None, rows: int, complete: bool) -> None:  # noqa: FBT001 - of a table
    capped = replace(ROWS, cap=3, total=None if total is None else "json.total")
    seen = one(listing(NONE, capped), page(things(*range(rows)), total=total))

    assert complete is seen.complete
    assert complete or "RESULT_LIMIT_REACHED" in seen.codes


@pytest.mark.parametrize(("size", "rows", "complete"), [(2, 2, False), (2, 1, True), (None, 1, False)])
def test_a_full_page_may_be_a_cut(size: int | None, rows: int, complete: bool) -> None:  # noqa: FBT001 - of a table
    full = listing(replace(NONE, size_param="size", size=size), replace(ROWS, full_page_means_cut=True))

    assert complete is one(full, page(things(*range(rows)))).complete


def test_how_much_is_a_full_page_nobody_knows_without_paging() -> None:
    done = compile_predicate("json.done==`true`")
    full = listing(None, replace(ROWS, full_page_means_cut=True, complete_when=done))

    assert ["RESULT_LIMIT_REACHED"] == one(full, page(things(1), done=True)).codes


def test_a_full_page_is_no_cut_where_pages_follow() -> None:
    full = listing(by_token(Stability.SNAPSHOT, size=1), replace(ROWS, full_page_means_cut=True))

    assert one(full, *tokens("a", None)).complete


def test_rows_that_come_twice_or_have_no_id_are_told() -> None:
    twice = [page(things(1), next="a"), page(things(1), next=None)]
    nameless = page([{"id": 1}, {"name": "x"}, {"id": True}, {"id": ""}], next=None)

    assert ["SNAPSHOT_CHANGED"] == one(listing(by_token(Stability.SNAPSHOT)), *twice).codes
    assert ["COMPLETENESS_UNVERIFIED"] == one(listing(by_token(Stability.SNAPSHOT)), nameless).codes


def test_a_snapshot_that_is_declared_has_to_be_named() -> None:
    scope = Scope(resource="things", snapshot="json.version")
    pinned = listing(by_token(Stability.SNAPSHOT), scope=scope)

    assert ["COMPLETENESS_UNVERIFIED"] == one(pinned, *tokens(None)).codes
    moved = [page(things(1), next="a", version=1), page(things(2), version=2)]
    seen = one(pinned, *moved)
    assert ["SNAPSHOT_CHANGED"] == seen.codes
    assert [1] == seen.ids


def test_a_walk_that_begins_anew_by_links_does_so_from_the_same_page() -> None:
    scope = Scope(resource="things", snapshot="json.version")
    by_link = Pagination(kind=PagingKind.LINK_HEADER, token="next", stability=Stability.SNAPSHOT, restarts=True)
    link = ("link", '</things?page=2>; rel="next"')
    pages = [
        page(things(1), link, version=1),
        page(things(2), version=2),
        page(things(3), link, version=2),
        page(things(4), version=2),
    ]
    seen = one(listing(by_link, scope=scope), *pages)

    assert seen.complete
    assert [3, 4] == seen.ids


def test_a_lost_page_after_a_new_beginning_has_no_place_to_go_on_from() -> None:
    expired = by_token(Stability.SNAPSHOT, expired_when=compile_predicate("status==`410`"), restarts=True)
    seen = one(listing(expired), *tokens("a"), market.answered(410, b"{}"), market.LOST)

    assert seen.ending is None  # its first page failed, and stands for itself


def test_a_refusal_that_needs_a_human_keeps_no_place() -> None:
    verdict = Verdict(
        category=Category.RATE_LIMITED,
        code="too_many",
        retry=Retry.AFTER_HUMAN,
        remote_effect=RemoteEffect.NONE,
        message="x",
    )
    ending = concluded(listing(NONE), Progress(pages=1), Lost(verdict=verdict), args={}, returned=0)

    assert not ending.keeps_place
    assert Retry.AFTER_HUMAN is ending.verdict.retry


def test_what_is_known_of_a_scope_is_told() -> None:
    seen = one(listing(NONE, None), page(things(1)))

    assert seen.ending is not None
    assert (None, None, ()) == (
        seen.ending.completeness.resource,
        seen.ending.completeness.visibility,
        seen.ending.completeness.defaults,
    )


class TestTheFamilyOfADecision:
    def first(self, operation: Operation = listing(by_token())) -> FrozenRequest:  # noqa: B008 - a value
        frozen = resolve_collect(policy_with(operation), collecting(), None)
        assert isinstance(frozen, FrozenRequest)
        return frozen

    def test_another_page_is_of_it_and_another_request_is_not(self) -> None:
        first = self.first()
        policy = policy_with(listing(by_token()))
        other = resolve(policy, HttpAsk(service="market", operation="things.list", args={"page": "2"}))
        asked = resolve(policy, HttpAsk(service="market", operation="things.list", args={"q": "x"}))
        assert isinstance(other, FrozenRequest)
        assert isinstance(asked, FrozenRequest)

        assert is_family(first, replace(other, walk=first.walk))
        assert not is_family(first, other)
        assert not is_family(first, replace(asked, walk=first.walk))
        assert not is_family(first, replace(first, path="/other"))

    def test_without_paging_there_is_but_one(self) -> None:
        first = self.first(listing(None))

        assert is_family(first, first)
        assert not is_family(first, replace(first, query="page=2", url=f"{first.url}?page=2"))

    def test_a_url_may_lead_below_the_base_and_no_further(self) -> None:
        first = self.first(listing(Pagination(kind=PagingKind.LINK_HEADER, token="next")))

        assert is_family(first, replace(first, path="/x"))
        assert not is_family(first, replace(first, body=b"x"))


def test_only_what_is_bounded_is_walked() -> None:
    frozen = resolve(market.POLICY, market.READ)
    assert isinstance(frozen, FrozenRequest)

    with pytest.raises(ValueError, match="a walk is of a declared operation"):
        begun(frozen, None, now_ms=0)
    with pytest.raises(ValueError, match="a walk is of a declared operation"):
        begun(replace(frozen, declared=None, walk=WalkBound(budget=USUAL)), None, now_ms=0)


def test_a_kept_walk_whose_token_the_operation_no_longer_takes_is_refused() -> None:
    operation = listing(by_token())
    seen = walk_it(operation, lambda _: page(things(1), next="a"), pages=1)
    assert seen.kept is not None
    odd = replace(seen.kept, step=replace(seen.kept.step, args={"page": {"a": 1}}))

    refused = resolve_collect(policy_with(operation), collecting(cursor="cur_" + "0" * 32), odd)
    assert isinstance(refused, Invalid)
    assert isinstance(
        resolve_collect(policy_with(operation), CollectAsk(service="market", operation="no"), None), Invalid
    )


def test_a_step_that_would_change_more_than_the_page_is_refused() -> None:
    operation = listing(by_token())
    seen = walk_it(operation, lambda _: page(things(1), next="a"), pages=1)
    assert seen.kept is not None
    odd = replace(seen.kept, step=replace(seen.kept.step, args={"q": "everything"}))

    assert isinstance(resolve_collect(policy_with(operation), collecting(cursor="cur_" + "0" * 32), odd), Invalid)
