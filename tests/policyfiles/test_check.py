"""`policy check`: faults fail it, warnings tell what loads and is unwise, each with its place."""

from datetime import date

import pytest

from broker.policyfiles import check as check_module
from broker.policyfiles.check import CheckReport, check, verified
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import load_policy
from tests.fakes.hosts import KNOWN_HOSTS, SERVICES
from tests.fakes.policies import SHOP, files_of

AGENTS = '[agents]\nnative = { exe = "/opt/native" }\nscripted = { exe = "/usr/bin/node", argv = "*/scripted" }\n'


def checked(text: str, bindings: dict[str, tuple[str, ...]] | None = None, service: str = SHOP) -> CheckReport:
    return check(files_of(service, text), bindings)


def rule(name: str, approval: str, rest: str = "") -> str:
    return f'[[rules]]\nid = "{name}"\napproval = "{approval}"\n{rest}\n'


def warned(text: str, bindings: dict[str, tuple[str, ...]] | None = None, service: str = SHOP) -> list[str]:
    report = checked(text, bindings, service)
    assert () == report.faults
    return [str(warning) for warning in report.warnings]


def test_a_policy_that_does_not_load_has_faults_and_no_warnings() -> None:
    report = checked("nosuch = 1")

    assert (None, 1, ()) == (report.policy, len(report.faults), report.warnings)


def test_a_wise_policy_has_nothing_to_tell() -> None:
    report = checked(
        rule("a", "session", 'effects = ["read"]') + rule("b", "per_call", 'effects = ["write"]'),
        {"shop": ("https://api.shop.example",)},
    )

    assert report.policy is not None
    assert ((), ()) == (report.faults, report.warnings)


@pytest.mark.parametrize("agents", ['"scripted"', '"s*"', '"native", "scripted"'])
def test_nobody_is_let_through_unasked_on_a_command_line_that_can_be_forged(agents: str) -> None:
    report = checked(AGENTS + rule("a", "none", f'agents = [{agents}]\noperations = ["orders.get"]'))

    (fault,) = report.faults
    assert str(fault) == (
        'p1.toml:5: rules.a: approval = "none" rests on the command line of scripted, which any process can forge, '
        "expected session or per_call, or agents known by executable alone"
    )


def test_a_forgeable_name_may_be_asked_about() -> None:
    asked = rule("a", "session", 'agents = ["scripted"]\neffects = ["read"]') + rule(
        "b", "per_call", 'effects = ["write"]'
    )

    assert [] == warned(AGENTS + asked)


def test_writes_opened_by_wildcard_are_told() -> None:
    told = "p1.toml:2: rules.a: it lets writes through unasked without naming them, expected operations by name"

    assert told in warned(rule("a", "none"))
    assert told in warned(rule("a", "none", 'operations = ["orders.*"]'))
    assert told not in warned(rule("a", "none", 'operations = ["orders.create"]'))
    assert told not in warned(rule("a", "none", 'effects = ["read"]'))


def test_a_rule_that_matches_nothing_is_told() -> None:
    assert ["p1.toml:6: rules.b: it matches nothing that the services declare or list in ad_hoc"] == warned(
        rule("a", "per_call") + rule("b", "deny", 'methods = ["PATCH"]')
    )


def test_a_rule_that_stricter_ones_always_cover_is_told() -> None:
    shadowed = "it never decides: stricter rules match wherever it does"

    assert [f"p1.toml:6: rules.b: {shadowed}"] == warned(
        rule("a", "per_call") + rule("b", "session", 'operations = ["orders.get"]')
    )
    assert [] == warned(rule("a", "per_call", 'paths = ["/orders/7"]') + rule("b", "session", 'effects = ["read"]'))
    assert [] == warned(
        AGENTS + rule("a", "per_call", 'agents = ["native"]') + rule("b", "session", 'effects = ["read"]')
    )


