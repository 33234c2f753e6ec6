"""A real, small file system under the state: actions are refused before it is full, and nothing is lost once it is."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from broker.audit.limits import WriterLimits
from broker.client.faults import Refused
from tests.live import plain_upstream
from tests.live.audit_cases import (
    DISK_LOW,
    UNKNOWN,
    UNWRITABLE,
    WRITE,
    gist,
    in_doubt,
    status,
    stops,
    verdict,
    warned,
    works,
)
from tests.live.house import House
from tests.live.plain_upstream import Upstream

pytestmark = pytest.mark.live

ROOM_BYTES = WriterLimits().min_free_bytes + (24 << 20)


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    place.mkdir(0o700, parents=True)
    mounted = subprocess.run(
        ["/usr/bin/mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=700", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(
            "mounting a small file system takes root; test_running_faults.py does the like by a disk of its own"
        )
    try:
        yield
    finally:
        subprocess.run(["/usr/bin/umount", "-l", str(place)], check=True)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with plain_upstream.serving() as serving:
        yield serving


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    home = tmp_path / "h"
    with small_disk(home / "data"), House(home) as built:
        home.chmod(0o700)
        yield built.init().open(origin=upstream.origin)


def filler(house: House) -> Path:
    return house.places.data / "somebody's film"


def fill(house: House, *, leave_bytes: int) -> None:
    figures = os.statvfs(house.places.data)
    size_bytes = figures.f_bavail * figures.f_frsize - leave_bytes
    with filler(house).open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)


def fill_up(house: House) -> None:
    """To the last byte: the page that the log stands in takes a few records more."""
    fill(house, leave_bytes=0)
    more = os.open(house.places.data / "one more", os.O_WRONLY | os.O_CREAT, 0o600)
    with suppress(OSError):
        while os.write(more, bytes(4096)):
            pass
    os.close(more)


def exhaust(house: House) -> None:
    """Refusals are recorded below the floor too, until nothing more fits."""
    with house.agent() as agent:
        for _ in range(20):
            if status(house)["audit"]["trouble"] == "unwritable":
                return
            agent.act(service="nothing", method="GET", path="/")
    raise AssertionError("the disk is not full")


def empty(house: House) -> None:
    for path in (filler(house), house.places.data / "one more"):
        path.unlink(missing_ok=True)


def test_below_the_floor_actions_are_refused_while_refusals_are_still_recorded(
    house: House, upstream: Upstream
) -> None:
    fill(house, leave_bytes=WriterLimits().min_free_bytes - (1 << 20))
    with house.agent() as agent:
        told = agent.act(**WRITE)

    assert DISK_LOW == gist(told)
    assert [] == upstream.requests
    assert (True, "disk_low") == tuple(status(house)["audit"][name] for name in ("anchored", "trouble"))
    assert "nearly full" in warned(house)
    assert told["correlation_id"] in [event["correlation_id"] for event in house.human.events("action.result")]

    empty(house)
    works(house, upstream)  # without a restart
    assert None is status(house)["audit"]["trouble"]
    stops(house)
    assert "OK" == verdict(house)


def test_on_a_full_disk_a_yes_sends_nothing_and_the_log_ends_in_order(house: House, upstream: Upstream) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="shop", operation="orders.create", args={"name": "n-1"})
        card = house.human.wait_for_card()
        fill_up(house)
        exhaust(house)
        with pytest.raises(Refused):
            house.human.approve(card)
        told = agent.end_act(asked)

    assert UNWRITABLE == gist(told)
    assert [] == upstream.requests
    assert "unwritable" == status(house)["audit"]["trouble"]
    stops(house)
    assert "OK" == verdict(house), "the reserve made room for the last words"

    empty(house)
    house.start().open()
    assert [] == in_doubt(house)
    works(house, upstream)
    assert "OK" == verdict(house)


def test_what_was_sent_before_the_disk_was_full_is_unknown_and_listed(house: House, upstream: Upstream) -> None:
    upstream.answers.clear()
    with house.agent() as agent:
        asked = agent.begin_act(**WRITE)
        upstream.wait_for_request()
        fill_up(house)
        exhaust(house)
        upstream.answers.set()
        told = agent.end_act(asked)

    assert UNKNOWN == gist(told)
    stops(house)
    empty(house)
    house.start().open()

    assert [told["correlation_id"]] == in_doubt(house)
    assert "OK" == verdict(house)
    with house.agent() as agent:
        assert "reconcile_required" == agent.act(**WRITE)["category"]
    assert 1 == len(upstream.requests)


def test_a_disk_that_is_full_at_the_start_is_told_and_mended_without_loss(house: House, upstream: Upstream) -> None:
    works(house, upstream)
    stops(house)
    fill_up(house)
    refused = house.run_daemon()

    assert 1 == refused.returncode
    assert b"No space left" in refused.stderr, refused.stderr
    assert b"Traceback" not in refused.stderr
    empty(house)
    house.start().open()
    assert "OK" == verdict(house)
    works(house, upstream)
