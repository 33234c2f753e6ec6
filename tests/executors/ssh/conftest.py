"""One lab of real OpenSSH servers for the tests of the executor, and an executor for each test."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from broker.core.credential import CredentialSecret
from broker.core.ssh.frozen import SshAction, SshDeadlines
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import SshOutcome
from broker.executors.ssh import SshExecutor
from broker.executors.ssh.command import Graces
from broker.executors.ssh.login import Keepalive
from broker.executors.ssh.pool import PoolLimits
from tests.fakes.ssh_calls import QUICK, OneLogin, Trusting, frozen, host, key_secret, permit
from tests.live.sshd import NORMAL, Account, Lab, Sshd, open_lab

QUICK_GRACES = Graces(term_s=0.5, close_s=0.5, after_exit_s=0.4)


class Bench:
    """An executor against the lab, with what a test needs to say of an attempt."""

    def __init__(self, lab: Lab, secret: CredentialSecret) -> None:
        self.lab = lab
        self.logins = OneLogin(secret)
        self.trust = Trusting()
        self.executor = SshExecutor(
            secrets=self.logins,
            trust=self.trust,
            graces=QUICK_GRACES,
            keepalive=Keepalive(interval_s=0.3, missed=1),
            limits=PoolLimits(),
        )

    async def run(
        self,
        target: SshHost,
        action: SshAction,
        *,
        deadlines: SshDeadlines = QUICK,
        output_bytes: int = 65_536,
        operation_id: str | None = None,
    ) -> SshOutcome:
        request = frozen(target, action, deadlines=deadlines, output_bytes=output_bytes)
        return await self.executor.execute(permit(request, operation_id=operation_id))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


@pytest.fixture(scope="session")
def server(lab: Lab) -> Sshd:
    return lab.start(NORMAL)


@pytest.fixture(scope="session")
def account(lab: Lab) -> Account:
    return lab.account("bash")


@pytest.fixture
async def bench(lab: Lab) -> AsyncIterator[Bench]:
    made = Bench(lab, key_secret(lab.user_key))
    yield made
    await made.executor.close()


@pytest.fixture
def target(lab: Lab, server: Sshd, account: Account) -> SshHost:
    """The normal server, by the host keys that it has."""
    return host(server.port, account.name, known_hosts=lab.known_hosts(server))


@pytest.fixture
def by_port(lab: Lab, server: Sshd, account: Account) -> Callable[[int], SshHost]:
    """The normal server behind another port."""

    def make(port: int) -> SshHost:
        keys = lab.known_hosts(server).replace(f":{server.port} ", f":{port} ")
        return host(port, account.name, known_hosts=keys)

    return make
