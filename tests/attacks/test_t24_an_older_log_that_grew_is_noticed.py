"""T24: an older log, put back with all that belongs to it and grown beyond what the vault remembers, is noticed."""

import shutil
from pathlib import Path

import pytest

from broker.client.faults import Refused
from tests.live.house import House, open_house

pytestmark = pytest.mark.live


def parts_of(house: House) -> list[Path]:
    """The log, its seeds and its anchor: all that a process of the same user can copy while the daemon runs."""
    return [house.places.audit, house.places.seeds, house.places.anchor]


def test_what_was_recorded_after_the_copy_is_missed(tmp_path: Path) -> None:
    with open_house(tmp_path / "h") as house:
        for part in parts_of(house):
            shutil.copytree(part, tmp_path / "copy" / part.name)
        house.human.client.lock()
        house.human.unlock()
        house.stop()
        for part in parts_of(house):
            shutil.rmtree(part)
            shutil.copytree(tmp_path / "copy" / part.name, part)
        for _ in range(6):  # each start writes records of its own
            house.start().stop()
        house.start()

        with pytest.raises(Refused, match="audit_rollback") as refused:
            house.human.unlock()
        assert "vault_locked" == refused.value.code
        assert "quarantined" == house.human.ask("GET", "/v1/status")[1]["vault"]["state"]
