"""The service packs read answers of their services for what they are. Shapes as documented; names and ids made up."""

import json
from typing import Any

import pytest

from broker.contract.reasons import Category, IncompleteCode, RemoteEffect, Retry, WarningCode
from broker.core.classify.order import classify
from broker.core.frozen import FrozenRequest
from broker.core.outcome import Classified
from broker.core.policy.model import Policy
from broker.core.resolve import HttpAsk, Invalid, resolve
from broker.policyfiles import PolicyFile
from broker.policyfiles.load import load_policy
from broker.policyfiles.shipped import pack_bytes
from tests.fakes.answers import answer

NOW_MS = 1_795_953_600_000
JSON = ("content-type", "application/json")
AMZ = ("content-type", "application/x-amz-json-1.0")
XML = ("content-type", "application/xml")
_PACKS: dict[str, Policy] = {}
DENIED, PARTIAL, FAILED = Category.AUTHORIZATION_DENIED, Category.PARTIAL, Category.CONFIRMED_FAILURE
NONE, APPLIED, UNKNOWN = RemoteEffect.NONE, RemoteEffect.APPLIED, RemoteEffect.UNKNOWN


def asked(operation: str, **args: Any) -> FrozenRequest | Invalid:
    """A request of an operation that is spelled pack:service.operation; a body of bytes is `body`."""
    pack, _, name = operation.partition(":")
    service, _, name = name.partition(".")
    if pack not in _PACKS:
        _PACKS[pack] = load_policy([PolicyFile(name=f"{pack}.toml", raw=pack_bytes(pack))])
    body = args.pop("body_", None)
    return resolve(_PACKS[pack], HttpAsk(service=service, operation=name, args=args, body=body))


def seen(operation: str, args: dict[str, Any], status: int, body: Any, *headers: tuple[str, str]) -> Classified:
    frozen = asked(operation, **args)
    assert isinstance(frozen, FrozenRequest), frozen
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = () if any(name == "content-type" for name, _ in headers) else (XML if isinstance(body, str) else JSON,)
    came = answer(status, raw, *kind, *headers, sent_bytes=len(frozen.body))
    return classify(frozen, came, now_ms=NOW_MS)


def lacks(found: Classified) -> list[str]:
    return [] if found.completeness is None else [reason.code.value for reason in found.completeness.reasons]


REPO = {"owner": "acme", "repo": "site"}
DDB = {"TableName": "t"}
SQS = {"QueueUrl": "https://sqs.example/q"}
ENTRIES = {**SQS, "Entries": [{"Id": "0"}, {"Id": "1"}]}
EC2_ERROR = "<Response><Errors><Error><Code>{}</Code></Error></Errors></Response>"
HALF_DELETED = "<DeleteResult><Deleted/><Error><Key>b</Key><Code>InternalError</Code></Error></DeleteResult>"
SHARDS = {"total": 5, "successful": 5, "failed": 0}
WHOLE = {"timed_out": False, "_shards": SHARDS}


