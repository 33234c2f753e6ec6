"""Whole policies: every fault of every file at once, names once over all files, and nothing ignored."""

import pytest

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.policy.keys import (
    AGENT,
    ASYNC,
    AUTH,
    BATCH,
    COMPLETENESS,
    DEADLINES,
    DELAY,
    ERROR,
    EXAMPLE,
    EXAMPLES,
    GATEWAY,
    IDEMPOTENCY,
    IDENTITY,
    INCOMPLETE,
    LIMITS,
    OPERATION,
    OPERATION_LIMITS,
    PAGINATION,
    PAGING_END,
    PROVEN,
    RATE_LIMIT,
    RECONCILE,
    REDIRECT,
    REQUEST,
    RESPONSE,
    RULE,
    SCOPE,
    SERVICE,
    SHARED,
    SUCCESS,
    TLS,
    WARNING,
)
from broker.core.policy.model import Limits
from broker.core.policy.parse_rules import _LIMIT_RANGES
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import load_policy
from tests.fakes.policies import SHOP, faults_of, policy_of

RULE_TEXT = '[[rules]]\nid = "a"\napproval = "none"\n'
AGENTS = '[agents]\ncodex = { exe = "/usr/bin/codex", argv = "*codex*", sha256 = "' + "a" * 64 + '" }\n'


def test_an_empty_policy_denies_everything_and_loads() -> None:
    policy = policy_of("")

    assert ((), {}, {}, Limits()) == (policy.rules, dict(policy.services), dict(policy.agents), policy.limits)
    assert policy.digest.startswith("sha256:")


def test_a_rule_is_read_whole() -> None:
    (rule,) = policy_of(
        SHOP,
        AGENTS
        + """[[rules]]
id = "r.1"
approval = "session"
reason = "Reading: it's fine"
agents = ["codex", "unidentified", "claude-*"]
services = ["shop"]
operations = ["orders.list", "shop.orders.get", "GET", "shop.POST", "x*"]
effects = ["read", "write"]
destructive = false
methods = ["GET"]
paths = ["/orders/*", "/**", "/", "/a b/c"]
hosts = ["*.example"]
max_uses = 5
max_age_s = 60
per = "operation"
expires_s = 30
arming_s = 2.5
in_doubt = "ask"
""",
    ).rules

    assert ("r.1", ApprovalRule.SESSION, (Effect.READ, Effect.WRITE), False, 5, 60, "operation", 30, 2500, "ask") == (
        rule.id, rule.approval, rule.effects, rule.destructive, rule.max_uses, rule.max_age_s, rule.per,
        rule.expires_s, rule.arming_ms, rule.in_doubt,
    )  # fmt: skip
    assert "p1.toml:4" == str(rule.place)


