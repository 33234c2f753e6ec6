"""A disk that fails under the log of a running daemon: nothing runs unrecorded, and the words say why.

Each fault comes over a daemon that serves. Then an agent asks for a change, the daemon's state is looked at, the disk
is mended, and the next daemon goes on over a log that verifies.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import plain_upstream
from tests.live.audit_cases import UNKNOWN, UNWRITABLE, WRITE, gist, in_doubt, status, stops, verdict, warned, works
from tests.live.house import House
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

FAULTY = str(Path(__file__).with_name("faulty_daemon.py"))


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
    assert (False, "unwritable") == tuple(status(house)["audit"][name] for name in ("anchored", "trouble"))
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
        assert "disk_low" == status(house)["audit"]["trouble"]
        switch.unlink()
        works(house, upstream)

    assert 1 == len(upstream.requests)
