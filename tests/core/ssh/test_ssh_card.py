"""What a card, a grant and the ledger say of an SSH request."""

import shlex
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from broker.contract.reasons import ApprovalRule, Category, RemoteEffect, Retry
from broker.contract.schemas import schema
from broker.core.card import SessionFacts, Setting, draw, typed_word
from broker.core.grants import scope_of
from broker.core.ledger import Doubt, attempt_of, change_key, in_doubt
from broker.core.policy.evaluate import evaluate
from broker.core.policy.model import Ask, Limits, Policy, Rule
from broker.core.ssh.card import ssh_part
from broker.core.ssh.change import program_of
from broker.core.ssh.frozen import LookUp, described
from broker.core.ssh.look_up_words import in_words
from broker.core.ssh.recall import KEY, look_ups, recalled, remembered
from broker.core.ssh.resolve import SshAsk
from broker.core.ssh.trust import HostKey, KeyState, declared_key
from tests.fakes import market
from tests.fakes.hosts import (
    KEY_LINE,
    PIN,
    POLICY,
    RULES,
    SEEN,
    SERVICES,
    STORE,
    command,
    frozen,
    get,
    operation,
    put,
    ssh_policy,
    words,
)

SETTING = Setting(
    approval_id="ap_0123456789ab",
    correlation_id="op_" + "0" * 44,
    log_id="log-1",
    vault_term=3,
    policy_digest=market.DIGEST,
    credential_version=2,
    created_at_ms=1_000_000,
    limits=Limits(),
)
NEW = HostKey(state=KeyState.UNVERIFIED, seen=SEEN)


def drawn(ask: SshAsk, key: HostKey | None = None, doubts: tuple[Doubt, ...] = ()) -> dict[str, Any]:
    request = frozen(ask)
    decision = evaluate(POLICY, market.agent(), request)
    assert isinstance(decision, Ask), decision
    session = SessionFacts(id="se_1", opened_at_ms=1, calls=1, denied=0, label=None)
    card = draw(
        setting=SETTING,
        caller=market.agent(),
        session=session,
        frozen=request,
        ask=decision,
        says=None,
        doubts=doubts,
        host_key=key,
    )
    faults = [fault.message for fault in jsonschema_rs.validator_for(schema("card"), offline=True).iter_errors(card)]
    assert [] == faults
    return dict(card)


def test_a_card_shows_the_whole_command_where_it_goes_and_what_it_leaves() -> None:
    card = drawn(operation("restart", unit="php"), HostKey(state=KeyState.KNOWN_HOSTS))

    assert ("systemctl restart php", "web-1", "web-1.example", 22, "deploy", "required", "exec") == tuple(
        card["ssh"][name] for name in ("what", "host", "address", "port", "user", "marker", "action")
    )
    assert {"state": "known_hosts", "algorithm": None, "fingerprint": None} == card["ssh"]["host_key"]
    assert {"method": "SSH", "url": "deploy@web-1.example:22", "plain_http": False} == card["target"]
    assert ("RUN", "php anew", None, []) == (
        card["summary"]["effect"], card["summary"]["identifies"], card["typed_word"], card["exact"]["headers"],
    )  # fmt: skip
    assert "this command, once, on web-1 as deploy" == card["yes"]["once"]


def test_a_key_that_nobody_has_seen_asks_for_the_hosts_name_and_offers_no_session() -> None:
    card = drawn(command("uptime", host="web/new-1"), NEW)

    assert ("new-1", PIN) == (card["typed_word"], card["ssh"]["host_key"]["fingerprint"])
    assert (False, "the host's key is new") == (card["yes"]["session"]["offered"], card["yes"]["session"]["why_not"])
    assert card["yes"]["once"].startswith("trusting this key for new-1 from now on, and this command, once.")


def test_a_session_covers_this_very_command_and_says_so() -> None:
    card = drawn(command("uptime"))

    assert (True, "this very command, on web-1 as deploy, again") == (
        card["yes"]["session"]["offered"], card["yes"]["session"]["what"],
    )  # fmt: skip
    assert None is card["ssh"]["host_key"]