def test_agents_and_limits_are_read_whole() -> None:
    policy = policy_of(AGENTS + "[limits]\nmax_uses = 7\nprompts_per_minute = 2\n")

    agent = policy.agents["codex"]
    assert ("codex", "/usr/bin/codex", "*codex*", "a" * 64, "p0.toml:3") == (
        agent.name, agent.exe, agent.argv, agent.sha256, str(agent.place),
    )  # fmt: skip
    assert Limits(max_uses=7, prompts_per_minute=2) == policy.limits


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("versionn = 1", "p0.toml:2: versionn: unknown key, expected version"),
        ("[[rules]]\n", "p0.toml:2: rules[0].id: missing, expected lower-case letters"),
        ('[[rules]]\nid = "A b"\napproval = "none"', "p0.toml:3: rules[0].id: malformed, expected lower-case"),
        ('[[rules]]\nid = "a"\napproval = "ask"', "p0.toml:4: rules[0].approval: not one of the values"),
        (RULE_TEXT + 'hours = "9-17"', "rules[0].hours: it is a string, expected a list"),
        (RULE_TEXT + 'hours = ["9-17"]', "p0.toml:5: rules[0].hours[0]: it is no window of time, expected HH:MM-HH:MM"),
        (RULE_TEXT + 'approvl = "none"', "p0.toml:5: rules[0].approvl: unknown key, expected approval"),
        (RULE_TEXT + 'agents = ["nobody"]', '.agents[0]: there is no "nobody", expected a program named in [agents]'),
        (RULE_TEXT + 'services = ["nosuch"]', 'there is no "nosuch", expected a service of the policy'),
        (RULE_TEXT + 'operations = ["nosuch"]', 'there is no "nosuch", expected an operation'),
        (RULE_TEXT + 'agents = ["a[b]"]', "rules[0].agents[0]: malformed, expected a name, in which *"),
        (RULE_TEXT + 'paths = ["/a*"]', "rules[0].paths[0]: malformed, expected a path below base_url"),
        (RULE_TEXT + 'paths = ["/a%20"]', "malformed"),
        (RULE_TEXT + 'paths = ["/a/"]', "malformed"),
        (RULE_TEXT + 'paths = ["a"]', "malformed"),
        (RULE_TEXT + 'paths = ["/a/../b"]', "rules[0].paths[0]: a dot segment never reaches a service"),
        (RULE_TEXT + 'methods = ["get"]', "malformed, expected GET or HEAD"),
        (RULE_TEXT + 'hosts = ["A"]', "malformed, expected a lower-case host name"),
        (RULE_TEXT + "arming_s = 1", "rules[0].arming_s: out of range, expected a number of seconds from 1.5 to 60"),
        (RULE_TEXT + "max_uses = 0", "rules[0].max_uses: out of range"),
        (RULE_TEXT + "max_uses = 2026-01-01", "rules[0].max_uses: it is a date or time, expected an integer"),
        ('[agents]\nA = { exe = "/x" }', "p0.toml:3: agents.A: malformed"),
        ('[agents]\nunidentified = { exe = "/x" }', "agents.unidentified: this is what programs are called"),
        ('[agents]\na = { exe = "bin/x" }', "agents.a.exe: malformed, expected an absolute path"),
        ("[agents]\na = {}", "agents.a.exe: missing"),
        ('[agents]\na = { exe = "/x", sha256 = "AB" }', "agents.a.sha256: malformed"),
        ("[limits]\nmax_uses = 0", "p0.toml:3: limits.max_uses: out of range"),
        ("[limits]\nnosuch = 0", "limits.nosuch: unknown key"),
        ("limits = 1", "limits: it is an integer, expected a table"),
        ("rules = 1", "rules: it is an integer, expected a list"),
        ("services = []", "services: it is a list, expected a table"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_file_line_key_and_what_was_expected(text: str, fault: str) -> None:
    assert [fault] == [fault for found in faults_of(text) if fault in found][:1]


@pytest.mark.parametrize("text", ["", "version = 2", 'version = "1"', "version = true", "version = 0"])
def test_a_file_says_the_version_of_its_format(text: str) -> None:
    with pytest.raises(PolicyError, match=r"p\.toml:1: version: "):
        load_policy([PolicyFile(name="p.toml", raw=text.encode())])


def test_all_faults_of_all_files_are_told_at_once() -> None:
    told = faults_of(
        '[[rules]]\nid = "a"\napproval = "noone"\n',
        '[services.x]\nkind = "ssh"\nbase_url = "ftp://a"\ncredental = "x"\n',
        "not toml at all",
    )

    assert ["p0.toml:4", "p1.toml:2", "p1.toml:4", "p1.toml:5", "p2.toml:2"] == [line.split(": ")[0] for line in told]


def test_a_name_stands_once_over_all_files() -> None:
    text = SHOP + AGENTS + RULE_TEXT + "[limits]\nmax_uses = 5\n"

    assert {
        'the service "shop" stands in p0.toml:4 already',
        'the agent "codex" stands in p0.toml:48 already',
        'the rule "a" stands in p0.toml:50 already',
        'the limit "max_uses" stands in p0.toml:53 already',
    } == {line.split(": ")[2].split(",")[0] for line in faults_of(text, text)}


def test_rules_may_name_what_another_file_defines() -> None:
    rule = RULE_TEXT + 'agents = ["codex"]\nservices = ["shop"]\noperations = ["orders.get"]\n'

    assert [] == faults_of(rule, AGENTS, SHOP)


def test_an_operation_is_looked_for_among_the_rules_own_services() -> None:
    other = '[services.other]\nkind = "http"\nbase_url = "https://other.example"\n'
    rule = '[[rules]]\nid = "a"\napproval = "session"\nservices = ["oth*"]\noperations = ["orders.get"]\n'

    assert ['there is no "orders.get"'] == [line.split(": ")[2].split(",")[0] for line in faults_of(SHOP, other, rule)]


def test_every_limit_has_its_range() -> None:
    assert set(_LIMIT_RANGES) == LIMITS == set(Limits.__dataclass_fields__)


SERVICE_TEXT = '[services.s]\nkind = "http"\nbase_url = "https://s.example"\n'
OPERATION_TEXT = (
    SERVICE_TEXT + '[services.s.operations.o]\neffect = "write"\nrequest = { method = "POST", path = "/" }\n'
)
TABLES = {
    "rules[0]": ('[[rules]]\nid = "zz"\napproval = "deny"\n', RULE),
    "agents.x": ('[agents.x]\nexe = "/x"\n', AGENT),
    "limits": ("[limits]\n", LIMITS),
    "services.s": (SERVICE_TEXT, SERVICE),
    "services.s.tls": (SERVICE_TEXT + "[services.s.tls]\n", TLS),
    "services.s.defaults": (SERVICE_TEXT + "[services.s.defaults]\n", SHARED),
    "services.s.operations.o": (OPERATION_TEXT, OPERATION),
    "services.s.operations.o.request": (
        SERVICE_TEXT + '[services.s.operations.o]\neffect = "write"\n[services.s.operations.o.request]\n', REQUEST,
    ),
    "services.s.operations.o.success": (OPERATION_TEXT + "[services.s.operations.o.success]\n", SUCCESS),
    "services.s.operations.o.response": (OPERATION_TEXT + "[services.s.operations.o.response]\n", RESPONSE),
    "services.s.operations.o.identity": (OPERATION_TEXT + "[services.s.operations.o.identity]\n", IDENTITY),
    "services.s.operations.o.errors[0]": (OPERATION_TEXT + "[[services.s.operations.o.errors]]\n", ERROR),
    "services.s.operations.o.rate_limit": (OPERATION_TEXT + "[services.s.operations.o.rate_limit]\n", RATE_LIMIT),
    "services.s.operations.o.rate_limit.delay[0]": (
        OPERATION_TEXT + "[[services.s.operations.o.rate_limit.delay]]\n", DELAY,
    ),
    "services.s.operations.o.idempotency": (OPERATION_TEXT + "[services.s.operations.o.idempotency]\n", IDEMPOTENCY),
    "services.s.operations.o.completeness": (
        OPERATION_TEXT + "[services.s.operations.o.completeness]\n", COMPLETENESS,
    ),
    "services.s.operations.o.limits": (OPERATION_TEXT + "[services.s.operations.o.limits]\n", OPERATION_LIMITS),
    **{
        f"services.s.operations.o.{block}": (OPERATION_TEXT + f"[services.s.operations.o.{block}]\n", keys)
        for block, keys in {
            "auth": AUTH,
            "redirect": REDIRECT,
            "gateway": GATEWAY,
            "pagination": PAGINATION,
            "pagination.end": PAGING_END,
            "pagination.end_error_when": PROVEN,
            "scope": SCOPE,
            "limits.deadlines": DEADLINES,
            "batch": BATCH,
            "batch.item_ok": PROVEN,
            "async": ASYNC,
        }.items()
    },
    **{
        f"services.s.operations.o.{block}[0]": (OPERATION_TEXT + f"[[services.s.operations.o.{block}]]\n", keys)
        for block, keys in {"warnings": WARNING, "completeness.incomplete_when": INCOMPLETE}.items()
    },
    "services.s.operations.o.reconcile": (OPERATION_TEXT + "[services.s.operations.o.reconcile]\n", RECONCILE),
    "services.s.operations.o.success.examples": (
        OPERATION_TEXT + '[services.s.operations.o.success]\nwhen = "status==`1`"\n'
        + "[services.s.operations.o.success.examples]\n",
        EXAMPLES,
    ),
    "services.s.operations.o.success.examples.match[0]": (
        OPERATION_TEXT + '[services.s.operations.o.success]\nwhen = "status==`1`"\n'
        + "[[services.s.operations.o.success.examples.match]]\n",
        EXAMPLE,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "key"),
    [(place, key) for place, (_, keys) in TABLES.items() for key in sorted(keys - {"review_by"})],  # which is a date
)
def test_no_key_is_ever_ignored(place: str, key: str) -> None:
    """Each known key is set to a date, which nothing expects: a reader that forgot the key would not complain."""
    text = "\n".join(line for line in TABLES[place][0].split("\n") if line.split(" = ")[0] != key)

    assert [True] == [any(f" {place}.{key}" in fault for fault in faults_of(text + f"{key} = 2026-11-29\n"))]