@pytest.mark.parametrize(
    ("operation", "args", "status", "body", "headers", "category", "retry", "effect"),
    [
        ("github:github.repos.get", REPO, 404, {"message": "Not Found"}, [], FAILED, Retry.NEVER, NONE),
        ("slack:slack.chat.post", {"channel": "C1"}, 200, {"ok": False, "error": "missing_scope"}, [], DENIED,
         Retry.NEVER, NONE),
        ("slack:slack.chat.post", {"channel": "C1"}, 200, {"ok": False, "error": "ratelimited"}, [],
         Category.RATE_LIMITED, Retry.AFTER_DELAY, NONE),
        ("slack:slack.chat.post", {"channel": "C1"}, 200, {"ok": False, "error": "internal_error"}, [],
         Category.OUTCOME_UNKNOWN, Retry.RECONCILE_FIRST, UNKNOWN),
        ("slack:slack.chat.post", {"channel": "C1"}, 200, {"ok": True, "ts": "1.2"}, [], Category.SUCCESS,
         Retry.NEVER, APPLIED),
        ("stripe:stripe.payment_intents.create", {"amount": 5, "currency": "eur"}, 402,
         {"error": {"code": "card_declined"}}, [], FAILED, Retry.NEVER, APPLIED),
        ("stripe:stripe.payment_intents.confirm", {"id": "pi_1"}, 402, {"error": {"code": "authentication_required"}},
         [], FAILED, Retry.AFTER_HUMAN, APPLIED),
        ("stripe:stripe.charges.create", {"amount": 5, "currency": "eur"}, 429, {"error": {"code": "lock_timeout"}},
         [], Category.RATE_LIMITED, Retry.AFTER_DELAY, NONE),
        ("aws:s3.objects.put", {"bucket": "b", "key": "k", "body_": b"x"}, 503,
         "<Error><Code>SlowDown</Code></Error>", [], Category.RATE_LIMITED, Retry.AFTER_DELAY, NONE),
        ("aws:s3.objects.put", {"bucket": "b", "key": "k", "body_": b"x"}, 503,
         "<Error><Code>InternalError</Code></Error>", [], Category.OUTCOME_UNKNOWN, Retry.AFTER_HUMAN, UNKNOWN),
        ("aws:s3.objects.get", {"bucket": "b", "key": "k"}, 403, "<Error><Code>AccessDenied</Code></Error>", [],
         DENIED, Retry.NEVER, NONE),
        ("aws:s3.objects.get", {"bucket": "b", "key": "k"}, 403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", [],
         Category.LOCAL_FAILURE, Retry.BOUNDED, NONE),
        ("aws:s3.uploads.complete", {"bucket": "b", "key": "k", "uploadId": "U", "body_": b"x"}, 200,
         '<?xml version="1.0"?>\n\n<Error><Code>InternalError</Code></Error>', [], FAILED, Retry.BOUNDED, NONE),
        ("aws:s3.uploads.complete", {"bucket": "b", "key": "k", "uploadId": "U", "body_": b"x"}, 200,
         '<?xml version="1.0"?>   ', [], Category.MALFORMED_RESPONSE, Retry.RECONCILE_FIRST, UNKNOWN),
        ("aws:s3.objects.delete_many", {"bucket": "b", "body_": b"x"}, 200,
         "<DeleteResult><Deleted><Key>never</Key></Deleted></DeleteResult>", [], Category.SUCCESS, Retry.NEVER,
         APPLIED),
        ("aws:s3.objects.delete_many", {"bucket": "b", "body_": b"x"}, 200,
         HALF_DELETED, [], PARTIAL, Retry.BOUNDED, APPLIED),
        ("aws:sqs.messages.send_many", ENTRIES, 200,
         {"Successful": [{"Id": "0"}], "Failed": [{"Id": "1", "SenderFault": False}]}, [AMZ], PARTIAL, Retry.BOUNDED,
         APPLIED),
        ("aws:sqs.messages.send_many", ENTRIES, 200, {"Successful": [{"Id": "0"}]}, [AMZ],
         Category.MALFORMED_RESPONSE, Retry.AFTER_HUMAN, UNKNOWN),
        ("aws:ec2.instances.run", {"ImageId": "ami-1"}, 400, EC2_ERROR.format("IdempotentParameterMismatch"), [],
         Category.OUTCOME_UNKNOWN, Retry.RECONCILE_FIRST, UNKNOWN),
        ("aws:ec2.instances.run", {"ImageId": "ami-1"}, 400, EC2_ERROR.format("IdempotentInstanceTerminated"), [],
         FAILED, Retry.NEVER, NONE),
        ("aws:ec2.instances.run", {"ImageId": "ami-1"}, 500, EC2_ERROR.format("InsufficientInstanceCapacity"), [],
         FAILED, Retry.BOUNDED, NONE),
        ("aws:ec2.instances.run", {"ImageId": "ami-1"}, 401, EC2_ERROR.format("AuthFailure"), [],
         Category.AUTHENTICATION_FAILED, Retry.NEVER, NONE),
        ("google:google-drive.files.create", {"name": "n"}, 403,
         {"error": {"errors": [{"domain": "usageLimits", "reason": "userRateLimitExceeded"}]}}, [],
         Category.RATE_LIMITED, Retry.AFTER_DELAY, NONE),
        ("google:google-drive.files.get", {"file_id": "f"}, 403,
         {"error": {"errors": [{"domain": "global", "reason": "insufficientFilePermissions"}]}}, [], DENIED,
         Retry.NEVER, NONE),
        ("google:google.buckets.list", {"project": "p"}, 403,
         {"error": {"details": [{"reason": "SERVICE_DISABLED"}]}}, [], DENIED, Retry.AFTER_HUMAN, NONE),
        ("google:google-drive.files.list", {}, 403,
         {"error": {"errors": [{"domain": "usageLimits", "reason": "dailyLimitExceededUnreg"}]}}, [],
         Category.AUTHENTICATION_FAILED, Retry.NEVER, NONE),
        ("microsoft-graph:graph.me.get", {}, 401, {"error": {"code": "InvalidAuthenticationToken"}},
         [("www-authenticate", 'Bearer realm="", error="insufficient_claims", claims="eyJhIjp7fX0="')],
         Category.AUTHENTICATION_FAILED, Retry.AFTER_HUMAN, NONE),
        ("microsoft-graph:graph.users.list", {}, 401, {"error": {"code": "InvalidAuthenticationToken"}}, [],
         Category.AUTHENTICATION_FAILED, Retry.NEVER, NONE),
        ("microsoft-graph:graph.batch", {"requests": [1, 2, 3]}, 200,
         {"responses": [{"id": "1", "status": 201}, {"id": "2", "status": 429, "headers": {"Retry-After": "10"}},
                        {"id": "3", "status": 424}]}, [], PARTIAL, Retry.AFTER_DELAY, APPLIED),
        ("jira:jira.issues.search", {"jql": "x"}, 401, {"code": 401, "message": "Unauthorized; scope does not match"},
         [], DENIED, Retry.NEVER, NONE),
        ("jira:jira.issues.create", {"fields": {}}, 201, {"id": "10001", "key": "PS-1"}, [], Category.SUCCESS,
         Retry.NEVER, APPLIED),
        ("elasticsearch:elasticsearch.documents.bulk", {"body_": b"{}"}, 200,
         {"errors": True, "items": [{"create": {"_id": "a", "status": 201}}, {"create": {"_id": "b", "status": 503}}]},
         [], PARTIAL, Retry.BOUNDED, APPLIED),
        ("cloudflare:cloudflare.dns_records.delete", {"zone_id": "z", "record_id": "r"}, 521, "<title>521</title>",
         [("content-type", "text/html")], FAILED, Retry.BOUNDED, NONE),
        ("cloudflare:cloudflare.dns_records.delete", {"zone_id": "z", "record_id": "r"}, 524, "<title>524</title>",
         [("content-type", "text/html")], Category.OUTCOME_UNKNOWN, Retry.AFTER_HUMAN, UNKNOWN),
        ("graphql:graphql.query", {"query": "{ a }"}, 200, {"errors": [{"type": "RATE_LIMIT"}]}, [],
         Category.RATE_LIMITED, Retry.AFTER_DELAY, NONE),
        ("graphql:graphql.query", {"query": "{ a }"}, 200, {"errors": [{"message": "x"}], "data": None}, [], FAILED,
         Retry.BOUNDED, NONE),
    ],
)  # fmt: skip
def test_an_answer_of_a_service_means_what_its_documentation_says(
    operation: str,
    args: dict[str, Any],
    status: int,
    body: Any,
    headers: list[tuple[str, str]],
    category: Category,
    retry: Retry,
    effect: RemoteEffect,
) -> None:
    verdict = seen(operation, dict(args), status, body, *headers).verdict

    assert (category, retry, effect) == (verdict.category, verdict.retry, verdict.remote_effect)


