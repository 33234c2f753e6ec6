"""Lists of real services, rebuilt in shape: what each page answers to, how the operation is declared, what follows.

A page is found by what the request says beyond the first one: its query, or a member of its body. Ids name the
published behaviour that a case stands for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fakes.upstream import Behaviour, Conversation, raw, respond

JSON = (("content-type", "application/json"),)
XML = (("content-type", "application/xml"),)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """`pages` by target or body; `asked` is what the upstream was to be asked, in order."""

    name: str
    declared: str
    pages: Mapping[str, Behaviour]
    asked: tuple[str, ...]
    gist: tuple[str, str]  # category, retry
    codes: tuple[str, ...] = ()
    rows: tuple[Any, ...] = ()
    truncated: bool = False
    goes_on: bool = False  # whether there is a cursor
    warns: tuple[str, ...] = ()
    method: str = "GET"
    body: tuple[str, ...] = ()
    query: tuple[str, ...] = ("page", "size")
    budget: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/{self.name}"

    @property
    def policy(self) -> str:
        """The operation, as a policy file spells it."""
        takes = f"body = {json.dumps(self.body)}" if self.body else f"query = {json.dumps(self.query)}"
        head = f'[services.lists.operations."{self.name}"]\n'
        request = f'request = {{ method = "{self.method}", path = "{self.path}", {takes} }}\neffect = "read"\n'
        return head + request + self.declared.replace("[op", f'[services.lists.operations."{self.name}"')

    def behaviour(self) -> Behaviour:
        """Answers the page that is asked for; what nobody foresaw is a fault of the test's, and a 500."""

        async def behave(talk: Conversation) -> None:
            await self.pages.get(await self.spoken(talk), respond(500))(talk)

        return behave

    async def spoken(self, talk: Conversation) -> str:
        query = talk.seen.target.partition("?")[2]
        if not self.body:
            return query
        told = json.loads(await talk.body() or b"{}")
        talk.seen = replace(talk.seen, headers={**talk.seen.headers, "content-length": "0"})  # it is read
        return json.dumps(told, sort_keys=True)


def ok(body: object, *headers: tuple[str, str], status: int = 200) -> Behaviour:
    return respond(status, json.dumps(body).encode(), headers=(*JSON, *headers))


def items(*ids: object, **more: object) -> Behaviour:
    return ok({"items": [{"id": one} for one in ids], **more})


def ids(*told: object) -> tuple[Any, ...]:
    return tuple({"id": one} for one in told)


def link(target: str, relation: str = "next") -> tuple[str, str]:
    return ("link", f'<{target}>; rel="{relation}"')


def token(more: str = "", *, completeness: str = "", kind: str = "body_token", at: str = "json.next") -> str:
    return f"""
[op.pagination]
kind = "{kind}"
token = '{at}'
param = "page"
stability = "snapshot"
{more}
[op.completeness]
items = "json.items"
id = "id"
{completeness}
"""


def url(place: str, completeness: str = "") -> str:
    declared = token(completeness=completeness, kind="body_url", at=place)
    return declared.replace('param = "page"', "")