def test_the_input_of_a_command_and_the_content_of_a_file_are_the_body() -> None:
    fed, sent = drawn(command("uptime", stdin=b"yes\n")), drawn(put("/etc/nginx/a", b"\xff\0"))

    assert ("yes\n", 4, None) == (fed["body"]["text"], fed["body"]["bytes"], fed["body"]["media"])
    assert "put /a (2 bytes, mode 4755)" == described(frozen(put("/a", mode=0o4755)).action), "a yes covers it"
    assert (None, 2, "put", "put /etc/nginx/a (2 bytes)") == (
        sent["body"]["text"], sent["body"]["bytes"], sent["ssh"]["action"], sent["ssh"]["what"],
    )  # fmt: skip
    assert ("WRITE", "off", None) == (sent["summary"]["effect"], sent["ssh"]["marker"], sent["ssh"]["argv"])


def test_the_last_word_of_the_target_is_typed_for_what_destroys() -> None:
    assert "blog" == typed_word(frozen(operation("wipe", site="blog")), in_doubt=False)
    assert "uptime" == typed_word(frozen(command("uptime")), in_doubt=True)


def test_a_card_names_the_hosts_that_lead_there() -> None:
    request = frozen(command("uptime"))
    hop = replace(request.host, name="gate", address="10.0.0.1", port=2222, user="jump")

    said = ssh_part(replace(request, host=replace(request.host, jump=(hop,))), NEW)

    assert ["jump@10.0.0.1:2222"] == said["jump"]


def test_hops_are_named_and_an_address_of_six_has_brackets() -> None:
    request = frozen(operation("restart", host="web/web-2", unit="a"))
    six = replace(request, host=replace(request.host, address="2001:db8::1"))

    assert ("ssh://deploy@bastion.example:22", "ssh://root@10.0.4.14:2222") == request.bound_urls
    assert "ssh://root@[2001:db8::1]:2222" == six.bound_urls[-1]
    assert "root@web-2: systemctl restart a" == request.summary == request.target
    assert 120.0 == request.total_s


def test_actions_in_words() -> None:
    assert ["get /a", "look up op_1", "uptime"] == [
        described(frozen(get("/a")).action), described(LookUp(operation_id="op_1")), frozen(command("uptime")).subject,
    ]  # fmt: skip
    asked = LookUp(operation_id="op_1", since=STORE)
    assert {"kind": "look_up", "operation_id": "op_1", "detached": False} == asked.to_json()
    assert frozen(command("echo " + "x" * 300)).summary.endswith("… +305")


RULE = Rule(id="plain", approval=ApprovalRule.SESSION, per="service", place=market.PLACE)


@pytest.mark.parametrize(
    "other",
    [
        command("uptime "),
        words("uptime", "-p"),
        command("uptime", stdin=b"x"),
        command("uptime", host="web/web-2"),
        command("uptime", host="web/bastion"),
        put("/a"),
    ],
)
def test_no_yes_covers_another_command_host_or_user(other: SshAsk) -> None:
    """T03: whatever the rule's own scope is."""
    mine = scope_of(RULE, frozen(command("uptime")))

    assert mine == scope_of(RULE, frozen(command("uptime")))
    assert mine != scope_of(RULE, frozen(other))


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("systemctl restart nginx", "systemctl"),
        ("/usr/bin/systemctl restart x", "systemctl"),
        ("sudo -n systemctl stop", "systemctl"),
        ("nice -n 5 env A=b tar xf", "tar"),
        ("env B+=2 touch x", "touch"),
        ("sudo -nu root touch x", "touch"),
        ("sudo --user root -- touch x", "touch"),
        ("timeout -s KILL 5 touch x", "touch"),
        ("exec -a other touch x", "touch"),
        ("sudo", ""),
        ("env -S 'touch x'", ""),
        ("env --split-string=touch x", ""),
        ("env -S", ""),
        ("env --chdir=/x -- touch x", "touch"),
        ("'touch x'", ""),
        ("sh -c 'touch x'", ""),
        ("/usr/bin/python3.11 x.py", ""),
        (". x", ""),
        ("dir/", ""),
        ("", ""),
    ],
)
def test_the_program_of_a_command_is_told_behind_what_only_runs_it(text: str, program: str) -> None:
    assert program == program_of(shlex.split(text))


def test_changes_are_told_apart_by_host_user_and_program_or_operation() -> None:
    """T36: another spelling of the same is the same change."""
    keys = [change_key(frozen(command(text))) for text in ("systemctl a", "/bin/systemctl b", "sudo systemctl  c")]
    declared = [change_key(frozen(operation("restart", unit=unit))) for unit in ("a", "a", "b")]
    files = [change_key(frozen(put(path))) for path in ("/a", "/b")]
    other = change_key(frozen(command("systemctl a", host="web/web-2")))

    assert 1 == len(set(keys))
    assert declared[0] == declared[1] != declared[2]
    assert 2 + 2 + 1 + 1 == len({*keys, *declared, *files, other})
    assert [None, None] == [change_key(frozen(ask)) for ask in (get("/a"), operation("status", unit="x"))]


