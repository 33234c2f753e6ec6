"""Services of kind ssh: read whole, and every slip in them told."""

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect, Retry
from broker.core.policy.model import Policy
from broker.core.ssh.model import HostKeyMode, MarkerMode, SshHost, SshOperation
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import load_policy
from tests.fakes.hosts import KEY_LINE, KNOWN_HOSTS, POLICY, ssh_policy

HOSTS = 'hosts = { "a" = { user = "u", host_keys = "accept-new" } }\n'
HEAD = '[services.s]\nkind = "ssh"\n'
OPERATION = '[services.s.operations.o]\ncommand = ["run", "{x}"]\neffect = "exec"\n'
RULE = (
    '[[services.s.operations.o.exit_map]]\nwhen = "exit_code==`3`"\n{more}\n'
    "examples.match = [{{ exit_code = 3 }}]\nexamples.no_match = [{{ exit_code = 4 }}]\n"
)


def host(name: str, service: str = "web") -> SshHost:
    settings = POLICY.services[service].ssh
    assert settings is not None
    return settings.hosts[name]


def operation(name: str, policy: Policy = POLICY, service: str = "web") -> SshOperation:
    settings = policy.services[service].ssh
    assert settings is not None
    return settings.operations[name]


def faults(text: str, known_hosts: str | bytes = "") -> list[str]:
    raw = known_hosts if isinstance(known_hosts, bytes) else known_hosts.encode()
    with pytest.raises(PolicyError) as fault:
        load_policy(
            [
                PolicyFile(name="p.toml", raw=f"version = 1\n{text}".encode()),
                PolicyFile(name="web.known_hosts", raw=raw),
            ]
        )
    return [str(one) for one in fault.value.faults]


def test_hosts_are_read_with_what_they_inherit() -> None:
    first, second, bastion = host("web-1"), host("web-2"), host("bastion")

    assert ("web-1.example", 22, "deploy", HostKeyMode.STRICT, KNOWN_HOSTS, (), MarkerMode.REQUIRED) == (
        first.address, first.port, first.user, first.trust.mode, first.trust.known_hosts, first.jump, first.marker,
    )  # fmt: skip
    assert ("10.0.4.14", 2222, "root", HostKeyMode.PINNED, (bastion,), MarkerMode.PREFERRED) == (
        second.address, second.port, second.user, second.trust.mode, second.jump, second.marker,
    )  # fmt: skip
    assert ("SHA256:" + "A" * 43,) == second.trust.pins
    assert MarkerMode.OFF is host("web-1", "lab").marker
    assert ("ssh://deploy@bastion.example:22", "ssh://deploy@new-1.example:22") == POLICY.services["web"].places[:2]


def test_a_service_wide_jump_is_not_taken_by_the_jump_itself() -> None:
    policy = ssh_policy(
        'version = 1\n[services.s]\nkind = "ssh"\nuser = "u"\nknown_hosts = "web.known_hosts"\njump = ["b"]\n'
        'hosts = { "a" = {}, "b" = {}, "c" = { jump = [] }, "6" = { address = "2001:db8::1" } }\n'
    )
    settings = policy.services["s"].ssh
    assert settings is not None

    assert {"a": ["b"], "b": [], "c": [], "6": ["b"]} == {
        name: [hop.name for hop in one.jump] for name, one in settings.hosts.items()
    }
    assert "ssh://u@[2001:db8::1]:22" == settings.hosts["6"].url


