"""T36 over SSH: while a change is in doubt, no shell text and no other spelling of a command gets it made."""

from dataclasses import replace

import pytest

from broker.core.ssh.outcome import Replaced, Transfer
from broker.core.ssh.resolve import SshAsk
from tests.fakes.flow import Flow, gist
from tests.fakes.hosts import LOST, command, operation, put, ssh_policy, words

REFUSED = ("reconcile_required", "in_doubt", "reconcile_first", "unknown")
POLICY = """
version = 1

[[rules]]
id = "all"
services = ["web"]
approval = "none"

[[rules]]
id = "texts"
services = ["web"]
operations = ["exec"]
commands = ["**"]
shell = true
approval = "none"

[services.web]
kind = "ssh"
credential = "deploy"
user = "deploy"
host_keys = "strict"
known_hosts = "web.known_hosts"
ad_hoc = ["exec", "put"]
hosts = { web-1 = { address = "web-1.example" }, web-2 = { address = "web-2.example" } }

[services.web.operations.restart]
command = ["service", "{unit}", "restart"]
effect = "exec"
change_key = ["unit"]
"""
PLAIN = command("systemctl restart x")
AROUND = {
    "the same": PLAIN,
    "other words": command("systemctl try-restart x"),
    "by its path": command("/usr/bin/systemctl restart x"),
    "by root": command("sudo -n systemctl restart x"),
    "behind a runner": words("timeout", "5", "systemctl", "restart", "x"),
    "behind another command": command("true; systemctl restart x"),
    "in a condition": command("true && systemctl restart x"),
    "in a list": command("{ systemctl restart x; }"),
    "by a shell": words("sh", "-c", "systemctl restart x"),
    "by another shell": command("bash -c 'systemctl restart x'"),
    "by a file": words("sh", "./restart"),
    "by a variable": command("s=systemctl; $s restart x"),
    "by a substitution": command("$(echo systemctl) restart x"),
    "by pieces": command("sys''temctl restart x | cat"),
    "by an interpreter": words("python3", "-c", "import os"),
    "by its input": words("xargs", "systemctl"),
    "in a split string": words("env", "-S", "systemctl restart x"),
    "in the background": command("systemctl restart x &"),
    "by a redirection": command("systemctl restart x >y"),
}
HERE = {
    "another command": command("touch y"),
    "a declared one": operation("restart", unit="y"),
    "a file": put("/etc/y"),
    "another text": command("false; touch z"),
}


def flow() -> Flow:
    made = Flow()
    made.policies.policy = ssh_policy(POLICY)
    made.vault.put("deploy", "canary-key", "ssh://deploy@web-1.example:22", "ssh://deploy@web-2.example:22")
    return made


@pytest.mark.parametrize("spelling", AROUND)
async def test_no_spelling_of_a_command_and_no_shell_gets_it_run_again(spelling: str) -> None:
    at = flow()
    await doubt(at, PLAIN)

    assert REFUSED == gist(await at.ask(AROUND[spelling]))
    assert 1 == len(at.executor.permits)


@pytest.mark.parametrize("later", HERE)
@pytest.mark.parametrize("first", ["true; systemctl restart x", "sh -c 'systemctl restart x'"])
async def test_while_what_may_be_anything_is_in_doubt_nothing_is_changed_there(first: str, later: str) -> None:
    at = flow()
    await doubt(at, command(first))

    assert REFUSED == gist(await at.ask(HERE[later]))
    assert 1 == len(at.executor.permits)


@pytest.mark.parametrize("first", HERE)
async def test_what_may_be_anything_waits_for_every_doubt_of_its_place(first: str) -> None:
    at = flow()
    await doubt(at, HERE[first])

    assert REFUSED == gist(await at.ask(command("true; systemctl restart x")))
    assert 1 == len(at.executor.permits)


async def test_another_program_and_another_host_go_on() -> None:
    at = flow()
    await doubt(at, PLAIN)

    assert "success" == gist(await at.ask(command("touch y")))[0]
    assert "success" == gist(await at.ask(command("true; systemctl restart x", host="web/web-2")))[0]


async def doubt(at: Flow, ask: SshAsk) -> None:
    at.executor.answers.append(replace(LOST, transfer=Transfer(replaced=Replaced.UNKNOWN)) if ask.put else LOST)
    assert "outcome_unknown" == gist(await at.ask(ask))[0]
