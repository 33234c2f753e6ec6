"""Where markers are kept: made once, private, in the home or below /var/tmp, and nowhere that others could reach."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.ssh import lookup, wrapper
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.outcome import Found, MarkerState, StoreSeen
from tests.live.login_shells import (
    DEADLINE_S,
    NONCE,
    Host,
    kill_session,
    new_id,
    other_root,
    read,
    shell_named,
    started,
)

pytestmark = pytest.mark.live

OPERATION = new_id(7)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Host]:
    """A host on which nothing was run yet."""
    made = Host(root=tmp_path, shell=shell_named("bash", tmp_path))
    yield made
    made.close()


@pytest.fixture
def host(bare: Host) -> Host:
    bare.probe()
    return bare


def test_a_store_is_private_and_is_made_once(host: Host) -> None:
    first = host.store
    for path in (host.home / ".doorward", host.home / ".doorward/ops"):
        assert 0o700 == path.stat().st_mode & 0o777
    assert [first] * 3 == [host.probe() for _ in range(3)]
    assert {"ops", "store"} == {path.name for path in (host.home / ".doorward").iterdir()}


def test_many_first_probes_agree_on_one_store(tmp_path: Path) -> None:
    host = Host(root=tmp_path, shell=shell_named("dash", tmp_path))
    probes = [host.start(wrapper.probe()) for _ in range(8)]
    seen = {wrapper.parse_probe(probe.communicate(timeout=DEADLINE_S)[0]) for probe in probes}

    assert 1 == len(seen)
    assert {host.probe()} == seen


def test_without_a_store_a_command_is_refused_or_runs_and_says_so(tmp_path: Path) -> None:
    host = Host(root=tmp_path, shell=shell_named("fish", tmp_path))

    def ran(mode: MarkerMode, *, detach: bool = False) -> tuple[int, bytes, MarkerState]:
        line = wrapper.wrap(
            b"echo ran; exit 4", operation_id=OPERATION, nonce=NONCE, pty=False, mode=mode, detach=detach, store=None
        )
        told = read(OPERATION, host.run(line))
        return told.status, told.stdout, told.preamble.state

    assert (97, b"", MarkerState.REFUSED_NO_STORE) == ran(MarkerMode.REQUIRED)
    assert (97, b"", MarkerState.REFUSED_NO_STORE) == ran(MarkerMode.PREFERRED, detach=True)
    assert (4, b"ran\n", MarkerState.NO_STORE) == ran(MarkerMode.PREFERRED)


def test_a_store_that_filled_up_runs_nothing_and_is_looked_up_as_closed_or_unreadable(bare: Host) -> None:
    host = bare
    with other_root(host.home, f"mount -t tmpfs -o size=64k,mode=0777 none {host.home}", *_own(host.home)) as inside:
        host.inside = inside
        host.probe()
        host.run(b"cat /dev/zero >full; : >>full")
        ran = host.execute(b": >effect; echo ran", OPERATION)

        assert (97, b"", MarkerState.REFUSED_NO_STORE) == (ran.status, ran.stdout, ran.preamble.state)
        assert Found.UNREADABLE is host.found(OPERATION).found
        host.run(b"rm full")
        assert Found.NEVER_STARTED is host.found(OPERATION).found
        assert 98 == host.execute(b"true", OPERATION).status


def test_a_full_home_is_given_up_for_var_tmp(bare: Host) -> None:
    host = bare
    with other_root(
        host.home,
        f"mount -t tmpfs -o size=64k,mode=0777 none {host.home}",
        *_own(host.home),
        f"cat /dev/zero 2>/dev/null >{host.home}/full || true",
        "mount -t tmpfs -o mode=1777 none /var/tmp",
    ) as inside:
        host.inside = inside
        assert _in_tmp() == host.probe().path


def test_a_home_that_can_not_be_written_is_given_up_for_var_tmp(bare: Host) -> None:
    host = bare
    with other_root(
        host.home,
        f"mount --bind {host.home} {host.home}",
        f"mount -o remount,bind,ro {host.home}",
        "mount -t tmpfs -o mode=1777 none /var/tmp",
    ) as inside:
        host.inside = inside

        assert _in_tmp() == host.probe().path
        assert b"ran\n" == host.execute(b"echo ran; exit 3", OPERATION).stdout
        assert 3 == host.found(OPERATION).status
        assert Found.NEVER_STARTED is host.found(new_id(8)).found
        assert 98 == host.execute(b"true", new_id(8)).status


@pytest.mark.parametrize(
    "trap",
    [
        "mkdir -m 700 {tmp} {tmp}/ops; chown -R 12345 {tmp}",
        "mkdir -m 755 /var/tmp/x; mkdir -m 700 /var/tmp/x/ops; ln -s /var/tmp/x {tmp}",
        "mkdir -m 770 {tmp}; mkdir -m 700 {tmp}/ops",
        "echo a file >{tmp}",
    ],
    ids=["of another owner", "a link", "open to others", "a file"],
)
def test_a_place_below_var_tmp_that_others_could_use_is_not_taken(bare: Host, trap: str) -> None:
    if "chown" in trap and os.geteuid() != 0:
        trap = "mkdir {tmp}; mount --bind /usr {tmp}"  # of root, who is somebody else
    host = bare
    with other_root(
        host.home,
        f"mount --bind {host.home} {host.home}",
        f"mount -o remount,bind,ro {host.home}",
        "mount -t tmpfs -o mode=1777 none /var/tmp",
        trap.format(tmp=_in_tmp()),
    ) as inside:
        host.inside = inside

        assert MarkerState.NO_STORE is wrapper.parse_probe(host.run(wrapper.probe()).stdout)
        assert Found.NO_STORE is host.found(OPERATION).found


def test_a_store_that_became_a_link_is_not_used(host: Host) -> None:
    (host.home / ".doorward").rename(host.home / "elsewhere")
    (host.home / ".doorward").symlink_to(host.home / "elsewhere")

    assert 97 == host.execute(b": >effect", OPERATION).status
    assert not (host.home / "effect").exists()


def test_an_account_without_a_shell_gives_no_preamble_and_no_store(tmp_path: Path) -> None:
    host = Host(root=tmp_path, shell=Path("/usr/sbin/nologin"))

    assert MarkerState.MISSING is wrapper.parse_probe(host.run(wrapper.probe()).stdout)
    host.store = StoreSeen(path="/home/u/.doorward", id="a-store-id", boot="a-boot")
    ran = host.execute(b"true", OPERATION)
    assert (1, MarkerState.MISSING) == (ran.status, ran.preamble.state)
    assert Found.NO_ANSWER is lookup.parse(ran.stdout, operation_id=OPERATION, since=host.store).found


def test_no_script_sets_a_variable_that_a_far_side_may_export(host: Host) -> None:
    """It would reach the command with another value. All names of ours begin with d_."""
    lines = (
        host.wrapped(b"true", OPERATION),
        host.wrapped(b"true", OPERATION, detach=True),
        wrapper.probe(),
        lookup.look_up(OPERATION, since=host.store),
    )
    for line in lines:
        names = re.findall(r"(?:[;{&|(] *|read -r +|for +)([A-Za-z]\w*)(?:=| in|;|\))", line)
        assert [] == [
            name
            for name in names
            if not name.startswith("d_") and name not in {"return", "esac", "fi", "shift", "break"}
        ]


def test_without_proc_the_words_of_ps_and_sysctl_do(bare: Host, tmp_path: Path) -> None:
    """The systems that have no /proc; here with tools that speak like theirs."""
    tools = tmp_path / "tools"
    tools.mkdir()
    _tool(tools / "sysctl", "echo boot-of-this-test")
    _tool(
        tools / "ps",
        'for pid; do :; done; [ "$pid" = 1 ] && echo "Ss Mon Nov 30 00:00:01 2026" && exit',
        "kill -0 $pid 2>/dev/null && echo S Mon Nov 30 00:00:02 2026",
    )
    host = bare
    with other_root(host.home, "mount -t tmpfs none /proc") as inside:
        host.inside = (*inside, f"PATH={tools}:{os.environ['PATH']}")
        store = host.probe()
        assert "boot-of-this-test" == store.boot
        assert 3 == host.execute(b"exit 3", OPERATION).status
        assert 3 == host.found(OPERATION).status
        assert Found.NEVER_STARTED is host.found(new_id(8)).found
        process = started(host, b"true", new_id(9))
        assert Found.RUNNING is host.found(new_id(9)).found
        kill_session(process)
        assert Found.DIED is host.found(new_id(9)).found


def _tool(path: Path, *lines: str) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)


def _in_tmp() -> str:
    """As root in a view of its own, who is not root is."""
    return "/var/tmp/.doorward-0"  # noqa: S108 - the place that is tested


def _own(home: Path) -> tuple[str, ...]:
    return (f"chown {os.geteuid()} {home}",) if os.geteuid() == 0 else ()
