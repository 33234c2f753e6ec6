"""Markers under fire: races for one id, wrappers killed at any instant, sessions that end, hosts that reboot."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.ssh import lookup, wrapper
from broker.core.ssh.outcome import Found, MarkerState, StoreSeen
from broker.core.ssh.preamble import Preamble
from tests.live.login_shells import (
    DEADLINE_S,
    NONCE,
    Host,
    kill_session,
    new_id,
    read,
    shell_named,
    started,
    until,
)

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
    process = started(host, b"true", OPERATION)
    assert Found.RUNNING is host.found(OPERATION).found

    kill_session(process)
    assert Found.DIED is host.found(OPERATION).found


def test_a_wrapper_killed_alone_leaves_an_orphan_that_then_has_died(host: Host) -> None:
    process = started(host, b"true", OPERATION)
    process.kill()
    process.wait(DEADLINE_S)
    assert Found.ORPHAN is host.found(OPERATION).found

    kill_session(process)
    assert Found.DIED is host.found(OPERATION).found


def test_a_zombie_does_not_run(host: Host) -> None:
    process = started(host, b"true", OPERATION)
    os.killpg(process.pid, signal.SIGKILL)
    until(lambda: ") Z " in Path(f"/proc/{process.pid}/stat").read_text())

    assert Found.DIED is host.found(OPERATION).found
    process.communicate(timeout=DEADLINE_S)


def test_another_process_of_the_same_number_is_not_ours(host: Host) -> None:
    process = started(host, b"true", OPERATION)
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
    process = started(host, b"true", OPERATION)
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
    process = started(host, b"trap 'echo hung up; exit 5' HUP", OPERATION)
    while process.poll() is None:  # a signal that meets the shell while it starts a child is lost
        os.killpg(process.pid, signal.SIGHUP)
        time.sleep(0.02)
    process.communicate(timeout=DEADLINE_S)

    assert 5 == process.returncode
    assert 5 == host.found(OPERATION).status


def on_terminal(host: Host, command: bytes) -> tuple[subprocess.Popen[bytes], int]:
    """The command in a session with a terminal, and our end of it."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [
            shutil.which("setsid") or "setsid",
            "--ctty",
            str(host.shell),
            "-c",
            host.wrapped(command, OPERATION, pty=True),
        ],
        env=host.environment,
        cwd=host.home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    host.begun.append(process)
    os.close(theirs)
    return process, ours


def test_on_a_terminal_a_hang_up_reaches_the_command_and_its_end_is_noted(host: Host) -> None:
    process, ours = on_terminal(host, b"test -t 0 && echo on a terminal; exec sleep 600")
    preamble, seen = Preamble(OPERATION, NONCE), b""
    while b"terminal\r\n" not in seen:
        seen += preamble.feed(os.read(ours, 4096))
    assert (MarkerState.STARTED, b"on a terminal\r\n") == (preamble.state, seen)
    assert Found.RUNNING is host.found(OPERATION).found
    os.close(ours)
    process.wait(DEADLINE_S)

    assert -signal.SIGHUP == process.returncode
    until(lambda: host.found(OPERATION).found is Found.FINISHED)
    assert 128 + signal.SIGHUP == host.found(OPERATION).status


@pytest.mark.parametrize(("key", "status"), [(b"\x03", 130), (b"\x04", 0)], ids=["interrupt", "end of input"])
def test_on_a_terminal_keys_go_to_the_command(host: Host, key: bytes, status: int) -> None:
    process, ours = on_terminal(host, b": >begun; exec cat")
    until((host.home / "begun").exists)
    until(lambda: _group_runs(process.pid, "cat"))
    os.write(ours, key)
    process.wait(DEADLINE_S)
    os.close(ours)

    assert status == process.returncode
    assert status == host.found(OPERATION).status


def _group_runs(session: int, name: str) -> bool:
    ran = subprocess.run(["/bin/ps", "-o", "comm=", "-s", str(session)], capture_output=True, check=False)
    return name.encode() in ran.stdout.split()


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
