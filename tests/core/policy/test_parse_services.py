"""Services and operations: read whole, and every slip in them told."""

import pytest

from broker.contract.reasons import Effect
from broker.core.policy.model import Operation, Service, Tls
from broker.policyfiles.files import PolicyFile
from broker.policyfiles.load import load_policy
from tests.fakes.certificates import CA_PEM
from tests.fakes.policies import faults_of, policy_of

HEAD = '[services.s]\nkind = "http"\nbase_url = "https://s.example/api"\n'
READ = """
[services.s.operations."items.list"]
request = { method = "GET", path = "/items", query = ["filter", "page"] }
effect = "read"

[services.s.operations."items.get"]
request = { method = "GET", path = "/boxes/{box}/items/{id}", query = ["fields"], required = ["fields"] }
effect = "read"
"""


def service(text: str) -> Service:
    return policy_of(HEAD + text).services["s"]


def operation(text: str, request: str = 'method = "POST", path = "/x/{id}", body = ["title", "n"]') -> Operation:
    whole = f'[services.s.operations.o]\neffect = "write"\nrequest = {{ {request} }}\n{text}\n'
    return service(READ + whole).operations["o"]


def faults(text: str, request: str = 'method = "POST", path = "/x/{id}", body = ["title", "n"]') -> list[str]:
    return faults_of(HEAD + READ + f'[services.s.operations.o]\neffect = "write"\nrequest = {{ {request} }}\n{text}\n')


def test_a_service_is_read_whole() -> None:
    read = service(
        'credential = "c-1"\nheaders = { Accept = "a/b" }\nad_hoc = ["GET", "PUT"]\ntls.pin = "sha256:'
        + "a" * 64
        + '"\n'
    )

    assert ("s", "https://s.example/api", "https", "s.example", 443, "/api", "c-1", {"accept": "a/b"}) == (
        read.name, read.base_url, read.scheme, read.host, read.port, read.base_path, read.credential,
        dict(read.headers),
    )  # fmt: skip
    assert (("GET", "PUT"), Tls(pin="sha256:" + "a" * 64)) == (read.ad_hoc, read.tls)


@pytest.mark.parametrize(
    ("text", "base_url", "base_path"),
    [
        ("https://A.example:443", "https://a.example", ""),
        ("https://a.example/", "https://a.example", ""),
        ("https://a.example/v3/", "https://a.example/v3", "/v3"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", ""),
        ("http://[::1]:8080", "http://[::1]:8080", ""),
    ],
)
def test_a_base_url_has_its_canonical_form_without_a_slash_at_the_end(text: str, base_url: str, base_path: str) -> None:
    read = policy_of(f'[services.s]\nkind = "http"\nbase_url = "{text}"\n').services["s"]

    assert (base_url, base_path) == (read.base_url, read.base_path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('kind = "ftp"\nbase_url = "https://a.example"', "services.s.kind: not one of the values"),
        ('kind = "ssh"\nbase_url = "https://a.example"', "services.s.base_url: means nothing in a service of kind ssh"),
        ('base_url = "https://a.example"', "services.s.kind: missing"),
        ('kind = "http"', "services.s.base_url: missing"),
        ('kind = "http"\nbase_url = "https://a.example?x=1"', "base_url: it has a query"),
        ('kind = "http"\nbase_url = "https://u:p@a.example"', "user names and passwords"),
        ('kind = "http"\nbase_url = "http://a.example"', "plain http goes no further than this machine"),
        ('kind = "http"\nbase_url = "https://2130706433"', "looks like a number"),
        (HEAD[13:] + "hosts = { a = 1 }", "services.s.hosts: means nothing in a service of kind http"),
        (HEAD[13:] + 'ad_hoc = ["TRACE"]', "services.s.ad_hoc[0]: malformed"),
        (HEAD[13:] + 'credential = "A B"', "credential: malformed, expected a credential's name"),
        (HEAD[13:] + "headers = { a = 1 }", "headers: a value is no string"),
        (HEAD[13:] + 'headers = { authorization = "x" }', "the header authorization is set by the broker alone"),
        (HEAD[13:] + 'headers = { a = "x\\ny" }', "a header value holds a control character"),
        (HEAD[13:] + 'headers = { Content-Type = "x" }', "the content type follows from each body"),
        (HEAD[13:] + 'tls = { ca = "nosuch.pem" }', "services.s.tls.ca: there is no such file beside"),
        (HEAD[13:] + 'tls = { ca = "../x.pem" }', "services.s.tls.ca: malformed"),
        (HEAD[13:] + 'tls = { pin = "x" }', "services.s.tls.pin: malformed"),
        (HEAD[13:] + "operations = 1", "services.s.operations: it is an integer"),
        (HEAD[13:] + "operations = { GET = {} }", "services.s.operations.GET: malformed"),
        (HEAD[13:] + "operations = { a = {} }", "services.s.operations.a.request: missing"),
        (HEAD[13:] + "operations = { a = { request = 1 } }", "services.s.operations.a.request: it is an integer"),
        (HEAD[13:] + "operations = { a = { mcp = 1 } }", "services.s.operations.a.mcp: it is an integer"),
    ],
)
def test_a_service_at_fault_is_told_where(text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults_of("[services.s]\n" + text) if fault in found][:1]


