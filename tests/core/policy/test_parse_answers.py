"""How answers are read: blocks and their defaults, and rules that prove themselves on their examples."""

import pytest

from broker.contract.reasons import Category, RemoteEffect, Retry, WarningCode
from broker.core.policy.declarations import Delay
from broker.core.policy.keys import SHARED
from broker.core.policy.model import AnswerRule, Identity, Operation, RateLimit
from broker.core.predicate import compile_predicate
from tests.fakes.policies import faults_of, policy_of

HEAD = '[services.s]\nkind = "http"\nbase_url = "https://s.example"\n'
PROOF = "examples = { match = [{ status = 403 }], no_match = [{ status = 200 }] }"
WHEN = f'when = "status==`403`", {PROOF}'


def whole(text: str, defaults: str = "", effect: str = "write") -> str:
    request = 'request = { method = "POST", path = "/", query = ["page"] }'
    operation = f'[services.s.operations.o]\neffect = "{effect}"\n{request}\n{text}\n'
    return HEAD + (f"[services.s.defaults]\n{defaults}\n" if defaults else "") + operation


def operation(text: str, defaults: str = "") -> Operation:
    return policy_of(whole(text, defaults)).services["s"].operations["o"]


def faults(text: str, defaults: str = "", effect: str = "write") -> list[str]:
    return faults_of(whole(text, defaults, effect))


DELAY = '{ from = "headers.retry-after", kind = "delta_s" }'
EVERY_BLOCK = f"""
success = {{ statuses = [200, 201], when = "json.ok==`true`" }}
response = {{ media = ["json", "+json", "text/*"], headers = ["x-total"] }}
identity = {{ path = "json.data.id", type = "integer" }}
errors = [
    {{ {WHEN}, category = "authorization_denied", code = "scope", retry = "after_human", remote_effect = "none" }},
    {{ {WHEN}, use = "rate_limit", floor_s = 60, warn = ["PROVIDER_NOTICE"] }},
]
rate_limit = {{ {WHEN}, delay = [{DELAY}], default_s = 5, floor_s = 2, max_wait_s = 9 }}
completeness = {{ complete_when = "status==`403`", {PROOF}, total = "json.n", items = "json.rows", id = "id" }}
pagination = {{ kind = "body_token", token = "json.next", param = "page" }}
scope = {{ resource = "things" }}
auth = {{ masked_statuses = [404] }}
redirect = {{ follow = "never", cross_host_credential = "never" }}
gateway = {{ reject_proof = [521] }}
batch = {{ failed_items = "json.failed" }}
async = {{ poll = ["headers.location"] }}
warnings = [{{ {WHEN}, code = "PROVIDER_NOTICE" }}]
idempotency = {{ kind = "none" }}
limits = {{ max_bytes = 1000 }}
"""


def test_every_block_is_read() -> None:
    read = operation(EVERY_BLOCK)

    assert ((200, 201), compile_predicate("json.ok==`true`")) == (read.success_statuses, read.success_when)
    assert (("json", "+json", "text/*"), ("x-total",)) == (read.media, read.response_headers)
    assert Identity(path="json.data.id", type="integer") == read.identity
    assert (
        AnswerRule(
            when=compile_predicate("status==`403`"),
            category=Category.AUTHORIZATION_DENIED,
            code="scope",
            retry=Retry.AFTER_HUMAN,
            remote_effect=RemoteEffect.NONE,
        ),
        AnswerRule(
            when=compile_predicate("status==`403`"),
            use_rate_limit=True,
            floor_s=60,
            warn=(WarningCode.PROVIDER_NOTICE,),
        ),
    ) == read.errors
    assert (
        RateLimit(
            when=compile_predicate("status==`403`"),
            delays=(Delay(path="headers.retry-after", kind="delta_s"),),
            default_s=5,
            floor_s=2,
            max_wait_s=9,
        )
        == read.rate_limit
    )
    assert (compile_predicate("status==`403`"), 1000) == (read.complete_when, read.max_bytes)


def test_an_operation_inherits_the_blocks_that_it_does_not_have() -> None:
    inherited, own = operation("", EVERY_BLOCK), operation(EVERY_BLOCK)
    fields = [name for name in Operation.__dataclass_fields__ if name != "place"]

    assert [getattr(own, name) for name in fields] == [getattr(inherited, name) for name in fields]


def test_an_operations_own_block_replaces_the_default_as_a_whole() -> None:
    own = f'response = {{}}\nsuccess = {{ statuses = [204] }}\nerrors = [{{ {WHEN}, use = "rate_limit" }}]'
    read = operation(own, EVERY_BLOCK)

    assert ((), (), (204,), None, 1) == (
        read.media, read.response_headers, read.success_statuses, read.success_when, len(read.errors),
    )  # fmt: skip
    assert read.rate_limit is not None


