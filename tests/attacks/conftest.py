"""An installation with a plain upstream, for attacks on the real daemon. Tests that need another make their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.house import House, open_house
from tests.live.plain_upstream import Upstream, serving


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with serving() as made:
        yield made


@pytest.fixture
def house(tmp_path: Path, upstream: Upstream) -> Iterator[House]:
    with open_house(tmp_path / "h", origin=upstream.origin) as made:
        yield made