def test_operations_are_read_whole() -> None:
    restart, wipe, wait = operation("restart"), operation("wipe"), operation("wait")

    assert (("systemctl", "restart", "{unit}"), Effect.EXEC, ("unit",), ("unit",), ("unit",), "{unit} anew", 4096) == (
        restart.command, restart.effect, restart.required, restart.targets, restart.change_key, restart.title,
        restart.max_bytes,
    )  # fmt: skip
    assert (True, True, ("web-1",), ("test", "-d", "/srv/{site}"), MarkerMode.REQUIRED) == (
        wipe.destructive, wipe.detach, wipe.hosts, wipe.reconcile_command, wipe.marker,
    )  # fmt: skip
    (rule,) = wait.exit_map
    assert (Category.CONFIRMED_FAILURE, Retry.AFTER_DELAY, RemoteEffect.NONE, 60) == (
        rule.category, rule.retry, rule.remote_effect, rule.delay_s,
    )  # fmt: skip
    assert wait.success_when is not None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "services.s.hosts: missing"),
        ('hosts = { "A" = {} }', "services.s.hosts.A: malformed"),
        ('hosts = { "a" = {} }', "services.s.hosts.a.user: missing, expected the user to log in as"),
        ('user = "a b"\nhosts = { "a" = {} }', "services.s.user: malformed"),
        ('user = "u"\nhosts = { "a" = {} }', "services.s.hosts.a.host_keys: nothing says which key the host has"),
        ('user = "u"\nhosts = { "a" = { address = "a b" } }', "address: malformed"),
        ('user = "u"\nhosts = { "a" = { address = "127.1" } }', "address: the address is not acceptable"),
        ('user = "u"\nhosts = { "a_b" = {} }', "services.s.hosts.a_b: the address is not acceptable"),
        ('user = "u"\nport = 0\nhosts = { "a" = {} }', "services.s.port: out of range"),
        ('user = "u"\nhost_keys = "any"\nhosts = { "a" = {} }', "services.s.host_keys: not one of the ways"),
        ('user = "u"\nhost_keys = "pinned:x"\nhosts = { "a" = {} }', "services.s.host_keys: not a fingerprint"),
        ('user = "u"\nhost_keys = []\nhosts = { "a" = {} }', "services.s.host_keys: not one of the ways"),
        ('user = "u"\nhost_keys = [1]\nhosts = { "a" = {} }', "services.s.host_keys: not one of the ways"),
        ('user = "u"\nknown_hosts = "x"\nhosts = { "a" = {} }', "services.s.known_hosts: malformed"),
        ('user = "u"\nknown_hosts = "x.known_hosts"\nhosts = { "a" = {} }', "there is no such file beside"),
        (HOSTS + 'ad_hoc = ["run"]', "services.s.ad_hoc[0]: malformed, expected exec or put or get"),
        (HOSTS + 'marker = "maybe"', "services.s.marker: not one of the values"),
        (HOSTS + 'base_url = "https://a.example"', "services.s.base_url: means nothing in a service of kind ssh"),
        (HOSTS + 'nosuch = "x"', "services.s.nosuch: unknown key"),
        ('user = "u"\njump = "b"\nhosts = { "a" = { host_keys = "accept-new" } }', "hosts.a: not a way to this host"),
        (
            'user = "u"\nhost_keys = "accept-new"\nhosts = { "a" = { jump = "b" }, "b" = {} }',
            "hosts.a.jump: a first contact through other hosts would log in there",
        ),
        ('user = "u"\nhosts = { "a" = { host_keys = "accept-new", jump = "a" } }', "hosts.a.jump: not a way"),
    ],
)
def test_a_service_at_fault_is_told_where(text: str, told: str) -> None:
    assert any(told in line for line in faults(HEAD + text)), faults(HEAD + text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[services.s.operations.exec]\ncommand = ["a"]\neffect = "exec"', "operations.exec: this is what actions"),
        ('[services.s.operations.o]\neffect = "exec"', "operations.o.command: missing"),
        ('[services.s.operations.o]\ncommand = []\neffect = "exec"', "operations.o.command: not a command"),
        ('[services.s.operations.o]\ncommand = 7\neffect = "exec"', "operations.o.command: not a command"),
        ('[services.s.operations.o]\ncommand = ["a", 1]\neffect = "exec"', "a word is no text"),
        ('[services.s.operations.o]\ncommand = ["a", "{B}"]\neffect = "exec"', "a brace that is no {argument}"),
        ('[services.s.operations.o]\ncommand = ["{a}"]\neffect = "exec"', "what is run is not for an argument"),
        ('[services.s.operations.o]\ncommand = ["a"]\neffect = "run"', "operations.o.effect: not one of"),
        ('[services.s.operations.o]\ncommand = ["a"]\neffect = "read"\ndestructive = true', "a read destroys nothing"),
        (OPERATION + 'title = "{y}"', 'title: the command has no argument "y"'),
        (OPERATION + 'targets = ["y"]', 'targets: there is no "y"'),
        (OPERATION + 'change_key = ["y"]', 'change_key: there is no "y"'),
        (OPERATION + 'hosts = ["b"]', 'hosts: there is no "b"'),
        (OPERATION + 'reconcile_command = ["t", "{y}"]', "reconcile_command: the command has no such argument"),
        (OPERATION + "max_bytes = 0", "max_bytes: out of range"),
        (OPERATION + 'success_when = "!a.b"', "success_when"),
        (OPERATION + 'pipeline = "yes"', "pipeline: not one of the values"),
        (
            OPERATION + '[services.s.operations.p]\ncommand = ["run", "{z}"]\neffect = "exec"',
            'operations.p.command: the same commands fit the operation "o"',
        ),
        (OPERATION + RULE.format(more='category = "vault_locked"'), "category: not one of the values"),
        (OPERATION + RULE.format(more='category = "partial"\ncode = "ok"'), "code: not one of the category's codes"),
        (OPERATION + RULE.format(more='category = "partial"\ndelay_s = 3'), "delay_s: means nothing"),
        (OPERATION + RULE.format(more='category = "partial"\nretry = "bounded"'), "a change be made again while"),
        (
            OPERATION
            + '[[services.s.operations.o.exit_map]]\nwhen = "exit_code==`3`"\ncategory = "partial"\n'
            + "examples.match = [{ exit_code = 4 }]\nexamples.no_match = [{ exit_code = -1 }]\n",
            "when does not match it",
        ),
        (
            OPERATION + '[[services.s.operations.o.exit_map]]\ncategory = "partial"\n',
            "exit_map[0].when: missing, expected a predicate over exit_code, stdout",
        ),
    ],
)
def test_an_operation_at_fault_is_told_where(text: str, told: str) -> None:
    assert any(told in line for line in faults(HEAD + HOSTS + text)), faults(HEAD + HOSTS + text)


