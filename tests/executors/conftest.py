from collections.abc import AsyncIterator

import pytest

from broker.executors.https import HttpsExecutor
from tests.fakes.authority import Authority
from tests.fakes.https_calls import OneSecret


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def secrets() -> OneSecret:
    return OneSecret()


@pytest.fixture
async def executor(secrets: OneSecret) -> AsyncIterator[HttpsExecutor]:
    made = HttpsExecutor(secrets=secrets, body_limit_bytes=lambda: 262_144, version="0.0.test")
    yield made
    await made.close()
