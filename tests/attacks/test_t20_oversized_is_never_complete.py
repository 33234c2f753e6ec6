"""One byte more than the cap is read, so that a body of exactly the cap is told from a longer one."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Category, Effect, RemoteEffect
from broker.executors.https import HttpsExecutor
from tests.fakes import upstream as up
from tests.fakes.answers import classified
from tests.fakes.https_calls import OneSecret, http, loopback, operation
from tests.fakes.upstream import Upstream

CAP = 1000


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("status", [200, 201])
async def test_an_oversized_success_is_malformed(status: int, packed: bool) -> None:  # noqa: FBT001
    executor = HttpsExecutor(secrets=OneSecret(), body_limit_bytes=lambda: CAP, version="0")
    fits, exceeds = b'"' + b"a" * (CAP - 2) + b'"', b'"' + b"a" * (CAP - 1) + b'"'
    answers = {
        "/fits": up.gzipped(fits) if packed else up.respond(status, fits),
        "/exceeds": up.gzipped(exceeds) if packed else up.respond(status, exceeds),
    }
    write = replace(operation(method="POST", effect=Effect.WRITE), success_statuses=(200, 201))
    async with Upstream(paths=answers) as server:
        good = loopback(server.port, path="/fits", declared=write)
        bad = loopback(server.port, path="/exceeds", declared=write)
        whole = classified(http(good), await executor.execute(good))
        oversized = classified(http(bad), await executor.execute(bad))
    await executor.close()

    assert Category.SUCCESS is whole.verdict.category
    assert (Category.MALFORMED_RESPONSE, "too_large") == (oversized.verdict.category, oversized.verdict.code)
    assert (RemoteEffect.APPLIED if status == 201 and not packed else RemoteEffect.UNKNOWN) is (
        oversized.verdict.remote_effect
    )
    assert oversized.answer is not None
    assert not {"body", "body_json", "body_b64"} & set(oversized.answer.to_json())