@pytest.mark.parametrize(
    "rule", ['use = "rate_limit"', 'category = "rate_limited"', 'category = "confirmed_failure", retry = "after_delay"']
)
def test_a_floor_goes_with_whatever_is_waited_for(rule: str) -> None:
    assert 9 == operation(f"rate_limit = {{}}\nerrors = [{{ {WHEN}, {rule}, floor_s = 9 }}]").errors[0].floor_s


def test_a_single_media_type_may_stand_alone() -> None:
    assert ("json",) == operation('response = { media = "json" }').media


def test_what_is_not_declared_is_empty() -> None:
    read = operation("")

    assert ((), None, (), None, None) == (
        read.success_statuses, read.success_when, read.errors, read.rate_limit, read.complete_when,
    )  # fmt: skip


def test_the_defaults_hold_all_shared_blocks() -> None:
    assert {line.split(" = ")[0] for line in EVERY_BLOCK.split("\n") if line[:1].isalpha()} == SHARED


OK = 'category = "confirmed_failure"'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("success = { statuses = [99] }", "success.statuses[0]: not usable, expected integers from 200 to 599"),
        ('success = { when = "json.ok" }', "success.when: a bare value is no test of presence"),
        ("success = { when = 1 }", "success.when: it is an integer, expected a string"),
        ("success = { examples = {} }", "success.examples: there is no when that they are examples of"),
        ('success = { when = "json.a == $a" }', "$a stands for no argument"),
        ('response = { media = "html" }', "response.media: malformed"),
        ('response = { media = ["html"] }', "response.media[0]: malformed"),
        ('response = { schema = "x" }', "response.schema: it is a string, expected a table"),
        ('response = { headers = ["X-A"] }', "response.headers[0]: malformed, expected lower-case header names"),
        ('response = { headers = ["set-cookie"] }', "names a header that is never passed on"),
        ('identity = { path = "id" }', "identity.path: malformed, expected a dotted place"),
        ('identity = { path = "json.id", type = "uuid" }', "identity.type: not one of the values"),
        ('identity = { path = "json.id", fallback = "x" }', "identity.fallback: not one of the values"),
        ("errors = 1", "errors: it is an integer, expected a list"),
        (f"errors = [{{ {OK}, {PROOF} }}]", "errors[0].when: missing"),
        (f'errors = [{{ when = "status==`403`", {OK} }}]', "errors[0].examples: missing for when"),
        (f"errors = [{{ {WHEN} }}]", "errors[0]: says what the answer means twice, or not at all"),
        (f'errors = [{{ {WHEN}, {OK}, use = "rate_limit" }}]', "says what the answer means twice, or not at all"),
        (f'errors = [{{ {WHEN}, use = "quota" }}]', "errors[0].use: not one of the values"),
        (f'errors = [{{ {WHEN}, use = "rate_limit" }}]', "and there is no rate_limit, expected a rate_limit block"),
        (f'errors = [{{ {WHEN}, use = "rate_limit", retry = "never" }}]', "errors[0].retry: means nothing beside use"),
        (f"errors = [{{ {WHEN}, {OK}, floor_s = 1 }}]", "errors[0].floor_s: means nothing where nothing is"),
        (f'errors = [{{ {WHEN}, category = "success" }}]', "errors[0].category: not one of the values"),
        (f'errors = [{{ {WHEN}, category = "policy_denied" }}]', "errors[0].category: not one of the values"),
        (f'errors = [{{ {WHEN}, {OK}, code = "scope" }}]', "code: not one of the category's codes, expected client"),
        (f'errors = [{{ {WHEN}, code = "scope" }}]', "expected none without a category"),
        (f'errors = [{{ {WHEN}, {OK}, warn = ["X"] }}]', "errors[0].warn[0]: malformed"),
        (f'errors = [{{ {WHEN}, {OK}, retry = "soon" }}]', "errors[0].retry: not one of the values"),
        (f'errors = [{{ {WHEN}, {OK}, human_remedy = "x" }}]', "errors[0].human_remedy: unknown key"),
        ("rate_limit = { default_s = 0 }", "rate_limit.default_s: out of range"),
        (f"rate_limit = {{ {PROOF} }}", "rate_limit.examples: there is no when"),
        ('rate_limit = { delay = [{ from = "json.w", kind = "soon" }] }', "delay[0].kind: not one of the values"),
        ('rate_limit = { delay = [{ from = "json.w", kind = "delta_s", parameter = "t" }] }', "means nothing here"),
        ('rate_limit = { delay = [{ from = "w", kind = "delta_s" }] }', "delay[0].from: malformed"),
        ('rate_limit = { pace_from = "x" }', "rate_limit.pace_from: it is a string, expected a table"),
        (
            'pagination = { kind = "offset", param = "page", counts = "size" }',
            "pagination.counts: nothing says how many rows a page is asked for",
        ),
        ("completeness = { over_ask = 1 }", "completeness.over_ask: one row more proves an end only where"),
        ('completeness = { complete_when = "status==`403`" }', "completeness.examples: missing for complete_when"),
        ('completeness = { total = "n" }', "completeness.total: malformed, expected a dotted place"),
        ('idempotency = { kind = "key" }', "idempotency: a key travels in one place"),
        ('idempotency = { kind = "key", header = "k" }', "idempotency.window_s: missing"),
        ('idempotency = { kind = "key", param = "k", header = "k", window_s = 9 }', "idempotency: a key travels in"),
        ('idempotency = { kind = "key", param = "k" }', "idempotency.window_s: missing"),
        ('idempotency = { kind = "natural", window_s = 5 }', "idempotency.window_s: it is about a key"),
        ('idempotency = { kind = "none", header = "k" }', "idempotency.header: means nothing where"),
        ("limits = { max_bytes = 0 }", "limits.max_bytes: out of range"),
        ("limits = { deadlines = { total_s = 0 } }", "limits.deadlines.total_s: out of range"),
    ],
)  # fmt: skip
def test_a_block_at_fault_is_told_where(text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults(text) if fault in found][:1]


