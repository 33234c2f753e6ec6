"""Files that are written whole or not at all, by a draft beside them."""

import os
from pathlib import Path

import pytest

from broker.audit.disk import LocalDisk, write_durably
from tests.fakes.strangers import KINDS, put


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_in_the_place_of_a_draft_is_neither_waited_for_nor_written_through(tmp_path: Path, kind: str) -> None:
    draft, other = tmp_path / ".file.new", tmp_path / "other"
    put(kind, draft, other)
    write_durably(tmp_path / "file", b"new", LocalDisk())

    assert (b"new", b"another's") == ((tmp_path / "file").read_bytes(), other.read_bytes())
    assert not os.path.lexists(draft)