BY_LINK = """
[op.pagination]
kind = "link_header"
stability = "keyset"
[op.completeness]
items = "json"
id = "id"
"""
SEARCH = """
[op.pagination]
kind = "link_header"
stability = "keyset"
{more}
[op.completeness]
items = "json.items"
id = "id"
total = "json.total_count"
cap = 3
"""
OFFSET = """
[op.pagination]
kind = "offset"
param = "page"
{more}
[op.completeness]
items = "json.items"
id = "id"
total = "json.total"
"""
END_ERROR = """
[op.pagination.end_error_when]
when = "status==`422` && contains(json.message || '', 'first')"
examples.match = [{ status = 422, json = { message = "only the first 3" } }]
examples.no_match = [{ status = 422, json = { message = "no" } }]
"""
EXPIRED = """
[op.pagination.expired_when]
when = "status==`410`"
examples = { match = [{ status = 410 }], no_match = [{ status = 404 }] }
"""
DELTA = """complete_when = 'json."@odata.deltaLink" != `null`'
examples.match = [{ status = 200, json = { "@odata.deltaLink" = "https://x.example/d" } }]
examples.no_match = [{ status = 200, json = {} }]
"""
SERIES = """
[[op.completeness.incomplete_when]]
when = "length(json.parts[?state!='Complete'] || `[]`) > `0`"
code = "SOURCE_UNAVAILABLE"
examples.match = [{ status = 200, json = { parts = [{ state = "Partial" }] } }]
examples.no_match = [{ status = 200, json = { parts = [] } }]
"""
HAS_MORE = """complete_when = "json.has_more==`false`"
examples.match = [{ status = 200, json = { has_more = false } }]
examples.no_match = [{ status = 200, json = { has_more = true } }]
"""
SCAN = """
[op.pagination]
kind = "body_token"
token = "json.LastEvaluatedKey"
param = "ExclusiveStartKey"
end = { values = [{}], absent = true }
stability = "keyset"
[op.completeness]
items = "json.Items"
id = "pk.S"
"""
CHANNELS = """
[op.scope]
resource = "channels"
defaults = ["no private channels"]
"""
BY_LAST_ID = """
[op.pagination]
kind = "last_item_id"
param = "page"
stability = "keyset"
[op.completeness]
items = "json.items"
id = "id"
"""
EMPTY_ENDS = 'end = { values = [""], absent = true }'
CUT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"
KEY: dict[str, Any] = {"pk": {"S": "k5000"}}
ROW: dict[str, Any] = {"pk": {"S": "1"}}
MORE = ("MORE_PAGES_AVAILABLE",)
UNVERIFIED = ("COMPLETENESS_UNVERIFIED",)
LIMIT = ("RESULT_LIMIT_REACHED",)
CHANGED = ("SNAPSHOT_CHANGED",)
DONE = ("success", "never")
STUCK = ("partial", "never")
OPEN = ("partial", "bounded")

