"""What somebody does to the log's files under a running daemon: it is noticed before a byte is sent, and told right.

Each deed is done to a daemon that serves. The verdict of the verifier is what the files are then; the next daemon says
what is wrong and opens nothing, until the files are mended as docs/faults.md says.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.client.faults import Refused
from tests.fakes.upstream import respond
from tests.live import plain_upstream
from tests.live.audit_cases import WRITE, in_doubt, segment, status, stops, verdict, warned, works
from tests.live.house import House, until
from tests.live.plain_upstream import Upstream
from tests.live.rough_upstream import misbehaving

pytestmark = pytest.mark.live

Deed = Callable[[House], None]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with plain_upstream.serving() as serving:
        yield serving


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    with House(tmp_path / "h") as built:
        yield built.init().open(origin=upstream.origin)


def deleted(house: House) -> None:
    segment(house).unlink()


def replaced(house: House) -> None:
    """By a copy, with the file itself moved aside."""
    path = segment(house)
    path.rename(path.with_name("aside"))
    shutil.copy(path.with_name("aside"), path)


def replaced_at_once(house: House) -> None:
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
    (house.places.data / "second").hardlink_to(segment(house))


def moved(house: House) -> None:
    house.places.audit.rename(house.places.data / "elsewhere")


def deleted_whole(house: House) -> None:
    shutil.rmtree(house.places.audit)


def restored(house: House) -> None:
    """From the copy that was made before."""
    shutil.rmtree(house.places.audit, ignore_errors=True)
    shutil.copytree(house.places.data / "backup", house.places.audit)


def moved_back(house: House) -> None:
    shutil.rmtree(house.places.audit, ignore_errors=True)
    (house.places.data / "elsewhere").rename(house.places.audit)


def nothing(house: House) -> None:
    del house


@dataclass(frozen=True, kw_only=True)
class Case:
    deed: Deed
    warning: str  # while the daemon goes on serving
    verdict: str  # of the files as they are then
    vault: str  # after the restart, before anything was mended
    mend: Deed


CASES = [
    Case(deed=deleted, warning="No such file", verdict="EMPTY_OR_MISSING", vault="quarantined", mend=restored),
    Case(
        deed=replaced,
        warning="was replaced",
        verdict="UNREADABLE",
        vault="locked",
        mend=lambda house: (house.places.audit / "aside").unlink(),
    ),
    Case(deed=replaced_at_once, warning="was replaced", verdict="OK", vault="ready", mend=nothing),
    Case(deed=truncated, warning="bytes where", verdict="TRUNCATED", vault="quarantined", mend=restored),
    Case(deed=emptied, warning="bytes where", verdict="EMPTY_OR_MISSING", vault="quarantined", mend=restored),
    Case(deed=grown, warning="bytes where", verdict="ALTERED", vault="quarantined", mend=restored),
    Case(
        deed=linked,
        warning="was linked",
        verdict="UNREADABLE",
        vault="locked",
        mend=lambda house: (house.places.data / "second").unlink(),
    ),
    Case(
        deed=moved,
        warning="No such file",
        verdict="EMPTY_OR_MISSING",
        vault="quarantined",
        mend=moved_back,
    ),
    Case(deed=deleted_whole, warning="No such file", verdict="EMPTY_OR_MISSING", vault="quarantined", mend=restored),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.deed.__name__)
def test_it_is_noticed_before_a_byte_is_sent_told_right_and_can_be_mended(
    house: House, upstream: Upstream, case: Case
) -> None:
    shutil.copytree(house.places.audit, house.places.data / "backup")
    with house.agent() as agent:
        case.deed(house)
        told = [agent.act(**WRITE) for _ in range(2)]

    assert {"broker_unavailable"} == {one["category"] for one in told}
    assert {"none"} == {one["remote_effect"] for one in told}
    assert [] == upstream.requests
    assert case.warning in warned(house)
    assert "unwritable" == status(house)["audit"]["trouble"]
    stops(house)
    assert case.verdict == verdict(house)

    house.start()
    if case.vault == "ready":
        house.open()
    else:
        with pytest.raises(Refused) as refused:
            house.human.unlock()
        assert refused.value.code in {"vault_locked", "audit_unwritable", "quarantined"}, refused.value.code
        until(lambda: case.vault == status(house)["vault"]["state"])
        assert "nothing is recorded and nothing runs" in warned(house)
        with house.agent() as agent:
            assert "none" == agent.act(**WRITE)["remote_effect"]
        stops(house)
        case.mend(house)
        assert "OK" == verdict(house)
        house.start()
        if case.vault == "quarantined":  # that stays until a human's word, whatever was restored
            house.human.readopt()
        house.open()
    assert "OK" == verdict(house)
    assert [] == in_doubt(house)
    works(house, upstream)


# What does not touch what is written, and is told all the same.


def test_a_lost_anchor_is_told_and_made_anew_by_the_next_start(house: House, upstream: Upstream) -> None:
    house.places.anchor_head.unlink()

    assert f"the anchor of the audit log ({house.places.anchor_head}) is gone" in warned(house)
    assert not status(house)["audit"]["anchored"]
    works(house, upstream)
    house.kill()
    assert "OK_UNANCHORED" == verdict(house)
    house.start().open()

    assert "OK" == verdict(house)
    assert "missing at the start" in warned(house)
    works(house, upstream)


@pytest.mark.parametrize("place", ["segment", "directory"])
def test_a_log_that_was_opened_to_others_is_told_and_refused_by_the_next_start(
    house: House, upstream: Upstream, place: str
) -> None:
    path = segment(house) if place == "segment" else house.places.audit
    mode = path.stat().st_mode & 0o777
    path.chmod(mode | 0o066)

    assert f"{path} is open to others" in warned(house)
    works(house, upstream)
    stops(house)
    assert "OK" == verdict(house)
    refused = house.run_daemon()
    assert 1 == refused.returncode
    assert f"{path} is open to others".encode() in refused.stderr

    path.chmod(mode)
    house.start().open()
    works(house, upstream)


@pytest.mark.parametrize("place", ["gone", "a file"])
def test_diagnostics_without_a_place_cost_no_action(tmp_path: Path, place: str) -> None:
    with misbehaving(behaviours={"/open/orders": respond(503)}) as failing, House(tmp_path / "h") as house:
        house.init().open(origin=failing.origin)
        shutil.rmtree(house.places.diagnostics)
        if place == "a file":
            house.places.diagnostics.write_text("in the way")
        with house.agent() as agent:
            told = agent.act(service="open", method="GET", path="/orders")

        assert ("confirmed_failure", "remote_error") == (told["category"], told["code"])
        assert (place == "gone") == (told["diagnostics_ref"] is not None)
        assert (place == "a file") == ("details of failures can't be kept" in warned(house))


def test_a_directory_of_seeds_that_went_under_the_daemon_is_made_anew(house: House) -> None:
    shutil.rmtree(house.places.seeds)
    house.human.client.lock()

    assert "locked" == status(house)["vault"]["state"]
    assert [0o600] == [path.stat().st_mode & 0o777 for path in house.places.seeds.iterdir()]
    stops(house)
    assert "OK" == verdict(house)
    house.start()
    house.human.unlock()
    assert "ready" == status(house)["vault"]["state"]


def test_a_lost_seed_is_told_and_nobody_vouches_until_a_human_looked(house: House, upstream: Upstream) -> None:
    house.human.client.lock()
    stops(house)
    shutil.rmtree(house.places.seeds)
    assert "OK" == verdict(house)
    house.start()

    with house.agent() as agent:
        assert "none" == agent.act(**WRITE)["remote_effect"]
    assert [] == upstream.requests
    assert "seed was lost" in warned(house)
    with pytest.raises(Refused, match="readopt"):
        house.human.unlock()
    assert "quarantined" == status(house)["vault"]["state"]
