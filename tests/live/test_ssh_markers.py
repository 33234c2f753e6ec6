"""Markers under fire: races for one id, wrappers killed at any instant, hosts that reboot, fill up, or are hostile."""

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.ssh import lookup, wrapper
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.outcome import Found, MarkerState, StoreSeen
from tests.live.login_shells import DEADLINE_S, NONCE, Host, new_id, other_root, read, shell_named, until

pytestmark = pytest.mark.live

OPERATION = new_id(7)
HERE_OR_NOT = {Found.RUNNING, Found.ORPHAN, Found.DIED}


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


def started(host: Host, command: bytes, operation_id: str = OPERATION) -> subprocess.Popen[bytes]:
    """A command that has begun."""
    (host.home / "begun").unlink(missing_ok=True)
    process = host.start(host.wrapped(command + b"; : >begun; sleep 600", operation_id))
    until((host.home / "begun").exists)
    return process


def kill_session(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_eight_arrivals_of_one_id_have_one_effect(host: Host) -> None:
    for number in range(10):
        line = host.wrapped(b"echo x >>effect", new_id(number))
        arrivals = [host.start(line) for _ in range(8)]
        endings = []
        for arrival in arrivals:
            stdout, stderr = arrival.communicate(timeout=DEADLINE_S)
            ran = read(new_id(number), subprocess.CompletedProcess(line, arrival.returncode, stdout, stderr))
            endings.append((ran.preamble.state, ran.status))

        assert b"x\n" * (number + 1) == (host.home / "effect").read_bytes()
        assert [(MarkerState.DUPLICATE, 98)] * 7 + [(MarkerState.STARTED, 0)] == sorted(endings)


def test_an_arrival_and_a_look_up_agree_on_who_was_first(host: Host) -> None:
    for number in range(25):
        arrival = host.start(host.wrapped(b"echo x >>effect", new_id(number)))
        time.sleep(random.uniform(0, 0.008))  # noqa: S311 - any instant will do
        found = host.found(new_id(number))
        arrival.communicate(timeout=DEADLINE_S)
        has_run = (host.home / "effect").exists()
        if has_run:
            (host.home / "effect").unlink()

        assert found.found in {Found.NEVER_STARTED, Found.RUNNING, Found.FINISHED}
        assert has_run is (found.found is not Found.NEVER_STARTED)
        assert (0 if has_run else 98) == arrival.returncode


def test_a_fenced_id_never_runs(host: Host) -> None:
    assert Found.NEVER_STARTED is host.found(OPERATION).found

    for detach in (False, True):
        ran = host.execute(b": >effect", OPERATION, detach=detach)
        assert (98, MarkerState.DUPLICATE) == (ran.status, ran.preamble.state)
    assert not (host.home / "effect").exists()
    assert Found.NEVER_STARTED is host.found(OPERATION).found


def test_a_claim_that_nobody_has_written_to_is_fenced(host: Host) -> None:
    host.marker(OPERATION).touch()

    assert Found.NEVER_STARTED is host.found(OPERATION).found


def test_a_fence_proves_nothing_for_another_store_or_boot(host: Host) -> None:
    seen = host.store
    assert seen is not None
    host.store = StoreSeen(path=seen.path, id=seen.id, boot="an-earlier-boot")
    assert Found.FENCED_LATE is host.found(OPERATION).found

    host.store = None
    assert Found.FENCED_LATE is host.found(new_id(8)).found

    host.store = StoreSeen(path=seen.path, id="another-store", boot=seen.boot)
    assert Found.FENCED_LATE is host.found(new_id(9)).found
    assert 97 == host.execute(b": >effect", new_id(10)).status
    assert not (host.home / "effect").exists()


def test_a_fence_keeps_the_boot_in_which_it_was_put_up(host: Host) -> None:
    assert Found.NEVER_STARTED is host.found(OPERATION).found
    assert host.store is not None
    edit(host.marker(OPERATION), host.store.boot, "the-boot-before")
    host.store = StoreSeen(path=host.store.path, id=host.store.id, boot="the-boot-before")

    assert Found.NEVER_STARTED is host.found(OPERATION).found


def test_a_wrapper_that_lives_is_running_and_one_whose_group_was_killed_has_died(host: Host) -> None:
    process = started(host, b"true")
    assert Found.RUNNING is host.found(OPERATION).found

    kill_session(process)
    assert Found.DIED is host.found(OPERATION).found


def test_a_wrapper_killed_alone_leaves_an_orphan_that_then_has_died(host: Host) -> None:
    process = started(host, b"true")
    process.kill()
    process.wait(DEADLINE_S)
    assert Found.ORPHAN is host.found(OPERATION).found

    kill_session(process)
    assert Found.DIED is host.found(OPERATION).found


def test_a_zombie_does_not_run(host: Host) -> None:
    process = started(host, b"true")
    os.killpg(process.pid, signal.SIGKILL)
    until(lambda: ") Z " in Path(f"/proc/{process.pid}/stat").read_text())

    assert Found.DIED is host.found(OPERATION).found
    process.communicate(timeout=DEADLINE_S)


def test_another_process_of_the_same_number_is_not_ours(host: Host) -> None:
    process = started(host, b"true")
    words = host.marker(OPERATION).read_text().split()
    edit(host.marker(OPERATION), f" {words[2]} {words[3]} ", f" {words[2]} 17 ")

    assert Found.ORPHAN is host.found(OPERATION).found  # its children are found by their session
    kill_session(process)


@pytest.mark.parametrize(
    ("place", "found"),
    [(5, Found.DIED_RESTART), (6, Found.DIED_REBOOT), (7, Found.OTHER_HOST)],
    ids=["container", "boot", "machine"],
)
def test_a_marker_of_another_life_of_the_host_does_not_run_here(host: Host, place: int, found: Found) -> None:
    process = started(host, b"true")
    words = host.marker(OPERATION).read_text().split()
    edit(host.marker(OPERATION), f" {words[place]} ", " another ")

    assert found is host.found(OPERATION).found
    kill_session(process)


def test_an_end_is_believed_wherever_it_was_written(host: Host) -> None:
    host.execute(b"exit 3", OPERATION)
    words = host.marker(OPERATION).read_text().split()
    for place in (5, 6, 7):
        edit(host.marker(OPERATION), f" {words[place]} ", " another ")

    found = host.found(OPERATION)
    assert (Found.FINISHED, 3) == (found.found, found.status)


@pytest.mark.parametrize("content", ["start 1 77", "start 1 77 end of it\n", "gibberish\n", "exit 0 end\n", "\n\n"])
def test_a_torn_marker_is_unreadable_and_never_an_end(host: Host, content: str) -> None:
    host.marker(OPERATION).write_text(content)

    assert Found.UNREADABLE is host.found(OPERATION).found
    assert content == host.marker(OPERATION).read_text()
    assert 98 == host.execute(b"true", OPERATION).status


def test_a_torn_end_is_no_end(host: Host) -> None:
    host.execute(b"exit 31", OPERATION)
    edit(host.marker(OPERATION), "exit 31 end\n", "exit 3")

    assert Found.DIED is host.found(OPERATION).found


def test_hanging_up_on_the_session_does_not_keep_the_end_from_being_noted(host: Host) -> None:
    """The wrapper lives on; the command may do as it likes."""
    process = started(host, b"trap 'echo hung up; exit 5' HUP")
    while process.poll() is None:  # a signal that meets the shell while it starts a child is lost
        os.killpg(process.pid, signal.SIGHUP)
        time.sleep(0.02)
    process.communicate(timeout=DEADLINE_S)

    assert 5 == process.returncode
    assert 5 == host.found(OPERATION).status


def test_a_detached_command_outlives_its_session_with_its_output(host: Host) -> None:
    command = b"echo before; : >begun; while ! [ -e go ]; do sleep 0.01; done; echo after; echo bad >&2; exit 4"
    process = host.start(host.wrapped(command, OPERATION, detach=True))
    until((host.home / "begun").exists)
    kill_session(process)
    assert Found.RUNNING is host.found(OPERATION).found
    (host.home / "go").touch()
    until(lambda: host.found(OPERATION).found is Found.FINISHED)
    until(lambda: "spooled end" in host.marker(OPERATION).read_text())

    assert 4 == host.found(OPERATION).status
    kept = lookup.parse_spool(host.run(lookup.spool(OPERATION)).stdout, operation_id=OPERATION)
    assert lookup.Spool(stdout=b"before\nafter\n", stderr=b"bad\n", complete=True, cut=False) == kept


def test_a_spool_is_capped_and_says_so(host: Host) -> None:
    command = f"head -c {wrapper.SPOOL_BYTES + 100_000} /dev/zero; exit 2".encode()
    ran = host.execute(command, OPERATION, detach=True)

    assert (2, wrapper.SPOOL_BYTES) == (ran.status, len(ran.stdout))
    kept = lookup.parse_spool(host.run(lookup.spool(OPERATION)).stdout, operation_id=OPERATION)
    assert kept is not None
    assert (wrapper.SPOOL_BYTES, True, True) == (len(kept.stdout), kept.complete, kept.cut)
    assert lookup.parse_spool(host.run(lookup.spool(new_id(99))).stdout, operation_id=new_id(99)) is None


@pytest.mark.parametrize("whole_group", [False, True])
def test_killed_at_any_instant_nothing_false_is_found(host: Host, *, whole_group: bool) -> None:
    """The effect is a line in a file. Never `never started` after it, never another status than its own."""
    seen = []
    for number in range(50):
        operation = new_id(number)
        effect = host.home / f"effect-{number}"
        line = host.wrapped(f"echo x >>{effect.name}; sleep 0.002; exit 7".encode(), operation)
        process = host.start(line)
        time.sleep(random.uniform(0, 0.024))  # noqa: S311 - any instant will do
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait(DEADLINE_S)
        found = host.found(operation)
        until(lambda operation=operation: host.found(operation).found not in {Found.RUNNING, Found.ORPHAN})  # type: ignore[misc]  # bound at once
        later = host.found(operation)
        process.communicate(timeout=DEADLINE_S)
        seen.append(later.found)

        assert found.found in HERE_OR_NOT | {Found.FINISHED, Found.NEVER_STARTED}
        if later.found is Found.FINISHED:
            assert (7, True) == (later.status, effect.exists())
        if Found.NEVER_STARTED in {found.found, later.found}:
            assert not effect.exists()
            assert 98 == host.execute(b"true", operation).status
    print({found.value: seen.count(found) for found in set(seen)})


def test_collecting_takes_settled_markers_alone_and_opens_no_id(host: Host) -> None:
    host.execute(b"true", new_id(1))
    host.execute(b"echo out", new_id(2), detach=True)
    host.found(new_id(3))
    host.marker(new_id(4)).touch()
    running = started(host, b"true", new_id(5))
    kill_session(started(host, b"true", new_id(6)))
    host.execute(b"true", new_id(7))

    ids = [new_id(number) for number in range(1, 7)]
    assert 3 == lookup.parse_collected(host.run(lookup.collect(ids)).stdout)

    left = {path.name for path in (host.home / ".doorward/ops").iterdir()}
    assert {new_id(3), new_id(4), new_id(5), new_id(7)} == left
    assert 98 == host.execute(b"true", new_id(3)).status
    assert 98 == host.execute(b"true", new_id(4)).status
    kill_session(running)


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
