"""Custody of the log by a real daemon: what was done to it while nobody looked, who is told, what a human can do."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.audit.ladder import in_file
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Verdict, VerdictName
from broker.audit.verify import verify
from broker.client.approver import ApproverKey
from broker.client.control_answers import part
from broker.client.faults import Refused
from broker.server.shapes import check
from tests.live.house import House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live
CREATE = {"service": "open", "method": "POST", "path": "/things"}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> House:
    """An installation that was used, and stopped cleanly."""
    with open_house(tmp_path_factory.mktemp("used") / "h", origin=upstream.origin) as made:
        with made.agent() as agent:
            assert "success" == agent.act(**CREATE)["category"]
        made.stop()
        return made


@pytest.fixture
def house(tmp_path: Path, used: House) -> Iterator[House]:
    with House.like(used, tmp_path / "h") as made:
        yield made


def status(house: House) -> dict[str, Any]:
    return dict(house.human.client.status())


def quarantined(house: House, reason: str) -> dict[str, Any]:
    """The status once the daemon says so."""

    def told() -> dict[str, Any] | None:
        found = status(house)
        return found if found["vault"]["state"] == "quarantined" else None

    found = until(told)
    assert found is not None
    assert reason == found["vault"]["reason"]
    assert any(reason in warning for warning in found["warnings"])
    return found


def looked(house: House) -> dict[str, Any]:
    """The status once the verification of the start has ended."""

    def told() -> dict[str, Any] | None:
        found = status(house)
        return found if found["audit"]["verified_at"] is not None else None

    found = until(told)
    assert found is not None
    return found


def offline(house: House) -> Verdict:
    """What `audit verify` says of the state."""
    places = house.places
    return verify(places.audit, pin=Pin.load(places.pin), anchors=in_file(Anchor.load(places.anchor_head)))


def works(house: House) -> None:
    with house.agent() as agent:
        assert "success" == agent.act(**CREATE)["category"]


def refused_unlock(house: House) -> str:
    with pytest.raises(Refused) as refused:
        house.human.unlock()
    return str(refused.value)


def test_a_whole_log_is_verified_at_the_start_and_at_each_unlock(house: House) -> None:
    house.start()
    found = looked(house)
    assert ("OK", "file", False) == tuple(found["audit"][name] for name in ("verdict", "rung", "known"))
    assert "locked" == found["vault"]["state"]
    answer: dict[str, Any] = house.human.client.unlock(house.keys.vault_kek.reveal())
    assert ("OK", "vault", False) == tuple(answer["audit"][name] for name in ("verdict", "rung", "known"))
    house.human.open_session()
    told = [(event["fields"]["verdict"], event["fields"]["rung"]) for event in house.human.events("audit.verified")]
    assert [("OK", "file"), ("OK", "vault")] == told[-2:]
    works(house)


def test_the_root_countersigns_the_head_at_each_unlock(house: House) -> None:
    log_id = Pin.load(house.places.pin).log_id
    content = (house.places.audit / "00000001.seg").read_bytes()
    before = content.count(f"\n— doorward/{log_id} ".encode())
    house.start()
    looked(house)
    house.human.unlock()
    house.stop()
    content = (house.places.audit / "00000001.seg").read_bytes()

    assert before + 1 == content.count(f"\n— doorward/{log_id} ".encode())
    assert VerdictName.OK == offline(house).verdict


# -- a seed that was lost while the daemon was down


def spoil_by_removing(house: House) -> None:
    (seed,) = house.places.seeds.iterdir()
    seed.unlink()


def spoil_by_removing_all(house: House) -> None:
    shutil.rmtree(house.places.seeds)


def spoil_by_another(house: House) -> None:
    (seed,) = house.places.seeds.iterdir()
    seed.write_bytes(os.urandom(seed.stat().st_size))


def spoil_by_a_directory(house: House) -> None:
    (seed,) = house.places.seeds.iterdir()
    seed.unlink()
    seed.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [spoil_by_removing, spoil_by_removing_all, spoil_by_another, spoil_by_a_directory],
    ids=lambda f: f.__name__,
)
def test_a_lost_seed_lets_refusals_be_recorded_and_nothing_run_until_a_human_endorses(
    house: House, spoil: Callable[[House], None]
) -> None:
    spoil(house)
    house.start()
    found = quarantined(house, "audit_unendorsed")
    assert "FORGED_SIGNATURE" == found["audit"]["verdict"]
    with house.agent() as agent:
        refused = agent.act(**CREATE)
    assert ("vault_locked", "quarantined") == (refused["category"], refused["code"])
    assert "audit_unendorsed" in refused_unlock(house)
    house.stop()
    assert VerdictName.FORGED_SIGNATURE == offline(house).verdict
    house.start()
    shown = house.human.readopt()
    assert "audit_unendorsed" == shown["reason"]
    works(house)
    house.human.open_session()
    recorded = {event["correlation_id"]: event["fields"] for event in house.human.events("action.result")}
    assert "quarantined" == recorded[refused["correlation_id"]]["code"]
    (taken,) = house.human.events("vault.readopted")
    assert ("audit_unendorsed", "FORGED_SIGNATURE", False) == tuple(
        taken["fields"][name] for name in ("why", "verdict", "known")
    )
    house.stop()

    verdict = offline(house)
    assert VerdictName.OK == verdict.verdict
    assert f"{shown['found']['seq']}" in verdict.note, verdict.note
    house.start().human.unlock()
    works(house)


# -- anchor, pin, directory


def test_a_missing_anchor_is_told_and_stops_nothing(house: House) -> None:
    house.places.anchor_head.unlink()
    house.start()
    found = looked(house)
    assert "OK_UNANCHORED" == found["audit"]["verdict"]
    assert any("anchor" in warning and "missing" in warning for warning in found["warnings"])
    house.human.unlock()
    assert ("OK", "vault") == tuple(status(house)["audit"][name] for name in ("verdict", "rung"))
    works(house)


@pytest.fixture
def other(tmp_path: Path) -> House:
    """Another installation's state."""
    return House(tmp_path / "o").init()


