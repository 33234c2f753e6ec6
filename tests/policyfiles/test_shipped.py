"""The shipped packs: they load, alone and together, say what they claim, and fit the JSON Schema."""

import json
import tomllib
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.reasons import ApprovalRule, WarningCode
from broker.core.frozen import FrozenRequest
from broker.core.identity import ProcessFacts, named_by
from broker.core.key_argument import with_key
from broker.core.outcome import Phase, RawOutcome
from broker.core.policy import keys
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Ask, Decision, Deny, Operation
from broker.core.policy.parse_answers import JUDGEMENTS
from broker.core.policy.parse_rules import _LIMIT_RANGES
from broker.core.policy.parse_ssh import MEANINGS
from broker.core.predicate import answer_view, compile_selection, holds, selected
from broker.core.redirects import may_follow, next_hop
from broker.core.resolve import HttpAsk, resolve
from broker.core.ssh.model import MarkerMode
from broker.policyfiles import PolicyError, PolicyFile
from broker.policyfiles.check import check
from broker.policyfiles.load import load_policy
from broker.policyfiles.shipped import pack_bytes, pack_names, schema_bytes
from tests.fakes.policies import caller_named, faults_of

SERVICE_PACKS = (
    "aws", "cloudflare", "elasticsearch", "generic-rest", "github", "gitlab", "google", "graphql", "jira",
    "kubernetes", "microsoft-graph", "prometheus", "slack", "stripe",
)  # fmt: skip
FILES = {name: PolicyFile(name=f"{name}.toml", raw=pack_bytes(name)) for name in pack_names()}
SCHEMA: dict[str, Any] = json.loads(schema_bytes())
VALIDATOR = jsonschema_rs.validator_for(SCHEMA, offline=True)
GITHUB = load_policy([FILES["github"]])


def github(name: str) -> Operation:
    return GITHUB.services["github"].operations[name]


def decided(**ask: Any) -> tuple[FrozenRequest, Decision]:
    frozen = resolve(GITHUB, HttpAsk(service="github", **ask))
    assert isinstance(frozen, FrozenRequest), frozen
    return frozen, evaluate(GITHUB, caller_named(), frozen)


def test_the_packs_are_found() -> None:
    assert set(SERVICE_PACKS) | {"agents", "ssh-hosts"} == set(pack_names())


def test_a_pack_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(PolicyError, match="there are agents, aws, cloudflare"):
        pack_bytes("../secrets")


@pytest.mark.parametrize("name", pack_names())
def test_a_pack_loads_by_itself_without_a_warning(name: str) -> None:
    report = check([FILES[name]], None)

    assert ((), ()) == (report.faults, report.warnings)


def test_all_packs_load_together() -> None:
    assert ((), ()) == (check(list(FILES.values()), None).faults, check(list(FILES.values()), None).warnings)


@pytest.mark.parametrize("name", pack_names())
def test_a_pack_fits_the_schema_and_names_it(name: str) -> None:
    raw = pack_bytes(name)

    assert raw.startswith(b"#:schema ./policy.schema.json\n")
    assert [] == [str(error) for error in VALIDATOR.iter_errors(tomllib.loads(raw.decode()))]


@pytest.mark.parametrize("path", ["/user", "/repos/acme/site/actions/runs"])
def test_reading_github_is_asked_once_in_a_session(path: str) -> None:
    _, decision = decided(method="GET", path=path)

    assert isinstance(decision, Ask)
    assert ("github-read", False) == (decision.rule.id, decision.per_call)


def test_changing_github_is_asked_each_time() -> None:
    frozen, decision = decided(method="POST", path="/repos/acme/site/issues", body=b'{"title":"x"}')

    assert isinstance(decision, Ask)
    assert ("github.issues.create", "acme/site", "github-write", True) == (
        frozen.operation, frozen.identifies, decision.rule.id, decision.per_call,
    )  # fmt: skip