@pytest.mark.parametrize(
    ("examples", "fault"),
    [
        ("{ match = [{ status = 403 }] }", "examples.no_match: missing, expected at least one answer"),
        ("{ match = [], no_match = [{ status = 200 }] }", "examples.match: it has 0 members"),
        ("{ match = [{ status = 200 }], no_match = [{ status = 200 }] }", "examples.match[0]: when does not match it"),
        ("{ match = [{ status = 403 }], no_match = [{ status = 403 }] }", "examples.no_match[0]: when matches it"),
        ("{ match = [{}], no_match = [{ status = 200 }] }", "examples.match[0].status: missing"),
        ("{ match = [{ status = 403, headers = { X = 'y' } }] }", "match[0].headers: not headers"),
        ("{ match = [{ status = 403, headers = { x = 1 } }] }", "match[0].headers: not headers"),
        ("{ match = [{ status = 403, headers = 1 }] }", "match[0].headers: it is an integer"),
        ("{ match = [{ status = 403, json = [{ a = 2026-01-01 }] }] }", "match[0].json: it holds a date"),
        ("{ match = [{ status = 403, text = 1 }] }", "match[0].text: it is an integer"),
        ("{ match = [{ status = 403, body = 1 }] }", "match[0].body: unknown key"),
        ("1", "errors[0].examples: it is an integer"),
    ],
)  # fmt: skip
def test_a_rule_proves_itself_on_its_examples(examples: str, fault: str) -> None:
    told = faults(f'errors = [{{ when = "status==`403`", {OK}, examples = {examples} }}]')

    assert [fault] == [fault for found in told if fault in found][:1]


def test_an_example_that_makes_a_predicate_raise_does_not_pass_for_one_that_it_misses() -> None:
    when = "contains(json.message || '', 'x')"
    examples = "{ match = [{ status = 400, json.message = 'x' }], no_match = [{ status = 400, json.message = 1 }] }"
    told = faults(f'errors = [{{ when = "{when}", {OK}, examples = {examples} }}]')

    assert ["when can't be evaluated on it"] == [line.split(": ")[2].split(",")[0] for line in told]


def test_examples_have_headers_json_and_text() -> None:
    read = operation(
        """
[services.s.operations.o.success]
when = "contains(join(',', to_array(headers.link || '')), 'next') && json.a==`true` && starts_with(text || '', '{')"
examples.match = [{ status = 200, headers = { link = ["a", "next"] }, json = { a = true }, text = "{" }]
examples.no_match = [{ status = 200, headers = { link = "a" }, json = [1.5, "x"] }]
"""
    )

    assert read.success_when is not None


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ('category = "outcome_unknown", retry = "bounded"', True),
        ('category = "malformed_response", retry = "after_delay"', True),
        ('category = "confirmed_failure", retry = "bounded", remote_effect = "unknown"', True),
        ('category = "confirmed_failure", retry = "bounded"', False),
        ('category = "outcome_unknown", retry = "bounded", remote_effect = "none"', False),
        ('category = "outcome_unknown", retry = "reconcile_first"', False),
    ],
)
def test_no_rule_sends_a_write_again_while_it_may_have_happened(rule: str, refused: bool) -> None:  # noqa: FBT001 - a verdict
    own = faults(f"errors = [{{ {WHEN}, {rule} }}]")
    inherited = faults("", f"errors = [{{ {WHEN}, {rule} }}]")
    of_a_read = faults(f"errors = [{{ {WHEN}, {rule} }}]", effect="read")

    assert [refused, refused, False] == [bool(own), bool(inherited), bool(of_a_read)]
    assert not refused or "operations.o.errors: a rule lets a write be sent again" in own[0]
    assert not refused or "operations.o: a rule lets a write be sent again" in inherited[0]


