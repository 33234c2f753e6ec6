"""Bombs, floods and drips cost a bounded amount of memory and time, and are typed."""

import gzip
import time
import tracemalloc

import pytest

from broker.contract.reasons import Category
from broker.core.frozen import Deadlines
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.answers import classified
from tests.fakes.https_calls import OneSecret, http, loopback
from tests.fakes.upstream import Upstream

CAP = 262_144
BRIEF = Deadlines(connect_s=0.3, write_s=0.3, first_byte_s=0.3, total_s=0.4)
EMPTY_MEMBERS = gzip.compress(b"") * 5000
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
HOSTILE = {
    "gzip bomb": (up.gzipped(b"\0" * 50_000_000), Category.MALFORMED_RESPONSE),
    "gzip in gzip bomb": (up.gzipped(gzip.compress(b"\0" * 50_000_000)), None),
    "a flood of empty gzip members": (up.gzipped(b"", tail=EMPTY_MEMBERS), Category.MALFORMED_RESPONSE),
    "a body without end": (up.flood, Category.MALFORMED_RESPONSE),
    "headers without end": (up.endless_header_lines, Category.MALFORMED_RESPONSE),
    "a header without end": (up.endless_header_value, Category.MALFORMED_RESPONSE),
    "a drip": (up.drip, Category.OUTCOME_UNKNOWN),
    "interim answers without end": (up.raw(INTERIM * 50, then="hold"), Category.OUTCOME_UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_answer_costs_little_and_is_typed(name: str) -> None:
    behaviour, category = HOSTILE[name]
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: CAP, version="0")
    async with Upstream(behaviour) as server:
        permit = loopback(server.port, method="GET", deadlines=BRIEF)
        tracemalloc.start()
        began = time.monotonic()
        raw = await executor.execute(permit)
        took_s = time.monotonic() - began
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    await executor.close()

    verdict = classified(http(permit), raw).verdict
    assert category is None or category is verdict.category
    assert len(raw.body) <= CAP
    assert took_s < 15
    assert peak_bytes < 16 * CAP