def test_another_installations_anchor_lets_nothing_run(house: House, other: House) -> None:
    shutil.copy(other.places.anchor_head, house.places.anchor_head)
    house.start()
    quarantined(house, "audit_wrong_log")
    with house.agent() as agent:
        assert "broker_unavailable" == agent.act(**CREATE)["category"]  # nor can it be recorded
    house.human.readopt()
    works(house)
    house.stop()
    assert VerdictName.OK == offline(house).verdict
    house.start().human.unlock()


@pytest.mark.parametrize("how", ["missing", "garbage"])
def test_without_its_pin_the_daemon_says_so_and_does_not_start(house: House, how: str) -> None:
    house.places.pin.unlink()
    if how == "garbage":
        house.places.pin.write_bytes(b"{}")
        house.places.pin.chmod(0o600)
    done = house.run_daemon()
    (line,) = done.stderr.decode().splitlines()
    assert 1 == done.returncode
    assert "audit.pin" in line


@pytest.mark.parametrize("how", ["other", "edited"])
def test_another_pin_lets_nothing_run_and_is_never_taken_over(house: House, other: House, how: str) -> None:
    own = house.places.pin.read_text()
    foreign = (
        other.places.pin.read_text() if how == "other" else own.replace(Pin.load(house.places.pin).root_key, "a" * 64)
    )
    house.places.pin.write_text(foreign)
    house.start()
    quarantined(house, "audit_wrong_log")
    with pytest.raises(Refused, match="pin") as refused:
        house.human.readopt()
    assert "damaged" == refused.value.code
    assert "quarantined" == status(house)["vault"]["state"]
    house.stop()
    house.places.pin.write_text(own)
    house.start()
    house.human.readopt()  # the quarantine stays until a human's word, also once the pin is right again
    works(house)


def test_a_log_that_is_gone_can_be_taken_over_and_stays_told(house: House) -> None:
    shutil.rmtree(house.places.audit)
    house.start()
    found = quarantined(house, "audit_empty_or_missing")
    assert -1 == found["audit"]["seq"]
    assert "every record" == house.human.readopt()["lost"]
    works(house)
    for _ in range(2):
        house.stop()
        assert VerdictName.GAP == offline(house).verdict
        house.start()
        found = looked(house)
        assert ("GAP", True, "locked") == (found["audit"]["verdict"], found["audit"]["known"], found["vault"]["state"])
        house.human.unlock()
        works(house)


def test_somebody_elses_log_dropped_in_is_kept_and_gone_on_behind(house: House, other: House) -> None:
    shutil.rmtree(house.places.audit)
    shutil.copytree(other.places.audit, house.places.audit)
    house.start()
    quarantined(house, "audit_wrong_log")
    house.human.readopt()
    works(house)
    house.stop()
    assert VerdictName.WRONG_LOG == offline(house).verdict
    assert (other.places.audit / "00000001.seg").read_bytes() == (house.places.audit / "00000001.seg").read_bytes()
    house.start().human.unlock()