LINK = ("link", '<https://api.github.com/repositories/1/issues?per_page=2&page=2>; rel="next"')
MORE, CAPPED, SILENT, TIMED = (
    [IncompleteCode.MORE_PAGES_AVAILABLE.value],
    [IncompleteCode.RESULT_LIMIT_REACHED.value],
    [IncompleteCode.SOURCE_UNAVAILABLE.value],
    [IncompleteCode.TIME_BUDGET_EXCEEDED.value],
)


@pytest.mark.parametrize(
    ("operation", "args", "body", "headers", "found", "retry", "cursor"),
    [
        ("github:github.issues.list", REPO, [{"number": 1}], [], [], Retry.NEVER, None),
        ("github:github.issues.list", REPO, [{"number": 1}], [LINK], MORE, Retry.BOUNDED,
         "https://api.github.com/repositories/1/issues?per_page=2&page=2"),
        ("github:github.issues.mine", {}, [{"id": 1}], [("x-github-sso", "partial-results; organizations=1")],
         ["VISIBILITY_RESTRICTED"], Retry.AFTER_HUMAN, None),
        ("github:github.issues.search", {"q": "x", "page": 10, "per_page": 100},
         {"total_count": 2300, "incomplete_results": False, "items": [{"id": 1}]},
         [("link", '<https://api.github.com/search/issues?page=9>; rel="prev"')], CAPPED, Retry.NEVER, None),
        ("github:github.trees.get", {**REPO, "sha": "s"}, {"tree": [{"path": "a"}], "truncated": True}, [], CAPPED,
         Retry.NEVER, None),
        ("github:github.commits.compare", {**REPO, "basehead": "a...b"},
         {"total_commits": 900, "commits": [{"sha": "1"}], "files": []}, [], MORE, Retry.BOUNDED, "2"),
        ("slack:slack.conversations.list", {}, {"ok": True, "channels": [{"id": "C"}], "response_metadata":
         {"next_cursor": ""}}, [], [], Retry.NEVER, None),
        ("slack:slack.users.list", {}, {"ok": True, "members": [], "response_metadata": {"next_cursor": "d"}}, [],
         MORE, Retry.BOUNDED, "d"),
        ("stripe:stripe.charges.list", {"limit": 2}, {"has_more": True, "data": [{"id": "ch_1"}, {"id": "ch_2"}]}, [],
         MORE, Retry.BOUNDED, "ch_2"),
        ("stripe:stripe.charges.list", {}, {"has_more": False, "data": []}, [], [], Retry.NEVER, None),
        ("aws:dynamodb.items.scan", DDB, {"Items": [], "LastEvaluatedKey": {"pk": {"S": "k5"}}}, [AMZ], MORE,
         Retry.BOUNDED, '{"pk":{"S":"k5"}}'),
        ("aws:dynamodb.items.query", DDB, {"Items": [{"pk": {"S": "1"}}], "LastEvaluatedKey": {}}, [AMZ], [],
         Retry.NEVER, None),
        ("aws:dynamodb.items.get_many", {"RequestItems": {}},
         {"Responses": {"T": []}, "UnprocessedKeys": {"T": {"Keys": [1]}}}, [AMZ], MORE, Retry.BOUNDED, None),
        ("google:google-drive.files.list", {}, {"files": [], "nextPageToken": "CAE"}, [], MORE, Retry.BOUNDED, "CAE"),
        ("google:google-drive.files.list", {}, {"files": [{"id": "1"}], "nextPageToken": ""}, [], [], Retry.NEVER,
         None),
        ("microsoft-graph:graph.users.delta", {},
         {"value": [], "@odata.nextLink": "https://graph.microsoft.com/v1.0/users/delta?$skiptoken=S"}, [], MORE,
         Retry.BOUNDED, "https://graph.microsoft.com/v1.0/users/delta?$skiptoken=S"),
        ("microsoft-graph:graph.messages.list", {}, {"value": [], "@odata.nextLink":
         "https://graph.microsoft.com/v1.0/me/messages"}, [], ["COMPLETENESS_UNVERIFIED"], Retry.NEVER, None),
        ("kubernetes:kubernetes.pods.list", {"namespace": "n"},
         {"metadata": {"continue": "", "resourceVersion": "7"}, "items": []}, [], [], Retry.NEVER, None),
        ("jira:jira.issues.search", {"jql": "x"}, {"issues": [{"id": "1"}], "nextPageToken": "T1", "isLast": False},
         [], MORE, Retry.BOUNDED, "T1"),
        ("elasticsearch:elasticsearch.documents.search", {"index": "i"},
         {**WHOLE, "timed_out": True, "hits": {"total": {"value": 0, "relation": "eq"}, "hits": []}}, [], TIMED,
         Retry.BOUNDED, None),
        ("elasticsearch:elasticsearch.documents.search", {"index": "i"},
         {**WHOLE, "_shards": {"failed": 2}, "hits": {"total": {"value": 1, "relation": "eq"}, "hits": [{"_id": "a"}]}},
         [], SILENT, Retry.BOUNDED, None),
        ("elasticsearch:elasticsearch.documents.search", {"index": "i", "size": 0},
         {**WHOLE, "hits": {"total": {"value": 10000, "relation": "gte"}, "hits": []}}, [], CAPPED, Retry.NEVER, None),
        ("prometheus:prometheus.query", {"query": "sum(up)"},
         {"status": "success", "data": {"resultType": "vector", "result": [1]}, "warnings": ["store-1"]}, [], SILENT,
         Retry.BOUNDED, None),
        ("prometheus:prometheus.query", {"query": "sum(up)"},
         {"status": "success", "data": {"resultType": "vector", "result": [1]}}, [], [], Retry.NEVER, None),
        ("prometheus:loki.query_range", {"query": "{}", "limit": 2},
         {"status": "success", "data": {"result": [{"values": [["1", "a"], ["2", "b"]]}]}}, [], CAPPED, Retry.BOUNDED,
         None),
        ("cloudflare:cloudflare.zones.list", {}, {"success": True, "result": [{"id": "z"}], "result_info":
         {"total_count": 1}}, [], [], Retry.NEVER, None),
        ("graphql:graphql.query", {"query": "{ hero }"},
         {"errors": [{"path": ["hero"]}], "data": {"hero": {"name": None}}}, [], SILENT, Retry.BOUNDED, None),
    ],
)  # fmt: skip
def test_a_list_is_whole_only_where_the_service_says_so(
    operation: str,
    args: dict[str, Any],
    body: Any,
    headers: list[tuple[str, str]],
    found: list[str],
    retry: Retry,
    cursor: str | None,
) -> None:
    answered = seen(operation, dict(args), 200, body, *headers)

    category = Category.PARTIAL if found else Category.SUCCESS
    assert (category, retry, found) == (answered.verdict.category, answered.verdict.retry, lacks(answered))
    assert answered.completeness is not None
    assert cursor == answered.completeness.next_cursor