def test_deleting_at_github_is_asked_each_time_with_a_longer_arming() -> None:
    frozen, decision = decided(operation="releases.delete", args={"owner": "acme", "repo": "site", "release_id": 1290})

    assert isinstance(decision, Ask)
    assert ("acme/site 1290", ("1290",), "github-delete", 3000) == (
        frozen.identifies, frozen.targets, decision.rule.id, decision.rule.arming_ms,
    )  # fmt: skip


def test_what_github_pack_does_not_declare_can_not_be_changed() -> None:
    assert isinstance(decided(method="PUT", path="/repos/acme/site/topics", body=b"{}")[1], Deny)


def test_a_github_request_carries_what_github_asks_for() -> None:
    frozen, _ = decided(method="GET", path="/user")

    headers = dict(frozen.headers)
    assert ("application/vnd.github+json", "2022-11-28", "doorward") == (
        headers["accept"], headers["x-github-api-version"], headers["user-agent"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (401, {}, {"message": "Bad credentials"}, "rejected"),
        (403, {"X-GitHub-SSO": "required; url=https://sso.example"}, {}, "sso_required"),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795953659"}, {}, "rate_limit 0"),
        (429, {"X-RateLimit-Remaining": "0"}, {}, "rate_limit 0"),
        (403, {"X-RateLimit-Remaining": "28"}, {"message": "hit a secondary rate limit"}, "rate_limit 60"),
        (403, {"Retry-After": "60"}, None, "rate_limit 60"),
        (403, {"X-RateLimit-Remaining": "28"}, {"message": "Must have admin rights"}, "forbidden"),
        (404, {}, {"message": "Not Found"}, "not_found"),
        (422, {}, {"message": "Validation Failed"}, "nothing"),
        (200, {"X-RateLimit-Remaining": "0"}, {}, "nothing"),
        (403, {}, {"message": ["odd"]}, "forbidden"),
    ],
)  # fmt: skip
def test_a_refusal_of_github_is_told_for_what_it_is(status: int, headers: dict[str, str], body: Any, said: str) -> None:
    answer = answer_view(status=status, headers=headers.items(), json=body)
    rules = (rule for rule in github("issues.create").errors if holds(rule.when, answer))
    rule = next(rules, None)

    assert said == ("nothing" if rule is None else rule.code or f"rate_limit {rule.floor_s or 0}")


def test_a_hidden_answer_of_github_proves_no_absence() -> None:
    rule = next(rule for rule in github("repos.get").errors if rule.code == "not_found")

    assert (WarningCode.NOT_FOUND_MAY_BE_HIDDEN,) == rule.warn


def test_an_issue_in_doubt_is_looked_for_among_the_newest() -> None:
    operation = github("issues.create")
    frozen, _ = decided(operation="issues.create", args={"owner": "acme", "repo": "site", "title": "it's `new`"})
    assert operation.reconcile is not None
    args = {
        name: frozen.args[value[1:-1]] if isinstance(value, str) and value.startswith("{") else value
        for name, value in operation.reconcile.args.items()
    }
    read, decision = decided(operation="issues.list", args=args)

    assert isinstance(decision, Ask)
    assert read.url == (
        "https://api.github.com/repos/acme/site/issues?state=all&sort=created&direction=desc&per_page=100"
    )
    selection = compile_selection(operation.reconcile.match, frozen.args)
    mine: Any = {"number": 7, "title": "it's `new`"}
    others: list[Any] = [{"title": "other"}, {"title": "it's `new`", "pull_request": {"url": "x"}}]
    assert (mine,) == selected(selection, answer_view(status=200, json=[mine, *others]))