def attempted(ask: SshAsk, *, since: bool = True) -> dict[str, Any]:
    attempt = attempt_of(
        frozen(ask),
        correlation_id="op_1",
        request_id=None,
        caller=market.agent(),
        session_id="se_1",
        now_ms=5,
        since=STORE if since else None,
    )
    return dict(attempt.args)


def ways(args: dict[str, Any], name: str, policy: Policy = POLICY) -> list[dict[str, Any]]:
    found = look_ups(policy, args, service="web", operation=name, correlation_id="op_1")
    return [dict(way.action.to_json()) for way in found]


def test_an_attempt_is_looked_up_by_its_marker_on_its_own_host() -> None:
    args = attempted(operation("restart", unit="a"))
    (way,) = look_ups(POLICY, args, service="web", operation="restart", correlation_id="op_1")

    assert ({"unit": "a"}, LookUp(operation_id="op_1", since=STORE)) == (
        {name: value for name, value in args.items() if name != KEY}, way.action,
    )  # fmt: skip
    assert "look_up" == ways(attempted(command("touch x"), since=False), "exec")[0]["kind"]


def test_a_declared_command_is_the_second_way_and_a_file_is_compared() -> None:
    kinds = ways(attempted(operation("wipe", site="my blog")), "wipe")

    assert ["look_up", "exec"] == [one["kind"] for one in kinds]
    assert "test -d '/srv/my blog'" == kinds[1]["text"]
    assert [{"kind": "get", "path": "/a"}] == ways(attempted(put("/a")), "put")
    assert [] == ways(attempted(get("/a")), "get")


def test_a_look_up_says_what_it_would_look_at() -> None:
    marker, declared = look_ups(
        POLICY, attempted(operation("wipe", site="a")), service="web", operation="wipe", correlation_id="op_1"
    )
    (file,) = look_ups(POLICY, attempted(put("/a")), service="web", operation="put", correlation_id="op_1")

    assert "the command's marker on web-1" == in_words(marker)
    assert "the declared look-up command on web-1" == in_words(declared)
    assert "the file /a on web-1, by its digest" == in_words(file)


def test_where_the_host_is_not_what_it_was_nothing_is_looked_up() -> None:
    args = attempted(operation("restart", unit="a"))
    moved = ssh_policy((SERVICES + RULES).replace('address = "web-1.example"', 'address = "other.example"'))
    without = ssh_policy(
        'version = 1\n[services.web]\nkind = "ssh"\nhosts = { x = { user = "u", host_keys = "accept-new" } }\n'
    )

    assert [[], [], []] == [ways(args, "restart", policy) for policy in (moved, without, market.POLICY)]
    assert None is recalled({})


def test_a_host_without_markers_is_asked_by_the_declared_command_alone() -> None:
    bare = ssh_policy((SERVICES + RULES).replace('marker = "required"', 'marker = "off"').replace("detach = true", ""))
    args = dict(remembered(frozen(operation("wipe", site="a"), bare), None))
    elsewhere = ssh_policy((SERVICES + RULES).replace('hosts = ["web-1"]', 'hosts = ["web-2"]'))

    assert ["exec"] == [one["kind"] for one in ways(args, "wipe", bare)]
    assert ["look_up"] == [one["kind"] for one in ways(attempted(operation("wipe", site="a")), "wipe", elsewhere)]


def test_a_look_up_leaves_nothing_in_doubt() -> None:
    request = replace(frozen(operation("restart", unit="a")), is_look_up=True)

    assert not in_doubt(request, Category.OUTCOME_UNKNOWN, RemoteEffect.UNKNOWN, Retry.AFTER_HUMAN)
    assert None is change_key(request)


def test_what_is_known_of_a_key_before_anybody_asks_the_host() -> None:
    def state(name: str, accepted: tuple[str, ...] = ()) -> KeyState | None:
        settings = POLICY.services["web"].ssh
        assert settings is not None
        key = declared_key(settings.hosts[name], accepted)
        return None if key is None else key.state

    assert [KeyState.KNOWN_HOSTS, KeyState.PINNED, None, KeyState.ACCEPTED] == [
        state("web-1"), state("web-2"), state("new-1"), state("new-1", (KEY_LINE,)),
    ]  # fmt: skip