def test_a_ca_file_is_named_relative_to_the_file_that_names_it() -> None:
    text = HEAD + 'tls = { ca = "corp.pem" }\n'
    files = [
        PolicyFile(name="system/a.toml", raw=f"version = 1\n{text}".encode()),
        PolicyFile(name="system/corp.pem", raw=CA_PEM.encode()),
    ]

    assert CA_PEM == load_policy(files).services["s"].tls.ca_pem


def test_an_operation_is_read_whole() -> None:
    read = operation(
        'destructive = true\ntitle = "{id}: {title}"\ntargets = ["id", "title.part"]\nchange_key = ["id"]\n'
        'reconcile = { operation = "items.list", args = { filter = "{id}/{title}", page = 1 }, '
        'match = "json[?title==$title]", not_before_s = 5 }',
        'method = "POST", path = "/x/{id}", query = ["dry"], body = ["title", "n"], required = ["title", "dry"]',
    )

    assert ("o", "POST", "/x/{id}", Effect.WRITE, ("dry",), ("title", "n"), False, ("title", "dry"), True) == (
        read.name, read.method, read.path, read.effect, read.query, read.body, read.body_free, read.required,
        read.destructive,
    )  # fmt: skip
    assert ("{id}: {title}", ("id", "title.part"), ("id",)) == (read.title, read.targets, read.change_key)
    assert read.reconcile is not None
    assert ("items.list", {"filter": "{id}/{title}", "page": 1}, "json[?title==$title]", 5) == (
        read.reconcile.operation, dict(read.reconcile.args), read.reconcile.match, read.reconcile.not_before_s,
    )  # fmt: skip


def test_a_body_may_be_any_object_and_then_any_name_may_be_used() -> None:
    read = operation(
        'title = "{anything}"\ntargets = ["what.ever"]\nchange_key = ["it"]\n'
        'reconcile = { operation = "items.list", args = { filter = "{free}" }, match = "json[?a==$free]" }',
        'method = "PUT", path = "/x/{id}", body = "object"',
    )

    assert (None, True, ("it",)) == (read.body, read.body_free, read.change_key)


def test_an_empty_list_of_body_names_takes_an_empty_body() -> None:
    assert () == operation("", 'method = "POST", path = "/x", body = []').body
    assert operation("", 'method = "POST", path = "/x"').body is None