def test_known_agents_are_named_by_how_they_are_installed() -> None:
    agents = load_policy([FILES["agents"]]).agents

    def name(exe: str, *argv: str) -> str | None:
        process = ProcessFacts(pid=9, start_ticks=1, inode=1, uid=1, exe=exe, exe_id=None, argv=argv)
        return named_by(agents, process)

    assert "claude-code" == name("/home/u/.local/share/claude/versions/2.1.37", "claude")
    assert "claude-code-node" == name("/usr/bin/node", "node", "/home/u/.npm/bin/claude")
    assert "codex" == name("/usr/local/bin/codex", "codex")
    assert "gemini-cli" == name("/usr/bin/node", "node", "/usr/bin/gemini")
    assert "opencode" == name("/home/u/.opencode/bin/opencode", "opencode")
    assert "aider" == name("/usr/bin/python3.12", "python3", "/home/u/.local/bin/aider")
    assert "cursor-agent" == name("/home/u/.local/share/cursor-agent/versions/1/node", "node", "index.js")
    assert "goose" == name("/home/u/.local/bin/goose", "goose")
    assert name("/usr/bin/node", "node", "server.js") is None


DEFINITIONS = {
    "rule": keys.RULE,
    "agent": keys.AGENT,
    "limits": keys.LIMITS,
    "http_service": keys.SERVICE,
    "ssh_service": keys.SSH_SERVICE,
    "ssh_host": keys.SSH_HOST,
    "ssh_defaults": keys.SSH_SHARED,
    "ssh_operation": keys.SSH_OPERATION,
    "exit_rule": keys.EXIT_RULE,
    "ssh_examples": keys.EXAMPLES,
    "ssh_example": keys.SSH_EXAMPLE,
    "tls": keys.TLS,
    "defaults": keys.SHARED,
    "operation": keys.OPERATION,
    "request": keys.REQUEST,
    "success": keys.SUCCESS,
    "response": keys.RESPONSE,
    "identity": keys.IDENTITY,
    "error": keys.ERROR,
    "rate_limit": keys.RATE_LIMIT,
    "delay": keys.DELAY,
    "idempotency": keys.IDEMPOTENCY,
    "completeness": keys.COMPLETENESS,
    "operation_limits": keys.OPERATION_LIMITS,
    "deadlines": keys.DEADLINES,
    "auth": keys.AUTH,
    "redirect": keys.REDIRECT,
    "gateway": keys.GATEWAY,
    "warning": keys.WARNING,
    "proven": keys.PROVEN,
    "proven_of_item": keys.PROVEN,
    "item_examples": keys.EXAMPLES,
    "pagination": keys.PAGINATION,
    "paging_end": keys.PAGING_END,
    "incomplete": keys.INCOMPLETE,
    "scope": keys.SCOPE,
    "batch": keys.BATCH,
    "item_delay": keys.DELAY,
    "async": keys.ASYNC,
    "evidence": keys.EVIDENCE,
    "precheck": keys.PRECHECK,
    "reconcile": keys.RECONCILE,
    "mcp": keys.MCP,
    "examples": keys.EXAMPLES,
    "example": keys.EXAMPLE,
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_loader_and_schema_know_the_same_keys(name: str) -> None:
    definition = SCHEMA["definitions"][name]

    known = DEFINITIONS[name]
    assert known == set(definition["properties"])
    assert definition["additionalProperties"] is False


def test_the_schema_has_no_table_that_the_loader_lacks() -> None:
    closed = {
        name for name, part in SCHEMA["definitions"].items() if part.get("type") == "object" and "properties" in part
    }

    assert set(DEFINITIONS) == closed
    assert keys.FILE == set(SCHEMA["properties"])


def test_loader_and_schema_know_the_same_values() -> None:
    definitions = SCHEMA["definitions"]

    assert [rule.value for rule in ApprovalRule] == definitions["rule"]["properties"]["approval"]["enum"]
    assert [code.value for code in WarningCode] == definitions["error"]["properties"]["warn"]["items"]["enum"]
    assert [judgement.value for judgement in JUDGEMENTS] == definitions["error"]["properties"]["category"]["enum"]
    assert [meaning.value for meaning in MEANINGS] == definitions["exit_rule"]["properties"]["category"]["enum"]
    assert [mode.value for mode in MarkerMode] == definitions["marker"]["enum"]
    assert {
        name: (part["minimum"], part["maximum"]) for name, part in definitions["limits"]["properties"].items()
    } == _LIMIT_RANGES


@pytest.mark.parametrize(
    "text",
    [
        '[[rules]]\nid = "a"\napproval = "maybe"\n',
        '[[rules]]\napproval = "none"\n',
        '[[rules]]\nid = "a"\napproval = "none"\nmax_uses = 0\n',
        '[[rules]]\nid = "a"\napproval = "none"\nagents = []\n',
        '[[rules]]\nid = "a"\napproval = "none"\nevidence = {}\n',
        '[services.a]\nkind = "ssh"\nbase_url = "https://a.example"\n',
        '[services.a]\nkind = "ssh"\nhosts = { h = { user = "u" } }\noperations.x = { effect = "read" }\n',
        '[services.a]\nkind = "http"\n',
        '[services.a]\nkind = "http"\nbase_url = "https://a.example"\noperations.x = { effect = "read" }\n',
        "nosuch = 1\n",
    ],
)
def test_what_the_schema_refuses_the_loader_refuses_too(text: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(f"version = 1\n{text}"))
    assert [] != faults_of(text)


@pytest.mark.parametrize(
    ("pack", "service", "probe"),
    [
        ("aws", "dynamodb", "tables.list"),
        ("aws", "s3", "buckets.list"),
        ("aws", "sqs", "queues.list"),
        ("cloudflare", "cloudflare", "tokens.verify"),
        ("elasticsearch", "elasticsearch", "cluster.info"),
        ("github", "github", "user.get"),
        ("gitlab", "gitlab", "user.get"),
        ("google", "google-drive", "about.get"),
        ("jira", "jira", "myself.get"),
        ("kubernetes", "kubernetes", "api.versions"),
        ("microsoft-graph", "graph", "me.get"),
        ("slack", "slack", "auth.test"),
        ("stripe", "stripe", "balance.get"),
    ],
)
def test_a_credential_can_be_checked_where_a_provider_has_a_cheap_read_for_it(
    pack: str, service: str, probe: str
) -> None:
    policy = load_policy([FILES[pack]])
    frozen = resolve(policy, HttpAsk(service=service, operation=probe))

    assert probe == policy.services[service].probe
    assert isinstance(frozen, FrozenRequest)
    assert not frozen.is_write


@pytest.mark.parametrize(
    ("operation", "args", "param"),
    [
        ("ec2.instances.run", {"ImageId": "ami-1"}, "ClientToken"),
        ("dynamodb.items.transact", {"TransactItems": []}, "ClientRequestToken"),
    ],
)
def test_a_change_that_amazon_knows_by_a_token_goes_out_under_the_brokers(
    operation: str, args: dict[str, Any], param: str
) -> None:
    frozen = resolve(load_policy([FILES["aws"]]), HttpAsk(operation=operation, args=args))

    assert isinstance(frozen, FrozenRequest)
    assert param not in f"{frozen.url} {frozen.body!r}"
    sent = with_key(frozen, "dw-1")
    assert f"{param}=dw-1" in sent.query or f'"{param}":"dw-1"' in sent.body.decode()


@pytest.mark.parametrize(
    ("operation", "more"),
    [("repos.get", {}), ("issues.list", {}), ("issues.get", {"issue_number": 7}), ("releases.list", {})],
)
def test_a_repository_that_was_renamed_is_read_by_its_number(operation: str, more: dict[str, Any]) -> None:
    frozen, decision = decided(operation=operation, args={"owner": "acme", "repo": "old", **more})
    told = (("location", frozen.url.replace("/repos/acme/old", "/repositories/123")),)
    raw = RawOutcome(phase=Phase.RESPONSE_COMPLETE, status=301, headers=told, body_complete=True)
    hop = next_hop(frozen, raw)

    assert hop is not None
    assert hop.path.startswith("/repositories/123")
    assert may_follow(GITHUB, caller_named(), decision, hop)