def test_where_shadows_would_take_for_ever_to_find_it_is_told_that_none_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check_module, "SHADOW_STEPS_MAX", 1)

    assert ["p1.toml:2: rules: it is not looked whether stricter rules leave some without effect"] == warned(
        rule("a", "per_call") + rule("b", "session", 'operations = ["orders.get"]')
    )


def test_an_agent_pattern_that_names_nobody_is_told() -> None:
    assert ['p1.toml:2: rules.a: no program in [agents] is called "claud-*"'] == [
        line for line in warned(rule("a", "session", 'agents = ["claud-*"]')) if "no program" in line
    ]


def test_a_service_without_a_rule_or_without_anything_to_ask_for_is_told() -> None:
    bare = SHOP + '[services.bare]\nkind = "http"\nbase_url = "https://bare.example"\n'

    assert ["p0.toml:4: services.shop: no rule names it, so everything is denied, expected a rule"] == warned("")
    assert ["p0.toml:47: services.bare: nothing can be asked for, expected operations, or methods in ad_hoc"] == [
        *warned(rule("a", "per_call"), service=bare)
    ]


def test_a_credential_over_plain_http_is_told() -> None:
    plain = SHOP.replace("https://api.shop.example/v1", "http://127.0.0.1:8080")

    assert ["p0.toml:4: services.shop.base_url: the credential travels unencrypted on this machine"] == warned(
        rule("a", "per_call"), service=plain
    )


def test_a_name_for_a_whole_interpreter_is_told() -> None:
    (told,) = warned('[agents]\nall = { exe = "/usr/bin/node" }\n' + rule("a", "per_call"))

    assert told.startswith("p1.toml:3: agents.all: it names every program that this interpreter runs, expected argv")


def test_a_path_that_any_file_may_bear_is_told_where_it_goes_unasked() -> None:
    agents = '[agents]\nany = { exe = "*/any" }\nsure = { exe = "*/sure", sha256 = "' + "a" * 64 + '" }\n'
    unasked = rule("a", "none", 'agents = ["*"]\neffects = ["read"]')

    (told,) = warned(agents + unasked)
    assert told.startswith('p1.toml:3: agents.any: rules with approval = "none" trust it, and any file may bear')
    assert [] == warned(agents + rule("a", "per_call"))


ORIGIN = "--origin https://api.shop.example/v1"


@pytest.mark.parametrize(
    ("bindings", "told"),
    [
        (None, []),
        ({"shop": ("https://api.shop.example",)}, []),
        ({"shop": ("https://other.example", "https://api.shop.example/v1")}, []),
        ({}, [f"the vault holds no such credential, expected doorward credential add shop {ORIGIN}"]),
        ({"shop": ()}, [f"its bindings don't cover base_url, expected doorward credential rebind shop {ORIGIN}"]),
        ({"shop": ("https://api.shop.example/v2",)}, ["its bindings don't cover base_url"]),
        ({"shop": ("http://api.shop.example",)}, ["its bindings don't cover base_url"]),
        ({"shop": ("nonsense",)}, ["its bindings don't cover base_url"]),
    ],
)
def test_a_credential_that_can_not_be_used_is_told(
    bindings: dict[str, tuple[str, ...]] | None, told: list[str]
) -> None:
    found = warned(rule("a", "per_call"), bindings)

    assert len(told) == len(found)
    assert all(text in line for text, line in zip(told, found, strict=True))


def test_a_service_without_a_credential_needs_no_binding() -> None:
    assert [] == warned(rule("a", "per_call"), {}, service=SHOP.replace('credential = "shop"\n', ""))


NOTICE = """
[[services.shop.operations."orders.list".warnings]]
when = "json.note!=`null`"
code = "PROVIDER_NOTICE"
owner = "ops"
review_by = 2027-01-31
examples.match = [{ status = 200, json = { note = 1 } }]
examples.no_match = [{ status = 200 }]
"""