def test_a_schema_is_a_table_that_needs_no_other_document() -> None:
    schema = '{ type = "object", required = ["id"], properties = { id = { type = "string" } } }'
    read = operation(f'response = {{ schema = {schema}, body = "required", end_marker = "END", lenient_media = true }}')

    assert read.response_schema is not None
    assert '"required":["id"]' in read.response_schema.text
    assert (True, "END", True) == (read.body_required, read.end_marker, read.lenient_media)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('response = { schema = { type = "thing" } }', "response.schema: not usable"),
        ('response = { schema = { "$ref" = "https://other.example/x.json" } }', "response.schema: not usable"),
        ("response = { schema = { const = 2026-01-01 } }", "response.schema: it holds a date or time"),
        ('response = { body = "maybe" }', "response.body: not one of the values"),
        ('response = { end_marker = "" }', "response.end_marker: empty or too long"),
        ('auth = { clock_codes = ["x"] }', "auth.clock_codes: codes and the place where they stand go together"),
        ('auth = { clock_code = "json.code" }', "auth.clock_codes: codes and the place"),
        ("auth = { masked_statuses = [200] }", "auth.masked_statuses[0]: not usable"),
        ('auth = { login_redirect = ["login"] }', "auth.login_redirect[0]: malformed"),
        ('redirect = { cross_host_credential = "always" }', "redirect.cross_host_credential: not one of the values"),
        ("gateway = { reject_proof = [429] }", "gateway.reject_proof[0]: not usable"),
        (f'warnings = [{{ {WHEN}, code = "X" }}]', "warnings[0].code: not one of the values"),
        (f'warnings = [{{ {WHEN}, code = "STALE_INDEX", review_by = "soon" }}]', "warnings[0].review_by: no date"),
        (f'errors = [{{ {WHEN}, use = "rate_limit", reasons = ["IN_PROGRESS"] }}]', "reasons: means nothing beside"),
        ('success = { when = "xml.a==\'b\'", examples = { match = [{ status = 200, xml = "<a>" }] } }',
         "examples.match[0].xml: it is not well-formed XML"),
    ],
)  # fmt: skip
def test_a_declaration_at_fault_is_told_where(text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults(text) if fault in found][:1]


def test_a_warning_has_an_owner_and_a_date() -> None:
    (warning,) = operation(
        f'warnings = [{{ {WHEN}, code = "STALE_INDEX", owner = "me", review_by = 2027-01-31 }}]'
    ).warnings

    assert ("me", "2027-01-31") == (warning.owner, str(warning.review_by))


@pytest.mark.parametrize(
    ("request_", "effect", "text", "fault"),
    [
        (
            'method = "POST", path = "/"',
            "read",
            'redirect = { follow = "same_host_get_only" }',
            "only a read by GET or",
        ),
        (
            'method = "GET", path = "/"',
            "write",
            'redirect = { follow = "same_host_get_only" }',
            "only a read by GET or",
        ),
        ('method = "GET", path = "/"', "read", 'redirect = { follow = "same_host_get_only" }', None),
        ('method = "HEAD", path = "/"', "read", 'redirect = { follow = "same_host_get_only" }', None),
        ('method = "POST", path = "/"', "write", 'redirect = { follow = "never" }', None),
        (
            'method = "GET", path = "/", query = ["n"]',
            "read",
            'completeness = { items = "json", full_page_means_cut = true, cap = 9, over_ask = 1 }',
            "nothing says in which argument",
        ),
    ],
)
def test_what_could_never_take_place_is_told(request_: str, effect: str, text: str, fault: str | None) -> None:
    head = f'{HEAD}[services.s.operations.o]\nrequest = {{ {request_} }}\neffect = "{effect}"\n'
    if fault is None:
        assert "o" in policy_of(head + text).services["s"].operations
    else:
        assert [fault in told for told in faults_of(head + text)] == [True]