def test_the_end_of_a_search_window_is_no_error() -> None:
    body = {"message": "Only the first 1000 search results are available"}
    answered = seen("github:github.issues.search", {"q": "x", "page": 11}, 422, body)

    assert (Category.PARTIAL, Retry.NEVER, CAPPED) == (
        answered.verdict.category, answered.verdict.retry, lacks(answered),
    )  # fmt: skip


def test_a_truncated_list_of_objects_goes_on_with_its_token() -> None:
    body = (
        "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>T</NextContinuationToken></ListBucketResult>"
    )
    answered = seen("aws:s3.objects.list", {"bucket": "b", "prefix": "a/"}, 200, body)

    assert MORE == lacks(answered)
    assert answered.completeness is not None
    assert ("T", 0) == (answered.completeness.next_cursor, answered.completeness.returned)


def test_what_hides_things_proves_no_absence() -> None:
    hidden = seen("github:github.repos.get", dict(REPO), 404, {"message": "Not Found"})
    denied = seen("aws:s3.objects.get", {"bucket": "b", "key": "k"}, 403, "<Error><Code>AccessDenied</Code></Error>")

    assert [WarningCode.NOT_FOUND_MAY_BE_HIDDEN] == [warning.code for warning in hidden.warnings]
    assert ["VISIBILITY_RESTRICTED"] == lacks(hidden) == lacks(denied)


