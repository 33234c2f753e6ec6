"""A bus of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.bus import PrivateBus


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[PrivateBus]:
    with PrivateBus(tmp_path / "bus") as made:
        yield made