@pytest.mark.parametrize(("today", "overdue"), [(date(2027, 1, 31), False), (date(2027, 2, 1), True)])
def test_a_warning_that_was_to_be_looked_at_again_is_named(today: date, overdue: bool) -> None:  # noqa: FBT001 - a verdict
    text = rule("a", "per_call") + NOTICE
    report = check(files_of(SHOP + text), {"shop": ("https://api.shop.example",)}, today=today)
    found = [str(warning) for warning in report.warnings if "looked at again" in str(warning)]

    assert overdue is (len(found) == 1)
    assert not overdue or "PROVIDER_NOTICE was to be looked at again by ops until 2027-01-31" in found[0]


def test_writes_of_a_session_that_are_not_named_are_told() -> None:
    told = (
        "p1.toml:2: rules.a: one yes lets up to 200 writes through that it does not name, "
        "expected operations by name, or per_call"
    )

    assert told in warned(rule("a", "session"))
    assert told in warned(rule("a", "session", 'operations = ["orders.*"]'))
    assert told not in warned(rule("a", "session", 'operations = ["orders.create"]'))
    assert told not in warned(rule("a", "session", 'effects = ["read"]'))
    assert told not in warned(rule("a", "per_call"))


def test_a_denial_that_a_process_can_escape_by_its_command_line_is_told() -> None:
    told = (
        "p1.toml:5: rules.a: scripted can escape it by another command line, "
        "expected unidentified among its agents, or no agents"
    )
    asked = rule("b", "per_call")

    assert told in warned(AGENTS + rule("a", "deny", 'agents = ["scripted"]') + asked)
    assert told in warned(AGENTS + rule("a", "deny", 'agents = ["s*", "native"]') + asked)
    for agents in ('["*"]', '["native"]'):
        assert told not in warned(AGENTS + rule("a", "deny", f"agents = {agents}") + asked)
    assert told not in warned(AGENTS + rule("a", "per_call", 'agents = ["scripted"]') + asked)


@pytest.mark.parametrize(
    ("commands", "is_told"),
    [('["df *"]\noptions = true', True), ('["df -h"]\noptions = true', False), ('["df *"]', False)],
)
def test_commands_that_go_unasked_with_any_option_are_told(commands: str, is_told: bool) -> None:  # noqa: FBT001 - a verdict
    files = [
        PolicyFile(
            name="web.toml",
            raw=(SERVICES + rule("a", "none", f'operations = ["exec"]\ncommands = {commands}')).encode(),
        ),
        PolicyFile(name="web.known_hosts", raw=KNOWN_HOSTS.encode()),
    ]
    told = [str(warning) for warning in check(files, None).warnings]

    assert is_told == any("rules.a: it lets commands through unasked with any option" in line for line in told)


def test_rules_at_other_hours_shadow_nothing() -> None:
    night = rule("night", "deny", 'hours = ["22:00-06:00"]')
    shadowed = "it never decides: stricter rules match wherever it does"

    assert not any(shadowed in line for line in warned(night + rule("a", "session", 'effects = ["read"]')))
    both = 'effects = ["read"]\nhours = ["22:00-06:00"]'
    assert any(f"rules.a: {shadowed}" in line for line in warned(night + rule("a", "session", both)))


def test_too_many_ways_to_compare_leave_a_rule_without_a_verdict() -> None:
    names = [f"/**/{chr(97 + number)}/**" for number in range(26)]
    text = rule("a", "session", f'operations = ["GET"]\npaths = {names}') + rule("b", "deny", f"paths = {names[:25]}")

    assert not any("rules.a: it never decides" in line for line in warned(text))


def test_what_may_be_in_force_has_no_fault_that_a_check_finds() -> None:
    files = files_of(SHOP, AGENTS + rule("a", "none", 'agents = ["scripted"]'))

    assert load_policy(files).rules
    with pytest.raises(PolicyError, match="rests on the command line of scripted"):
        verified(files)
    assert verified(files_of(SHOP, rule("a", "per_call"))).rules
