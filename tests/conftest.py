"""What all tests start from, however they were started."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fakes.zones import in_zone

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job hands that on to all that we start
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Path]:
    """A place for secrets that a test lays out itself; it goes with them, and what else is found was left behind."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture
def in_utc() -> Iterator[None]:
    """Times of day are drawn as in UTC, wherever the tests run."""
    with in_zone("UTC"):
        yield


# How long one example takes depends on who else uses the machine. A run tells of a change and not of its luck: the same
# examples each time, and others with `make explore`.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("explore" if os.environ.get("DOORWARD_EXPLORE") else "repeatable")
