"""A human's word over a damaged log is good for the bytes that were shown, and what is shown has its right name."""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.client.control_answers import part
from broker.client.faults import Refused
from broker.core.chain import HASH_BYTES, HEADER_BYTES, SIGNATURE_BYTES
from tests.live.house import House, open_house, until

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> House:
    """An installation that was used, and stopped cleanly."""
    with open_house(tmp_path_factory.mktemp("used") / "h") as made:
        made.stop()
        return made


@pytest.fixture
def house(tmp_path: Path, used: House) -> Iterator[House]:
    with House.like(used, tmp_path / "h") as made:
        yield made


def reason_of(house: House) -> str | None:
    """Why the vault is quarantined, once the verification of the start has ended."""

    def told() -> dict[str, Any] | None:
        found: dict[str, Any] = dict(house.human.client.status())
        return found if found["audit"]["verified_at"] is not None else None

    found = until(told)
    assert found is not None
    reason: str | None = found["vault"]["reason"]
    return reason


@pytest.mark.parametrize("also", ["nothing", "the anchor"])
def test_a_log_that_is_exchanged_after_the_look_is_not_taken_over_for_the_one_shown(house: House, also: str) -> None:
    """Two older logs, each missing its end: the word that was given over one is not good for the other."""
    audit, anchor, older = house.places.audit, house.places.anchor_head, house.places.data / "older"
    shutil.copytree(audit, older)
    kept = anchor.read_bytes()
    house.start().human.unlock()
    house.stop()
    later = house.places.data / "later"
    shutil.copytree(audit, later)
    house.start().human.unlock()
    house.stop()
    shutil.rmtree(audit)
    shutil.copytree(later, audit)
    house.start()
    assert "audit_truncated" == reason_of(house)
    client, kek = house.human.client, house.keys.vault_kek.reveal()
    statement = part(client.quarantine(), "statement")
    for path in audit.glob("*.seg"):
        path.write_bytes((older / path.name).read_bytes())
    if also == "the anchor":
        anchor.write_bytes(kept)
    with pytest.raises(Refused) as refused:
        client.readopt(statement, kek, house.human.key)
    assert "changed" == refused.value.code
    assert "quarantined" == part(client.status(), "vault")["state"]
    house.stop()
    house.start()
    house.human.readopt()
    assert "ready" == part(client.status(), "vault")["state"]


def with_its_seed_lost(house: House) -> None:
    for seed in house.places.seeds.iterdir():
        seed.unlink()


def with_a_record_altered(house: House) -> None:
    (first, *_) = sorted(house.places.audit.glob("*.seg"))
    content = bytearray(first.read_bytes())
    content[700] ^= 1
    first.write_bytes(content)


def with_a_reason_written_into_the_vault(house: House) -> None:
    """The state of a vault stands in clear beside what is sealed."""
    with closing(sqlite3.connect(house.places.vault)) as vault, vault:
        vault.execute("UPDATE vault SET quarantine = 'changed_underneath'")


@pytest.mark.parametrize(
    ("cover", "milder"),
    [
        (with_its_seed_lost, "audit_unendorsed"),
        (with_a_record_altered, "audit_altered"),
        (with_a_reason_written_into_the_vault, "changed_underneath"),
    ],
    ids=["a lost seed", "an altered record", "a reason of the vault's"],
)
def test_a_log_that_was_cut_off_is_not_taken_over_for_something_milder(
    house: House, cover: Callable[[House], None], milder: str
) -> None:
    """Log, anchor and seed of old, put back: the vault alone knows better, and a takeover makes it forget."""
    parts = (house.places.audit, house.places.anchor_head.parent, house.places.seeds)
    for part_of in parts:
        shutil.copytree(part_of, part_of.with_name(f"{part_of.name}.old"))
    house.start().human.unlock()
    house.stop()
    for part_of in parts:
        shutil.rmtree(part_of)
        part_of.with_name(f"{part_of.name}.old").rename(part_of)
    cover(house)
    house.start()
    assert milder == reason_of(house)
    with pytest.raises(Refused, match="acknowledged records at the end") as refused:
        house.human.readopt()
    assert "changed" == refused.value.code
    assert "audit_truncated" == reason_of(house)
    shown = house.human.readopt()
    assert shown["lost"].startswith("acknowledged records at the end")
    house.human.open_session()
    (taken,) = house.human.events("vault.readopted")
    assert "audit_truncated" == taken["fields"]["why"]


def test_a_forged_record_is_not_told_as_a_lost_seed(house: House) -> None:
    """Whoever writes a record and takes the seed away, so that it looks like a loss, is told of as what he is."""
    house.start().human.unlock()
    house.kill()  # so that the last group is a COMMIT by itself
    (last,) = house.places.audit.glob("*.seg")
    content = bytearray(last.read_bytes())
    content[-HASH_BYTES - 1] ^= 1  # of the signature
    at = len(content) - HASH_BYTES - SIGNATURE_BYTES - HEADER_BYTES
    content[-HASH_BYTES:] = hashlib.sha256(bytes(content[at - HASH_BYTES : -HASH_BYTES])).digest()
    last.write_bytes(content)
    house.places.anchor_head.unlink()
    for seed in house.places.seeds.iterdir():
        seed.unlink()
    house.start()
    assert "audit_forged_signature" == reason_of(house)
    shown = house.human.client.quarantine()
    assert "a COMMIT is not signed by its epoch's key" == part(shown, "found")["note"]