CASES = (
    Listed(
        name="comp-002",
        declared=SEARCH.format(more=""),
        pages={"": ok({"total_count": 9, "items": [{"id": 1}, {"id": 2}]}, link("?page=2")),
               "page=2": ok({"total_count": 9, "items": [{"id": 3}]}, link("?page=1", "prev"))},
        asked=("", "page=2"), gist=STUCK, codes=LIMIT, rows=ids(1, 2, 3), truncated=True,
    ),
    Listed(
        name="comp-003",
        declared=SEARCH.format(more="") + END_ERROR,
        pages={"": ok({"total_count": 9, "items": [{"id": 1}]}, link("?page=2")),
               "page=2": ok({"message": "Only the first 3 search results are available"}, status=422)},
        asked=("", "page=2"), gist=STUCK, codes=LIMIT, rows=ids(1), truncated=True,
    ),
    Listed(
        name="comp-004",
        declared=BY_LINK,
        pages={"": ok([{"id": 1}, {"id": 2}], link("/lists/comp-004?page=2"), link("?page=7", "last")),
               "page=2": ok([{"id": 3}], link("?page=1", "first"))},
        asked=("", "page=2"), gist=DONE, rows=ids(1, 2, 3),
    ),
    Listed(
        name="comp-007",
        declared=SCAN, method="POST", body=("ExclusiveStartKey", "TableName"),
        pages={"{}": ok({"Items": [], "Count": 0, "LastEvaluatedKey": KEY}),
               json.dumps({"ExclusiveStartKey": KEY}, sort_keys=True): ok({"Items": [ROW]})},
        asked=("{}", json.dumps({"ExclusiveStartKey": KEY}, sort_keys=True)), gist=DONE, rows=(ROW,),
    ),
    Listed(
        name="comp-008",
        declared=SCAN, method="POST", body=("ExclusiveStartKey",),
        pages={"{}": ok({"Items": [ROW], "LastEvaluatedKey": {}})},
        asked=("{}",), gist=DONE, rows=(ROW,),
    ),
    Listed(
        name="comp-009",
        declared=token(),
        pages={"": items(next="CAE"), "page=CAE": items(1)},
        asked=("", "page=CAE"), gist=DONE, rows=ids(1),
    ),
    Listed(
        name="comp-010",
        declared=token('end = { values = [""], absent = true }'),
        pages={"": items("1", next="")},
        asked=("",), gist=DONE, rows=ids("1"),
    ),
    Listed(
        name="comp-011",
        declared=url('json."@odata.nextLink"', DELTA),
        pages={"": ok({"items": [], "@odata.nextLink": "?page=S"}),
               "page=S": ok({"items": [{"id": 1}], "@odata.nextLink": "?page=T"}),
               "page=T": ok({"items": [], "@odata.deltaLink": "https://graph.example/d"})},
        asked=("", "page=S", "page=T"), gist=DONE, rows=ids(1),
    ),
    Listed(
        name="comp-012",
        declared=url('json."@odata.nextLink"'),
        pages={"": ok({"items": [{"id": 1}], "@odata.nextLink": "/lists/comp-012?page=100"}),
               "page=100": ok({"items": [], "@odata.nextLink": "/lists/comp-012?page=100"})},
        asked=("", "page=100"), gist=STUCK, codes=UNVERIFIED, rows=ids(1),
    ),
    Listed(
        name="comp-014",
        declared=token('end = "present_and_empty"') + CHANNELS,
        pages={"": items("C1", next="")},
        asked=("",), gist=DONE, rows=ids("C1"), warns=("DEFAULT_SCOPE_APPLIED",),
    ),
    Listed(
        name="comp-017",
        declared=token(completeness='total = "json.total"'),
        pages={"": items(1, 2, 3, 4, 5, total=45, next="x"), "page=x": items(45, total=45, next=None)},
        asked=("", "page=x"), gist=STUCK, codes=UNVERIFIED, rows=ids(1, 2, 3, 4, 5, 45), truncated=True,
    ),
    Listed(
        name="comp-020",
        declared=token(EMPTY_ENDS, at="xml.List.Next")
        .replace("json.items", "xml.List.Contents").replace('id = "id"', 'id = "Key"'),
        pages={"": respond(200, b"<List><IsTruncated>true</IsTruncated><Next>T</Next></List>", headers=XML),
               "page=T": respond(200, b"<List><Contents><Key>a/1</Key></Contents></List>", headers=XML)},
        asked=("", "page=T"), gist=DONE, rows=({"Key": "a/1"},),
    ),
    Listed(
        name="comp-022",
        declared=token() + SERIES,
        pages={"": items(1, next="T", parts=[{"state": "Partial"}]), "page=T": items(2, parts=[{"state": "Complete"}])},
        asked=("", "page=T"), gist=OPEN, codes=("SOURCE_UNAVAILABLE",), rows=ids(1, 2),
    ),
    Listed(
        name="comp-037",
        declared=token(completeness='visibility = "filtered"'),
        pages={"": items(1, next="c2"), "page=c2": items(2)},
        asked=("", "page=c2"), gist=STUCK, codes=("VISIBILITY_RESTRICTED",), rows=ids(1, 2),
    ),
    Listed(
        name="comp-038",
        declared=BY_LAST_ID + HAS_MORE,
        pages={"": items("ch_1", "ch_2", has_more=True), "page=ch_2": items("ch_3", has_more=False)},
        asked=("", "page=ch_2"), gist=DONE, rows=ids("ch_1", "ch_2", "ch_3"),
    ),
    Listed(
        name="comp-040",
        declared=url("json.nextRecordsUrl"),
        pages={"": ok({"items": [{"id": 1}], "nextRecordsUrl": "/lists/comp-040?page=01g-2000"}),
               "page=01g-2000": items(2)},
        asked=("", "page=01g-2000"), gist=DONE, rows=ids(1, 2),
    ),
    Listed(
        name="comp-043",
        declared=OFFSET.format(more=""),
        pages={"": items(1, 2, total=4), "page=2": items(4, total=3)},
        asked=("", "page=2"), gist=OPEN, codes=CHANGED, rows=ids(1, 2, 4),
    ),
    Listed(
        name="comp-044",
        declared=OFFSET.format(more='counts = "pages"\nfirst = 1'),
        pages={"": items(1, 2, 3, total=6), "page=2": items(total=3)},
        asked=("", "page=2"), gist=OPEN, codes=CHANGED, rows=ids(1, 2, 3),
    ),
    Listed(
        name="comp-045",
        declared=token() + "[op.limits]\nmax_pages = 2\n",
        pages={"": items(1, next="c10"), "page=c10": items(2, next="c11"), "page=c11": items(3)},
        asked=("", "page=c10"), gist=OPEN, codes=(*MORE, *LIMIT), rows=ids(1, 2), truncated=True, goes_on=True,
        budget={"pages": 50},
    ),
    Listed(
        name="comp-047",
        declared=token(),
        pages={"": items(next=None)},
        asked=("",), gist=DONE,
    ),
    Listed(
        name="comp-049",
        declared=token(completeness="max_age_s = 60"),
        pages={"": ok({"items": [{"id": 1}], "next": None}, ("age", "86400"))},
        asked=("",), gist=DONE, rows=ids(1), warns=("STALE_INDEX",),
    ),
    Listed(
        name="expired-token",
        declared=token() + EXPIRED,
        pages={"": items(1, next="old"), "page=old": ok({"kind": "Status", "reason": "Expired"}, status=410)},
        asked=("", "page=old"), gist=STUCK, codes=("CURSOR_EXPIRED",), rows=ids(1),
    ),
    Listed(
        name="next-header",
        declared=token(EMPTY_ENDS, kind="next_header", at="headers.x-next-page").replace("json.items", "json"),
        pages={"": ok([{"id": 1}], ("x-next-page", "2")), "page=2": ok([{"id": 2}], ("x-next-page", ""))},
        asked=("", "page=2"), gist=DONE, rows=ids(1, 2),
    ),
    Listed(
        name="token-repeats",
        declared=token('end = "token_repeats"'),
        pages={"": items(1, next="a"), "page=a": items(2, next="b"), "page=b": items(next="b")},
        asked=("", "page=a", "page=b"), gist=DONE, rows=ids(1, 2),
    ),
    Listed(
        name="offset-rows",
        declared=OFFSET.format(more='size_param = "size"\nsize = 2\nstability = "snapshot"'),
        pages={"size=2": items(1, 2, total=3), "page=2&size=2": items(3, total=3)},
        asked=("size=2", "page=2&size=2"), gist=DONE, rows=ids(1, 2, 3),
    ),
    Listed(
        name="rate-limited",
        declared=token(),
        pages={"": items(1, next="a"), "page=a": ok({}, ("retry-after", "9"), status=429)},
        asked=("", "page=a"), gist=("partial", "after_delay"), codes=("SOURCE_UNAVAILABLE",), rows=ids(1), goes_on=True,
    ),
    Listed(
        name="cut-page",
        declared=token(),
        pages={"": items(1, next="a"), "page=a": raw(CUT)},
        asked=("", "page=a"), gist=OPEN, codes=("SOURCE_UNAVAILABLE",), rows=ids(1), goes_on=True,
    ),
    Listed(
        name="reset-page",
        declared=token(),
        pages={"": items(1, next="a"), "page=a": raw(then="reset")},
        asked=("", "page=a"), gist=OPEN, codes=("SOURCE_UNAVAILABLE",), rows=ids(1), goes_on=True,
    ),
    Listed(
        name="single",
        declared='[op.pagination]\nkind = "none"\n[op.completeness]\nitems = "json.items"\nid = "id"\n',
        pages={"": items(1, 2)},
        asked=("",), gist=DONE, rows=ids(1, 2),
    ),
)  # fmt: skip
