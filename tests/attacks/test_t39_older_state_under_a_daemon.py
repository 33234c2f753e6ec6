"""T39, T24: what a real daemon notices when older state is put back while it is down, and what nothing here can notice.

From the vault alone to everything at once: the more of the state goes back together, the farther away the knowledge
has to be kept that shows it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.audit.ladder import in_file
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import Verdict, VerdictName
from broker.audit.verify import verify
from broker.client.control_answers import part
from broker.client.faults import Refused
from tests.live.house import House, open_house, until
from tests.live.plain_upstream import Upstream, serving

pytestmark = pytest.mark.live
CREATE = {"service": "open", "method": "POST", "path": "/things"}
LOG, SEEDS, ANCHOR, VAULT, LEDGER, KNOWN = "audit", "seeds", "anchor", "vault", "ledger", "known_damage"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


class Twice:
    """An installation in its earlier state, the later one, and a note of the later head that was kept elsewhere."""

    def __init__(self, earlier: House, later: House, note: bytes) -> None:
        self.earlier = earlier
        self.later = later
        self.note = note

    def with_older(self, home: Path, *parts: str) -> House:
        """The later installation with some parts of the earlier one put back."""
        house = House.like(self.later, home)
        for name in parts:
            here, older = getattr(house.places, name), getattr(self.earlier.places, name)
            if here.is_dir():
                shutil.rmtree(here)
                shutil.copytree(older, here)
            elif older.exists():
                shutil.copy2(older, here)
        return house


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Twice]:
    base = tmp_path_factory.mktemp("twice")
    with open_house(base / "h", origin=upstream.origin) as house:
        house.stop()
        earlier = House.like(house, base / "earlier")
        house.open()
        house.human.add_bearer("later", "canary-later", upstream.origin)
        with house.agent() as agent:
            assert "success" == agent.act(**CREATE)["category"]
        note = house.human.client.audit_checkpoint()["note"]
        assert isinstance(note, str)
        house.stop()
        yield Twice(earlier, house, note.encode())


def state(house: House) -> tuple[object, object]:
    vault = part(house.human.client.status(), "vault")
    return vault["state"], vault["reason"]


def refused_at_unlock(house: House) -> str:
    """The reason of the quarantine that an unlock meets, or makes."""
    with pytest.raises(Refused) as refused:
        house.human.unlock()
    assert "vault_locked" == refused.value.code
    found, reason = state(house)
    assert "quarantined" == found
    return str(reason)


def held_against(house: House, note: bytes | None) -> Verdict:
    places = house.places
    anchors = in_file(Anchor.load(places.anchor_head))
    return verify(places.audit, pin=Pin.load(places.pin), anchors=anchors, checkpoint=note)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((VAULT,), "generation_went_back"),
        ((LOG,), "audit_truncated"),
        ((LOG, SEEDS), "audit_truncated"),
        ((LOG, ANCHOR), "audit_rollback"),  # the key that is held is of a later epoch
        ((LOG, ANCHOR, SEEDS), "audit_truncated"),  # the vault remembers a later head
        ((SEEDS,), "audit_rollback"),
        ((ANCHOR,), None),  # an anchor that lags proves less and is made anew
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else None,
)
def test_older_parts_put_back_are_noticed_and_can_be_taken_over(
    twice: Twice, tmp_path: Path, parts: tuple[str, ...], reason: str | None
) -> None:
    with twice.with_older(tmp_path / "h", *parts) as house:
        house.start()
        if reason is None:
            house.human.unlock()
            return
        assert reason == refused_at_unlock(house)
        with house.agent() as agent:
            refused = agent.act(**CREATE)
        assert (refused["category"], refused["code"]) in {
            ("vault_locked", "quarantined"),
            ("broker_unavailable", "audit_unwritable"),
        }
        house.human.readopt()
        assert ("ready", None) == state(house)
        house.stop()
        house.start()
        house.human.unlock()
        assert ("ready", None) == state(house)


@pytest.mark.parametrize("parts", [(LOG, ANCHOR), (LOG, ANCHOR, SEEDS)], ids="+".join)
def test_a_note_kept_elsewhere_tells_of_the_missing_end_for_ever(
    twice: Twice, tmp_path: Path, parts: tuple[str, ...]
) -> None:
    with twice.with_older(tmp_path / "h", *parts) as house:
        house.start()
        refused_at_unlock(house)
        house.human.readopt()
        for _ in range(8):  # it grows beyond what the note names
            house.stop()
            house.start()
        house.stop()

        assert VerdictName.OK == held_against(house, None).verdict
        assert VerdictName.ROLLBACK == held_against(house, twice.note).verdict


def test_everything_put_back_together_is_noticed_by_nothing_here_but_by_a_note_kept_elsewhere(
    twice: Twice, tmp_path: Path
) -> None:
    with twice.with_older(tmp_path / "h", LOG, ANCHOR, SEEDS, VAULT, LEDGER) as house:
        assert VerdictName.OK == held_against(house, None).verdict
        assert VerdictName.TRUNCATED == held_against(house, twice.note).verdict
        house.start()
        house.human.unlock()
        assert ("ready", None) == state(house)
        house.human.open_session()
        assert "later" not in [row["name"] for row in house.human.client.credentials()]


def test_an_older_vault_that_is_taken_over_has_forgotten_what_came_later(twice: Twice, tmp_path: Path) -> None:
    with twice.with_older(tmp_path / "h", VAULT) as house:
        house.start()
        assert "generation_went_back" == refused_at_unlock(house)
        shown = house.human.readopt()
        assert "credentials, the trusted policy" in str(shown["lost"])
        house.human.open_session()
        assert "later" not in [row["name"] for row in house.human.client.credentials()]
        (taken,) = house.human.events("vault.readopted")
        assert ("generation_went_back", "OK") == (taken["fields"]["why"], taken["fields"]["verdict"])


def test_a_vault_whose_records_do_not_agree_needs_a_backup(twice: Twice, tmp_path: Path) -> None:
    import sqlite3  # noqa: PLC0415 - for this one test
    from contextlib import closing  # noqa: PLC0415 - likewise

    with twice.with_older(tmp_path / "h") as house:
        with closing(sqlite3.connect(house.places.vault)) as connection, connection:
            connection.execute("DELETE FROM records WHERE rowid = (SELECT max(rowid) FROM records)")
        house.start()
        assert "record_missing" == refused_at_unlock(house)
        told = house.human.client.quarantine()
        assert (False, True) == (told["adoptable"], "backup" in str(told["remedy"]))
        with pytest.raises(Refused, match="backup") as refused:
            house.human.readopt()
        assert "damaged" == refused.value.code


def test_the_quarantine_lasts_over_a_restart(twice: Twice, tmp_path: Path) -> None:
    with twice.with_older(tmp_path / "h", VAULT) as house:
        house.start()
        refused_at_unlock(house)
        house.stop()
        house.start()
        assert ("quarantined", "generation_went_back") == state(house)
        until(lambda: part(house.human.client.status(), "audit")["verified_at"])
        assert ("quarantined", "generation_went_back") == state(house)
