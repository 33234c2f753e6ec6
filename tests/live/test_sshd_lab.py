"""The lab itself: its servers are real, and nothing of it stays behind."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.sshd import KEYBOARD, NORMAL, Account, Lab, Sshd, is_root, of_user, open_lab, program
from tests.live.tcp_cuts import Cut, How, cutting

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


def ssh(lab: Lab, port: int, account: Account, command: str) -> subprocess.CompletedProcess[str]:
    options = ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    options += ["-o", "LogLevel=ERROR"]
    words = ["-i", str(lab.user_key), "-o", "IdentitiesOnly=yes", "-p", str(port), f"{account.name}@127.0.0.1", command]
    return subprocess.run([program("ssh"), *options, *words], capture_output=True, text=True, timeout=20, check=False)


def shells() -> list[str]:
    return (
        ["bash", "dash", "ash", "fish", "tcsh", "zsh"]
        if is_root()
        else [Path(pwd.getpwuid(os.geteuid()).pw_shell).name]
    )


@pytest.fixture(scope="module")
def server(lab: Lab) -> Sshd:
    return lab.start(NORMAL)


@pytest.mark.parametrize("shell", shells())
def test_each_login_shell_runs_a_command(lab: Lab, server: Sshd, shell: str) -> None:
    done = ssh(lab, server.port, lab.account(shell), "echo here; exit 3")

    assert (3, "here\n", "") == (done.returncode, done.stdout, done.stderr)


def test_a_server_with_a_password_prompt_starts(lab: Lab) -> None:
    assert lab.start(KEYBOARD).port


@pytest.mark.parametrize("how", [How.FIN, How.RST])
def test_the_proxy_cuts_where_it_is_told(lab: Lab, server: Sshd, how: How) -> None:
    with cutting(server.port) as proxy:
        whole = ssh(lab, proxy.port, lab.account("bash"), "echo whole")
        proxy.plan = Cut(how=how, up=900)
        cut = ssh(lab, proxy.port, lab.account("bash"), "echo cut")

    assert ("whole\n", "") == (whole.stdout, cut.stdout)
    assert (255, 900) == (cut.returncode, proxy.links[1].up)


def test_nothing_stays_behind() -> None:
    with open_lab() as brief:
        account = brief.account("bash")
        server = brief.start()
        left = ssh(brief, server.port, account, "sleep 100 >/dev/null 2>&1 & echo left")
        home = brief.home

    assert ("left\n", False) == (left.stdout, home.exists())
    if is_root():
        assert account.name not in {entry.pw_name for entry in pwd.getpwall()}
        assert set() == of_user(account.uid)
