"""What is declared of lists, batches, slow work and repeats: read whole, and every slip told."""

import pytest

from broker.contract.reasons import IncompleteCode, Retry
from broker.core.policy.declarations import (
    Async,
    Batch,
    CallLimits,
    CompletenessDecl,
    Consistency,
    Delay,
    IncompleteRule,
    Pagination,
    PagingEnd,
    PagingKind,
    Scope,
    Stability,
    Visibility,
)
from broker.core.policy.model import Operation
from broker.core.predicate import compile_predicate
from tests.fakes.policies import faults_of, policy_of

PROOF = "examples = { match = [{ status = 403 }], no_match = [{ status = 200 }] }"
WHEN = f'when = "status==`403`", {PROOF}'
FITS = compile_predicate("status==`403`")
OF_ITEM = 'when = "item.ok==`true`", examples = { match = [{ ok = true }], no_match = [{ ok = false }] }'
FITS_ITEM = compile_predicate("item.ok==`true`", sees=("item",))
BASE = """
[services.s]
kind = "http"
base_url = "https://s.example"
"""
REQUEST = 'request = { method = "GET", path = "/{id}", query = ["page", "size"], body = ["items", "deep"] }\n'


def whole(text: str, defaults: str = "", request: str = REQUEST) -> str:
    shared = f"[services.s.defaults]\n{defaults}\n" if defaults else ""
    return f'{BASE}{shared}[services.s.operations.o]\neffect = "read"\n{request}{text}\n'


def read(text: str, defaults: str = "", request: str = REQUEST) -> Operation:
    return policy_of(whole(text, defaults, request)).services["s"].operations["o"]


def test_paging_is_read_whole() -> None:
    text = f"""pagination = {{ kind = "body_token", token = "json.next", param = "page",
        end = {{ values = ["", {{}}], absent = true }}, end_error_when = {{ {WHEN} }}, expired_when = {{ {WHEN} }},
        restart = "from_start", stability = "snapshot", size_param = "size", size = 9 }}""".replace("\n", " ")

    assert (
        Pagination(
            kind=PagingKind.BODY_TOKEN,
            token="json.next",
            param="page",
            end=PagingEnd.VALUES,
            end_values=("", {}, None),
            end_error_when=FITS,
            expired_when=FITS,
            restarts=True,
            stability=Stability.SNAPSHOT,
            size_param="size",
            size=9,
        )
        == read(text).pagination
    )


@pytest.mark.parametrize(
    ("text", "paging"),
    [
        ('kind = "none"', Pagination(kind=PagingKind.NONE)),
        ('kind = "link_header"', Pagination(kind=PagingKind.LINK_HEADER, token="next")),
        ('kind = "link_header", token = "link:more"', Pagination(kind=PagingKind.LINK_HEADER, token="more")),
        (
            'kind = "next_header", token = "headers.x-next", param = "page"',
            Pagination(kind=PagingKind.NEXT_HEADER, token="headers.x-next", param="page"),
        ),
        (
            'kind = "body_url", token = \'json."@odata.nextLink"\', end = "present_and_empty"',
            Pagination(kind=PagingKind.BODY_URL, token='json."@odata.nextLink"', end=PagingEnd.PRESENT_AND_EMPTY),
        ),
        (
            'kind = "offset", param = "page", counts = "pages", first = 1',
            Pagination(kind=PagingKind.OFFSET, param="page", counts_pages=True, first=1),
        ),
        (
            'kind = "offset", param = "page", counts = "size", size = 5',
            Pagination(kind=PagingKind.OFFSET, param="page", counts_size=True, size=5),
        ),
        ('kind = "last_item_id", param = "page"', Pagination(kind=PagingKind.LAST_ITEM_ID, param="page")),
        (
            'kind = "body_token", token = "json.t", param = "deep.after", end = { values = [""] }',
            Pagination(
                kind=PagingKind.BODY_TOKEN, token="json.t", param="deep.after", end=PagingEnd.VALUES, end_values=("",)
            ),
        ),
    ],
)
def test_each_kind_of_paging_has_what_it_needs(text: str, paging: Pagination) -> None:
    assert paging == read(f"pagination = {{ {text} }}").pagination


def test_completeness_is_read_whole() -> None:
    text = f"""completeness = {{ complete_when = "status==`403`", {PROOF}, total = "json.n", estimated = true, cap = 5,
        incomplete_when = [{{ {WHEN}, code = "ITEM_FAILURES", retry = "never" }}], full_page_means_cut = true,
        visibility = "filtered", consistency = "eventual", max_age_s = 60, never_provable = true,
        items = "json.rows", id = "meta.id" }}""".replace("\n", " ")

    assert (
        CompletenessDecl(
            complete_when=FITS,
            incomplete_when=(IncompleteRule(when=FITS, code=IncompleteCode.ITEM_FAILURES, retry=Retry.NEVER),),
            total="json.n",
            estimated=True,
            cap=5,
            full_page_means_cut=True,
            visibility=Visibility.FILTERED,
            consistency=Consistency.EVENTUAL,
            max_age_s=60,
            never_provable=True,
            items="json.rows",
            id="meta.id",
        )
        == read(text).completeness
    )


