"""Where the log's head is kept, in figures; and the checkpoints that stand in it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.audit.checkpoint import in_figures
from broker.core.audit_query import AuditQuery
from broker.daemon.log_reach import reach
from broker.daemon.reading import AuditReading
from broker.server.faults import ControlError
from tests.fakes.logs import SmallLog, an_event, new_log, paths_in


@pytest.fixture
def log(tmp_path: Path) -> SmallLog:
    return new_log(tmp_path)


def test_the_head_is_told_with_its_file_and_time_and_the_rungs_with_their_records(log: SmallLog) -> None:
    with log.writer() as writer:
        for number in range(5):
            writer.append_blocking(an_event(number))
        seq, h = writer.head
        told: Any = reach(log.paths, hash_=h, keyring_seq=None, vault_seq=2)

        assert {"file": seq, "keyring": None, "vault": 2} == told["anchors"]
        assert (h, 1) == (told["head"]["hash"], told["head"]["segment"])
        assert told["head"]["at_ms"] > 0
        assert writer.behind_ms >= 0


def test_a_lost_anchor_is_told_as_not_known(tmp_path: Path) -> None:
    told: Any = reach(paths_in(tmp_path), hash_="ab", keyring_seq=7, vault_seq=None)

    assert {"file": None, "keyring": 7, "vault": None} == told["anchors"]
    assert {"hash": "ab", "segment": None, "at_ms": None} == told["head"]


async def test_checkpoints_are_listed_newest_first_a_page_at_a_time(log: SmallLog) -> None:
    with log.writer() as writer:
        notes = []
        for number in range(3):
            writer.append_blocking(an_event(number))
            notes.append(await writer.checkpoint(log.root if number else None))
        async with asyncio.TaskGroup() as tasks:
            reading = AuditReading(directory=log.directory, head=lambda: writer.head[0], tasks=tasks)
            with pytest.raises(ControlError):
                await reading.checkpoints(AuditQuery(limit=2))
            reading.open(log.secrets.audit_sk)
            first: Any = await reading.checkpoints(AuditQuery(limit=2))
            rest: Any = await reading.checkpoints(AuditQuery(limit=2, before_seq=first["next_seq"]))
            reading.shut()

    found = [*first["checkpoints"], *rest["checkpoints"]]
    assert [note.decode() for note in reversed(notes)] == [one["note"] for one in found]
    assert [True, True, False] == [one["countersigned"] for one in found]
    assert [one["seq"] for one in found] == [one["size"] for one in found]  # the tree holds all records before it
    assert all(isinstance(one["at_ms"], int) for one in found)
    assert (True, None) == (rest["whole"], rest["next_seq"])


def test_a_note_that_can_not_be_read_has_no_figures() -> None:
    told = in_figures(9, b"\xff not a note", None)

    assert (None, None, False) == (told["size"], told["epoch"], told["countersigned"])