def test_an_expired_token_says_that_the_list_begins_anew() -> None:
    answered = seen("kubernetes:kubernetes.pods.list", {"namespace": "n", "continue": "c"}, 410, {"reason": "Expired"})

    assert (Category.PARTIAL, Retry.BOUNDED, ["CURSOR_EXPIRED"]) == (
        answered.verdict.category, answered.verdict.retry, lacks(answered),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "args", "url", "header", "body"),
    [
        ("aws:dynamodb.items.get", {"TableName": "t", "Key": {"a": {"S": "b"}}}, "https://dynamodb.us-east-1.amazonaws.com/",
         ("x-amz-target", "DynamoDB_20120810.GetItem"), b'{"TableName":"t","Key":{"a":{"S":"b"}}}'),
        ("aws:ec2.instances.stop", {"InstanceId.1": "i-1"},
         "https://ec2.us-east-1.amazonaws.com/?Action=StopInstances&Version=2016-11-15&InstanceId.1=i-1",
         ("accept", "*/*"), b""),
        ("stripe:stripe.charges.create", {"amount": 5, "currency": "eur", "metadata[ref]": "a b"},
         "https://api.stripe.com/v1/charges", ("content-type", "application/x-www-form-urlencoded"),
         b"amount=5&currency=eur&metadata%5Bref%5D=a%20b"),
        ("elasticsearch:elasticsearch.documents.bulk", {"body_": b"{}\n{}\n"}, "https://elasticsearch.example:9200/_bulk",
         ("content-type", "application/x-ndjson"), b"{}\n{}\n"),
    ],
)  # fmt: skip
def test_a_request_of_a_pack_is_spelled_as_the_service_takes_it(
    operation: str, args: dict[str, Any], url: str, header: tuple[str, str], body: bytes
) -> None:
    frozen = asked(operation, **dict(args))

    assert isinstance(frozen, FrozenRequest), frozen
    assert (url, body) == (frozen.url, frozen.body)
    assert header in frozen.headers


@pytest.mark.parametrize("query", ["mutation { a }", "query A { a } # Mutation", "subscription { a }"])
def test_a_mutation_is_no_query(query: str) -> None:
    assert isinstance(asked("graphql:graphql.query", query=query), Invalid)
    assert isinstance(asked("graphql:graphql.mutation", query=query), FrozenRequest)
