"""What happens to the audit log under a running daemon: nothing runs unrecorded, and the words say why.

Each case is done to a daemon that serves. Then an agent asks for a change, the daemon's state is looked at, the fault
is mended as docs/audit.md says, and the next daemon goes on over a log that verifies.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import plain_upstream
from tests.live.house import House
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

FAULTY = str(Path(__file__).with_name("faulty_daemon.py"))
WRITE = {"service": "open", "method": "POST", "path": "/orders", "body": {"name": "n-1"}}
UNWRITABLE = ("broker_unavailable", "audit_unwritable", "after_human", "none")
UNKNOWN = ("broker_unavailable", "audit_unwritable", "reconcile_first", "unknown")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with plain_upstream.serving() as serving:
        yield serving


@pytest.fixture
def switch(tmp_path: Path) -> Path:
    return tmp_path / "switch"


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream, switch: Path) -> Iterator[House]:
    with House(tmp_path / "h") as built:
        built.init().start(program=("-I", FAULTY, str(switch))).open(origin=upstream.origin)
        yield built


def gist(envelope: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(envelope[name]) for name in ("category", "code", "retry", "remote_effect"))


def status(house: House) -> Any:
    return house.human.client.status()


def warned(house: House) -> str:
    return "\n".join(map(str, status(house)["warnings"]))


def verdict(house: House) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "audit", "verify", "--json"],
        env=house.environ,
        capture_output=True,
        check=False,
        timeout=60,
    )
    found: str = json.loads(done.stdout)["verdict"]
    return found


def in_doubt(house: House) -> list[object]:
    return [row["correlation_id"] for row in house.human.client.operations(state="in_doubt")]


def segment(house: House) -> Path:
    return max(house.places.audit.glob("*.seg"))


def works(house: House, upstream: Upstream) -> None:
    """An action goes through and is on record."""
    before = len(upstream.requests)
    with house.agent() as agent:
        assert "success" == agent.act(**{**WRITE, "body": {"name": "n-2"}})["category"]
    assert before + 1 == len(upstream.requests)


def stops(house: House) -> None:
    assert 0 == house.stop(), house.log()


FAULTS = [
    ("write", errno.EIO, "Input/output error"),
    ("write", errno.EROFS, "Read-only file system"),
    ("write", errno.ENOSPC, "bytes were written"),
    ("sync", errno.EIO, "Input/output error"),
    ("sync", errno.ENOSPC, "No space left on device"),
]


@pytest.mark.parametrize(("operation", "number", "words"), FAULTS, ids=str)
def test_a_disk_that_fails_stops_everything_before_a_byte_is_sent(
    house: House, upstream: Upstream, switch: Path, operation: str, number: int, words: str
) -> None:
    with house.agent() as agent:
        switch.write_text(f"{operation} {number}")
        told = [agent.act(**WRITE) for _ in range(3)]
        health = agent.ask("GET", "/v1/health")

    assert UNWRITABLE == gist(told[0])
    assert {"broker_unavailable"} == {one["category"] for one in told}
    assert [] == upstream.requests
    assert 200 == health["status"]
    assert not status(house)["audit"]["anchored"]
    assert words in warned(house)
    assert "start the daemon again" in warned(house)

    switch.unlink()  # the disk is mended; this daemon stays as it is
    with house.agent() as agent:
        assert "broker_unavailable" == agent.act(**WRITE)["category"]
    stops(house)
    assert verdict(house) in {"OK", "TORN_TAIL", "TORN_OR_TAMPERED"}
    house.start().open()

    assert "OK" == verdict(house)
    assert [] == in_doubt(house)
    works(house, upstream)


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_was_sent_when_the_disk_failed_is_unknown_and_listed(
    house: House, upstream: Upstream, switch: Path, operation: str
) -> None:
    upstream.answers.clear()
    with house.agent() as agent:
        asked = agent.begin_act(**WRITE)
        upstream.wait_for_request()
        switch.write_text(f"{operation} {errno.EIO}")
        upstream.answers.set()
        told = agent.end_act(asked)

    assert UNKNOWN == gist(told)
    assert f"doorward reconcile {told['correlation_id']}" == told["next"]["command"]
    assert None is told["http"]
    switch.unlink()
    stops(house)
    house.start().open()

    assert "OK" == verdict(house)
    assert [told["correlation_id"]] == in_doubt(house)
    with house.agent() as agent:
        assert "reconcile_required" == agent.act(**WRITE)["category"]
    assert 1 == len(upstream.requests)


def test_a_yes_that_can_not_be_recorded_sends_nothing(house: House, upstream: Upstream, switch: Path) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="shop", operation="orders.create", args={"name": "n-1"})
        card = house.human.wait_for_card()
        switch.write_text(f"write {errno.EIO}")
        with pytest.raises(Exception, match="can't be written"):
            house.human.approve(card)
        told = agent.end_act(asked)

    assert UNWRITABLE == gist(told)
    assert [] == upstream.requests


def test_an_anchor_that_can_not_be_written_stops_everything(house: House, upstream: Upstream, switch: Path) -> None:
    with house.agent() as agent:
        switch.write_text(f"write_at {errno.EIO}")
        told = [agent.act(**{**WRITE, "body": {"name": f"n-{number}"}}) for number in range(3)]

    assert {"broker_unavailable"} == {one["category"] for one in told}
    sent = [one for one in told if one["remote_effect"] == "unknown"]
    assert len(sent) == len(upstream.requests) <= 1, "what was sent had its intent on the disk"
    switch.unlink()
    stops(house)
    house.start().open()

    assert "OK" == verdict(house)
    assert len(sent) == len(in_doubt(house))


def test_free_space_that_can_not_be_told_begins_nothing(house: House, upstream: Upstream, switch: Path) -> None:
    with house.agent() as agent:
        switch.write_text(f"free_bytes {errno.EIO}")
        told = agent.act(**WRITE)
        assert ("broker_unavailable", "disk_low") == gist(told)[:2]
        assert "nearly full" in warned(house)
        switch.unlink()
        works(house, upstream)

    assert 1 == len(upstream.requests)


# What somebody does to the files.


def deleted(house: House) -> None:
    segment(house).unlink()


def replaced(house: House) -> None:
    """Another file of the same bytes under the same name."""
    path = segment(house)
    path.rename(path.with_name("kept"))
    shutil.copy(path.with_name("kept"), path)


def replaced_by_rename(house: House) -> None:
    path = segment(house)
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def truncated(house: House) -> None:
    os.truncate(segment(house), segment(house).stat().st_size - 100)


def emptied(house: House) -> None:
    os.truncate(segment(house), 0)


def grown(house: House) -> None:
    with segment(house).open("ab") as file:
        file.write(b"one more line")


def linked(house: House) -> None:
    (house.places.data / "second name").hardlink_to(segment(house))


def moved_directory(house: House) -> None:
    house.places.audit.rename(house.places.data / "audit-elsewhere")


def deleted_directory(house: House) -> None:
    shutil.rmtree(house.places.audit)


# What the restart says of it, before a human mended anything; None where it goes on by itself.
DEEDS: list[tuple[Callable[[House], None], str]] = [
    (deleted, "was deleted|No such file"),
    (replaced, "was replaced"),
    (replaced_by_rename, "was replaced"),
    (truncated, "bytes where"),
    (emptied, "bytes where"),
    (grown, "bytes where"),
    (linked, "was linked|deleted or linked"),
    (moved_directory, "No such file|was replaced|was deleted"),
    (deleted_directory, "No such file|was deleted"),
]


@pytest.mark.parametrize(("deed", "words"), DEEDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_log_that_somebody_handles_is_noticed_before_a_byte_is_sent(
    house: House, upstream: Upstream, deed: Callable[[House], None], words: str
) -> None:
    with house.agent() as agent:
        deed(house)
        told = [agent.act(**WRITE) for _ in range(2)]

    assert {"broker_unavailable"} == {one["category"] for one in told}
    assert "none" == told[0]["remote_effect"]
    assert [] == upstream.requests
    assert any(word in warned(house) for word in words.split("|")), warned(house)
    assert "vault" in status(house), "the daemon lives"
    stops(house)
