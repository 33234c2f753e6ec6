"""The machine's time zone, for as long as a test wants it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def in_zone(name: str) -> Iterator[None]:
    """As the TZ variable spells it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()