@pytest.mark.parametrize("prefix", [b"", b"\xff\xfe", b"\x1b[2J\n"], ids=["plain", "no UTF-8", "a terminal's"])
def test_a_stranger_in_the_logs_directory_keeps_the_vault_locked_with_words(house: House, prefix: bytes) -> None:
    stranger = house.places.audit / os.fsdecode(prefix + b"note.txt")
    stranger.write_text("x")
    house.start()
    until(lambda: house.human.client.status()["warnings"])
    assert "locked" == status(house)["vault"]["state"]
    assert "note.txt" in refused_unlock(house)
    assert "locked" == status(house)["vault"]["state"]
    house.stop()
    stranger.unlink()
    house.start().human.unlock()
    works(house)


# -- altered records


def flip(path: Path, offset: int) -> None:
    """In place, also under a writer that has it open."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        (octet,) = os.pread(descriptor, 1, offset)
        os.pwrite(descriptor, bytes([octet ^ 1]), offset)
    finally:
        os.close(descriptor)


def test_known_damage_quarantines_no_more_and_further_damage_does(house: House) -> None:
    first = house.places.audit / "00000001.seg"
    flip(first, 700)
    house.start()
    quarantined(house, "audit_altered")
    check(status(house), "status")
    shown = house.human.readopt()
    check(shown, "quarantine")
    assert ("ALTERED", "00000001.seg") == (shown["found"]["verdict"], shown["found"]["segment"])
    works(house)
    house.stop()
    assert VerdictName.ALTERED == offline(house).verdict
    house.start()
    found = looked(house)
    assert ("ALTERED", True, "locked") == (found["audit"]["verdict"], found["audit"]["known"], found["vault"]["state"])
    house.human.unlock()
    works(house)
    house.human.client.lock()
    flip(first, 900)
    assert "audit_altered" in refused_unlock(house)
    house.stop()
    house.start()
    quarantined(house, "audit_altered")
    house.human.readopt()
    works(house)


def test_the_copy_in_clear_only_spares_a_quarantine_at_the_start(house: House) -> None:
    """What is sealed decides: a forged copy hides nothing from an unlock."""
    first = house.places.audit / "00000001.seg"
    flip(first, 700)
    house.start()
    quarantined(house, "audit_altered")
    house.human.readopt()
    house.stop()
    forged = house.places.known_damage.read_bytes()
    house.places.known_damage.unlink()
    house.start()
    quarantined(house, "audit_altered")  # nothing says that it is known
    house.human.readopt()
    house.stop()
    assert forged != house.places.known_damage.read_bytes()


def test_records_altered_under_a_locked_daemon_are_found_at_the_unlock(house: House) -> None:
    house.start()
    looked(house)
    flip(house.places.audit / "00000001.seg", 700)
    assert "audit_altered" in refused_unlock(house)
    with house.agent() as agent:
        assert "quarantined" == agent.act(**CREATE)["code"]
    house.human.readopt()
    works(house)


# -- what a human's word is good for


def test_nothing_is_taken_over_but_what_was_shown_and_signed(house: House) -> None:
    flip(house.places.audit / "00000001.seg", 700)
    house.start()
    quarantined(house, "audit_altered")
    human, client = house.human, house.human.client
    statement = part(client.quarantine(), "statement")
    kek, stranger = human.keys.vault_kek.reveal(), ApproverKey(log_id=house.log_id, seed=b"s" * 32)
    with pytest.raises(Refused) as unlike:
        client.readopt({**statement, "head": "0" * 64}, kek, human.key)
    with pytest.raises(Refused) as unknown:
        client.readopt(statement, kek, stranger)
    with pytest.raises(Refused) as wrong:
        client.readopt(statement, b"w" * 32, human.key)
    flip(house.places.audit / "00000001.seg", 1300)
    with pytest.raises(Refused) as changed:
        client.readopt(statement, kek, human.key)
    assert ["changed", "bad_signature", "wrong_passphrase", "changed"] == [
        each.value.code for each in (unlike, unknown, wrong, changed)
    ]
    assert "quarantined" == status(house)["vault"]["state"]


def test_a_vault_that_is_not_quarantined_is_not_taken_over(house: House) -> None:
    house.start()
    assert {"state": "locked", "reason": None} == house.human.client.quarantine()
    with pytest.raises(Refused) as refused:
        house.human.client.readopt(
            {"reason": "audit_altered", "verdict": None, "seq": None, "head": None},
            house.keys.vault_kek.reveal(),
            house.human.key,
        )
    assert "settled" == refused.value.code