@pytest.mark.parametrize("known_hosts", ["web-1.example ssh-ed25519 nonsense\n", b"\xff"])
def test_a_known_hosts_file_that_can_not_be_read_is_told(known_hosts: str | bytes) -> None:
    text = HEAD + 'user = "u"\nknown_hosts = "web.known_hosts"\nhosts = { "a" = {} }\n'

    assert [] != faults(text, known_hosts)


def test_a_file_of_another_directory_is_not_taken() -> None:
    text = HEAD.replace("services.s", "services.s") + 'user = "u"\nknown_hosts = "web.known_hosts"\nhosts.a = {}\n'
    with pytest.raises(PolicyError, match="no such file"):
        load_policy(
            [
                PolicyFile(name="sub/p.toml", raw=f"version = 1\n{text}".encode()),
                PolicyFile(name="web.known_hosts", raw=f"a {KEY_LINE}\n".encode()),
            ]
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('commands = ["a;b"]', "shell syntax fits nothing without shell = true"),
        ('commands = ["a;b"]\nshell = true', ""),
        ('commands = ["a *"]\nshell = true', ""),
        ('commands = [""]', "malformed"),
        ('commands = ["* a"]', "the first word is spelled out"),
        ('commands = ["a ** b"]', "** stands at the end alone"),
        ('commands = ["a b*"]', "* stands for a whole word"),
        ("shell = true", "shell: means nothing without commands"),
        ('commands = ["a"]\ninput = true', "input: means nothing but for commands that nobody is asked about"),
        ('users = ["a b"]', "users[0]: malformed"),
    ],
)
def test_matchers_of_commands_and_users_are_checked(text: str, told: str) -> None:
    rule = f'version = 1\n[[rules]]\nid = "r"\napproval = "deny"\n{text}\n'
    files = [PolicyFile(name="p.toml", raw=rule.encode())]
    if told:
        with pytest.raises(PolicyError, match=told.replace("*", r"\*").replace("[", r"\[")):
            load_policy(files)
    else:
        assert 1 == len(load_policy(files).rules[0].commands)