BACK = 'match = "json[?title==$title]"'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('title = "{nosuch}"', 'o.title: the operation has no argument "nosuch", expected id, title, n'),
        ('title = "a\\nb"', "o.title: unprintable or too long"),
        ('targets = ["nosuch"]', 'o.targets: the operation has no argument "nosuch"'),
        ('change_key = ["id.x"]', 'o.change_key: the operation has no argument "id.x"'),
        ("destructive = 1", "o.destructive: it is an integer"),
        ("nosuch = 1", "o.nosuch: unknown key"),
        ("async = 1", "o.async: it is an integer, expected a table"),
        (f'reconcile = {{ operation = "nosuch", {BACK} }}', "o.reconcile.operation: not a read of this service"),
        (f'reconcile = {{ operation = "o", {BACK} }}', "o.reconcile.operation: not a read of this service"),
        (f'reconcile = {{ operation = "items.get", {BACK} }}', "not the arguments of that read, expected box, id"),
        (
            f'reconcile = {{ operation = "items.get", args = {{ box = "b", id = "1" }}, {BACK} }}',
            "not the arguments of that read",
        ),
        (f'reconcile = {{ operation = "items.list", args = {{ odd = "b" }}, {BACK} }}', "expected filter?, page?"),
        (f'reconcile = {{ operation = "items.list", args = {{ page = 1.5 }}, {BACK} }}', "page is neither text"),
        (
            f'reconcile = {{ operation = "items.list", args = {{ filter = "{{principal}}" }}, {BACK} }}',
            "filter holds a placeholder that this version does not",
        ),
        (
            f'reconcile = {{ operation = "items.list", args = {{ filter = "x-{{id}}}}" }}, {BACK} }}',
            "filter holds a placeholder that this version does not",
        ),
        ('reconcile = { operation = "items.list" }', "o.reconcile.match: missing"),
        ('reconcile = { operation = "items.list", match = "json[?t==$nosuch]" }', "$nosuch stands for no argument"),
        ('reconcile = { operation = "items.list", match = "json[?t" }', "o.reconcile.match: it is not JMESPath"),
        (f'reconcile = {{ operation = "items.list", {BACK}, decides = {{ none = "no" }} }}', "decides.none: not one"),
        (f'reconcile = {{ operation = "items.list", {BACK}, not_before_s = -1 }}', "not_before_s: out of range"),
    ],
)  # fmt: skip
def test_an_operation_at_fault_is_told_where(text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults(text) if fault in found][:1]


@pytest.mark.parametrize(
    ("request_text", "fault"),
    [
        ('method = "FETCH", path = "/x"', "o.request.method: not one of the values"),
        ('method = "GET"', "o.request.path: missing"),
        ('method = "GET", path = "x"', "o.request.path: a path begins with a slash, expected such as"),
        ('method = "GET", path = "/{a}/{a}"', "an argument stands twice in the path"),
        ('method = "GET", path = "/{a}", query = ["a"]', "stands in two of path, query and body"),
        ('method = "POST", path = "/", query = ["a"], body = ["a"]', "stands in two of path, query and body"),
        ('method = "POST", path = "/", body = "schema/x.json"', "body: not one of the values that it can have"),
        ('method = "POST", path = "/", body = 1', "o.request.body: it is an integer"),
        ('method = "POST", path = "/{a}", required = ["a"]', 'the operation has no argument "a", expected no name'),
        ('method = "GET", path = "/items"', 'o.request: the same requests fit the operation "items.list"'),
        ('method = "GET", path = "/boxes/{x}/items/{y}"', 'the same requests fit the operation "items.get"'),
    ],
)  # fmt: skip
def test_a_request_at_fault_is_told_where(request_text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults("", request_text) if fault in found][:1]


def test_a_read_has_nothing_to_destroy_or_settle() -> None:
    text = HEAD + READ + 'destructive = true\nreconcile = { operation = "items.list", match = "json[?a==`1`]" }\n'

    assert ["a read destroys nothing", "a read changes nothing that could be in doubt"] == [
        line.split(": ")[2].split(",")[0] for line in faults_of(text)
    ]


def test_a_read_back_from_an_operation_at_fault_is_told_once() -> None:
    told = faults_of(
        HEAD
        + '[services.s.operations.r]\nrequest = { method = "GET", path = "r" }\neffect = "read"\n'
        + '[services.s.operations.w]\nrequest = { method = "POST", path = "/w" }\neffect = "write"\n'
        + 'reconcile = { operation = "r", match = "json[?a==`1`]" }\n'
    )

    assert 1 == len(told)
    assert "operations.r.request.path" in told[0]


def test_a_probe_is_a_read_of_the_service_that_needs_no_argument() -> None:
    make = '[services.s.operations.make]\neffect = "write"\nrequest = { method = "POST", path = "/x" }\n'
    me = '[services.s.operations.me]\neffect = "read"\nrequest = { method = "GET", path = "/me" }\n'

    def text(name: str) -> str:
        return f'{HEAD}probe = "{name}"\n{READ}{make}{me}'

    assert "me" == policy_of(text("me")).services["s"].probe
    for name in ("items.get", "make", "nothing"):
        assert ["not a read of this service"] == [
            "not a read of this service" for told in faults_of(text(name)) if "not a read of this service" in told
        ]
