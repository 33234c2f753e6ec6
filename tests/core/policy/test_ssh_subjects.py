"""What rules could open on hosts, and what an edit changes there: nothing that it loosens is missed."""

import pytest

from broker.core.policy.diff import compared
from broker.core.policy.model import Policy
from broker.core.policy.overview import could_open
from broker.core.policy.subjects import SHELL, Subject, shown, subjects_of, ways_of
from broker.core.policy.ways import FRESH
from broker.policyfiles.check import check
from broker.policyfiles.files import PolicyFile
from broker.server.reach import by_service
from tests.fakes.hosts import KEY_LINE, KNOWN_HOSTS, POLICY, RULES, SERVICES, ssh_policy

RULE = '[[rules]]\nid = "{name}"\nservices = ["web"]\napproval = "none"\n{more}\n'


def told(old: Policy, new: Policy) -> set[tuple[str, str, str, str]]:
    return {(change.direction, change.subject, change.was, change.becomes) for change in compared(old, new).changes}


def subject(name: str, host: str = "web-1") -> Subject:
    (found,) = [
        one
        for one in subjects_of(POLICY.services["web"])
        if one.name == name and one.host is not None and one.host.name == host
    ]
    return found


def test_each_action_on_each_host_that_it_is_for_is_a_subject() -> None:
    names = [(one.name, one.host.name) for one in subjects_of(POLICY.services["web"]) if one.host is not None]

    assert [("wipe", "web-1")] == [pair for pair in names if pair[0] == "wipe"]
    assert 4 == len([pair for pair in names if pair[0] == "exec"])
    assert len(set(names)) == len(names)


def test_ways_of_a_command_meet_the_rules_for_commands_and_files_those_for_paths() -> None:
    exec_, put, wipe = subject("exec"), subject("put"), subject("wipe")
    ways = {shown(exec_, way) for way in ways_of(exec_, POLICY.rules).ways}

    assert {"uptime", "touch *", "touch /forbidden", "the shell text echo a; echo b", "the shell text *"} <= ways
    assert {"/etc/nginx", "/~/notes/*"} <= {shown(put, way) for way in ways_of(put, POLICY.rules).ways}
    assert {"rm -rf *"} == {shown(wipe, way) for way in ways_of(wipe, POLICY.rules).ways}
    assert (SHELL, FRESH) in ways_of(exec_, POLICY.rules).ways


def test_a_looser_rule_for_commands_is_told_with_its_host() -> None:
    new = ssh_policy(SERVICES + RULES + RULE.format(name="z", more='operations = ["exec"]\ncommands = ["id **"]'))

    assert ("loosens", "any RUN web exec on web-2 id", "denied", "no asking") in told(POLICY, new)
    assert ("tightens", "any RUN web exec on web-2 id", "no asking", "denied") in told(new, POLICY)


def test_a_rule_that_takes_input_is_told_as_looser() -> None:
    rule = RULE.format(name="z", more='operations = ["exec"]\ncommands = ["id **"]')
    was, new = ssh_policy(SERVICES + RULES + rule), ssh_policy(SERVICES + RULES + rule + "\ninput = true\n")

    assert ("loosens", "any RUN web exec on web-2 id, with input", "denied", "no asking") in told(was, new)
    assert "loosens" not in {direction for direction, *_ in told(new, was)}


def test_an_operation_that_takes_input_is_read_in_another_way() -> None:
    new = ssh_policy(SERVICES.replace('effect = "read"', 'effect = "read"\ninput = true') + RULES)

    assert ("loosens", "operation web status") in {change[:2] for change in told(POLICY, new)}


@pytest.mark.parametrize(
    ("services", "known_hosts"),
    [
        (SERVICES, KNOWN_HOSTS + f"web-9 {KEY_LINE}\n"),
        (SERVICES.replace('host_keys = "accept-new"\n', f'host_keys = "pinned:SHA256:{"B" * 43}"\n', 1), KNOWN_HOSTS),
        (SERVICES.replace('marker = "preferred"', 'marker = "off"'), KNOWN_HOSTS),
        (SERVICES.replace('jump = "bastion"', "jump = []"), KNOWN_HOSTS),
    ],
)  # fmt: skip
def test_other_trust_in_a_host_is_told(services: str, known_hosts: str) -> None:
    changes = told(POLICY, ssh_policy(services + RULES, known_hosts))

    assert ("loosens", "service web") in {change[:2] for change in changes}


def test_another_user_or_address_is_a_new_reach() -> None:
    other = ssh_policy(SERVICES.replace('address = "web-1.example"', 'address = "10.0.4.99"') + RULES)

    assert ("new_reach", "service web", "no host", "host ssh://deploy@10.0.4.99:22") in told(POLICY, other)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('"/srv/{site}"]\neffect = "write"', '"/srv/www/{site}"]\neffect = "write"'),
        ("success_when = \"exit_code==`0` && stderr==''\"\n", ""),
        ('change_key = ["unit"]\n', ""),
        ("delay_s = 60", "delay_s = 61"),
    ],
)
def test_an_operation_that_is_read_in_another_way_is_told(was: str, becomes: str) -> None:
    assert was in SERVICES
    other = ssh_policy(SERVICES.replace(was, becomes) + RULES)

    assert any("loosens" == change[0] and "web" in change[1] for change in told(POLICY, other))


def test_the_listing_has_each_host_with_what_it_takes_and_each_operation_once() -> None:
    (web,) = by_service(could_open(POLICY, "any"))
    assert isinstance(web, dict)
    operations, hosts = web["operations"], web["hosts"]
    assert isinstance(operations, list)
    assert isinstance(hosts, list)

    by_name = {one["operation"]: one for one in operations if isinstance(one, dict)}
    assert len(by_name) == len(operations)
    wipe, restart = by_name["wipe"], by_name["restart"]
    assert (["web-1"], ["site"]) == (wipe["hosts"], wipe["parameters"])
    assert ["bastion", "new-1", "web-1", "web-2"] == restart["hosts"]
    assert {"host": "web-2", "user": "root", "ad_hoc": ["exec", "put", "get"]} in hosts
    assert "10.0.4.14" not in str(web)


def warnings(rules: str, bindings: dict[str, list[str]] | None = None) -> list[str]:
    files = [
        PolicyFile(name="web.toml", raw=(SERVICES + rules).encode()),
        PolicyFile(name="web.known_hosts", raw=KNOWN_HOSTS.encode()),
    ]
    report = check(files, bindings)
    assert () == report.faults
    return [str(fault) for fault in report.warnings]


def test_what_loads_and_is_unwise_is_told() -> None:
    found = warnings(RULE.format(name="wild", more=""))

    assert any("rules.wild: it lets writes through unasked" in line for line in found)
    assert any("hosts.new-1" in line or "new-1" in line for line in found), "a first contact"
    assert any("rules.gone: it matches nothing" in line for line in warnings(
        RULE.format(name="gone", more='operations = ["exec"]\nhosts = ["web-9"]')
    ))  # fmt: skip


def test_a_credential_that_is_not_bound_for_a_host_is_told() -> None:
    found = warnings(RULES, {"deploy": ["ssh://deploy@web-1.example:22"]})

    assert any("deploy" in line and "10.0.4.14" in line for line in found), found
    assert not any("deploy@web-1.example" in line for line in found)