def test_scope_limits_batches_and_slow_work_are_read_whole() -> None:
    found = read(
        f"""
scope = {{ resource = "things", default_region = "eu", snapshot = "json.v", defaults = ["no hidden ones"] }}
limits = {{ max_bytes = 9, deadlines = {{ connect_s = 1, write_s = 2, first_byte_s = 3, total_s = 4.5 }} }}
[services.s.operations.o.async]
poll = ["headers.location"]
done_when = {{ {WHEN} }}
failed_when = {{ {WHEN} }}
delay = [{{ from = "headers.retry-after", kind = "http_retry_after" }}]
default_s = 3
[services.s.operations.o.batch]
items = "json.items.*"
item_ok = {{ {OF_ITEM} }}
item_retry = {{ {OF_ITEM} }}
item_delay = [{{ from = "item.wait", kind = "sf_param", parameter = "w" }}]
failed_items = "json.failed"
resubmit_path = "json.rest"
request_count = "items"
names_failures_only = true
"""
    )

    assert Scope(resource="things", default_region="eu", snapshot="json.v", defaults=("no hidden ones",)) == found.scope
    assert CallLimits(max_bytes=9, connect_s=1, write_s=2, first_byte_s=3, total_s=4.5) == found.limits
    wait = Delay(path="headers.retry-after", kind="http_retry_after")
    slow = Async(poll=("headers.location",), done_when=FITS, failed_when=FITS, delay=(wait,), default_s=3)
    assert slow == found.asynchronous
    assert (
        Batch(
            items="json.items.*",
            item_ok=FITS_ITEM,
            item_retry=FITS_ITEM,
            item_delay=(Delay(path="item.wait", kind="sf_param", parameter="w"),),
            failed_items="json.failed",
            resubmit_path="json.rest",
            request_count="items",
            names_failures_only=True,
        )
        == found.batch
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('pagination = { kind = "pages" }', "pagination.kind: not one of the values"),
        ('pagination = { kind = "body_token", param = "page" }', "pagination.token: missing"),
        ('pagination = { kind = "body_token", token = "next", param = "page" }', "pagination.token: malformed"),
        ('pagination = { kind = "body_token", token = "json.n" }', "pagination.param: missing"),
        ('pagination = { kind = "link_header", token = "next" }', "pagination.token: malformed, expected link:next"),
        ('pagination = { kind = "link_header", param = "page" }', 'param: means nothing where kind = "link_header"'),
        ('pagination = { kind = "offset", token = "json.n", param = "page" }', "token: means nothing where kind"),
        ('pagination = { kind = "offset", param = "nosuch" }', 'param: the operation has no argument "nosuch"'),
        ('pagination = { kind = "none", size_param = "nosuch" }', "size_param: the operation has no argument"),
        ('pagination = { kind = "none", end = "soon" }', "pagination.end: not one of the values"),
        ('pagination = { kind = "none", end = 1 }', "pagination.end: it is an integer, expected a table"),
        ('pagination = { kind = "none", end = { values = [] } }', "pagination.end.values: missing, or no list"),
        ('pagination = { kind = "none", end = { values = [2026-01-01] } }', "end.values: missing, or no list"),
        ('pagination = { kind = "none", expired_when = { when = "status==`410`" } }', "expired_when.examples: missing"),
        ('pagination = { kind = "none", expired_when = {} }', "pagination.expired_when.when: missing"),
        ('completeness = { incomplete_when = [{ code = "ITEM_FAILURES" }] }', "incomplete_when[0].when: missing"),
        (f"completeness = {{ incomplete_when = [{{ {WHEN} }}] }}", "incomplete_when[0].code: missing"),
        (f'completeness = {{ incomplete_when = [{{ {WHEN}, code = "IN_PROGRESS", retry = "after_delay" }}] }}',
         "incomplete_when[0].retry: not one of the values"),
        ('completeness = { items = "items" }', "completeness.items: malformed, expected a dotted place of a list"),
        ('completeness = { id = "*" }', "completeness.id: malformed, expected a dotted place within a row"),
        ('scope = { snapshot = "v" }', "scope.snapshot: malformed"),
        ("batch = {}", "o.batch: it says nowhere how the items fared"),
        ('batch = { items = "json", item_ok = { when = "json.a==`1`", examples = {} } }', "a predicate sees item"),
        ('batch = { items = "json", item_ok = { when = "item==`1`", examples = { match = [{ a = 2026-01-01 }] } } }',
         "item_ok.examples.match[0]: it holds a date or time"),
        ('batch = { items = "json", item_delay = [{ from = "json.w", kind = "delta_s" }] }', "[0].from: malformed"),
        ('batch = { items = "json", request_count = "nosuch" }', "batch.request_count: the operation has no argument"),
        ('async = { poll = ["location"] }', "async.poll[0]: malformed"),
        ("idempotency = {}", "idempotency.kind: missing"),
        ('identity = { path = "json.id", must_equal = "nosuch" }', "must_equal: the operation has no argument"),
    ],
)  # fmt: skip
def test_a_block_at_fault_is_told_where(text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults_of(whole(text)) if fault in found][:1]


def test_a_default_paging_goes_to_the_operations_that_take_its_token() -> None:
    default = 'pagination = { kind = "offset", param = "page" }'
    without = 'request = { method = "GET", path = "/{id}" }\n'

    assert read("", default).pagination is not None
    assert None is read("", default, without).pagination


def test_a_default_that_names_an_argument_which_is_not_there_is_a_fault_of_the_operation() -> None:
    (fault,) = faults_of(whole("", 'identity = { path = "json.id", must_equal = "nosuch" }'))

    assert 'services.s.operations.o: the operation has no argument "nosuch"' in fault


@pytest.mark.parametrize("request_", ['request = { method = "POST", path = "/", body = "object" }\n'])
def test_a_free_body_may_hold_any_argument(request_: str) -> None:
    assert [] == faults_of(whole('identity = { path = "json.id", must_equal = "any" }', "", request_))
