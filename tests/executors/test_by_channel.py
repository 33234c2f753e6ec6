"""Each channel has its executor, and what an attempt taught of a host is kept only where it was proven."""

from dataclasses import replace

import pytest

from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.outcome import RawOutcome
from broker.core.resolve import resolve
from broker.core.ssh.model import HostKeyMode, SshHost
from broker.core.ssh.outcome import HostKeySeen, MarkerState, SshFault, SshOutcome, SshPhase, StoreSeen
from broker.core.ssh.trust import HostKey, KeyState
from broker.executors.by_channel import ByChannel, Collect
from broker.executors.ssh.client import Bound
from broker.ports import Delivery, FrameSink
from tests.fakes import market
from tests.fakes.hosts import SEEN, STORE, ended
from tests.fakes.ssh_calls import Trusting, bare, frozen, host, permit

NEW = host(22, "deploy", mode=HostKeyMode.ACCEPT_NEW)
OTHER = HostKeySeen(algorithm="ssh-ed25519", fingerprint="SHA256:other", public="ssh-ed25519 OTHER")
SHOWN = Delivery(session_id="se_1", host_key=HostKey(state=KeyState.UNVERIFIED, seen=SEEN))


class FakeHttp:
    def __init__(self) -> None:
        self.done: list[str] = []

    async def execute(self, permit: Permit, answer: object = None) -> RawOutcome:
        del answer
        self.done.append(permit.correlation_id)
        return market.answered(200)

    async def close_credential(self, name: str) -> None:
        self.done.append(f"credential {name}")

    async def close(self) -> None:
        self.done.append("close")


class FakeSsh:
    def __init__(self, trust: Trusting) -> None:
        self.outcome = ended(0)
        self.seen: HostKeySeen | SshFault = SEEN
        self.done: list[object] = []
        self.trusted: list[tuple[str, ...]] = []
        self._trust = trust

    async def execute(
        self, permit: Permit, *, frames: FrameSink | None = None, session: str | None = None, bound: Bound | None = None
    ) -> SshOutcome:
        if bound is not None and self.outcome.store is not None:
            await bound(self.outcome.store)
        self.trusted.append(self._trust.known(NEW))
        self.done.append((permit.correlation_id, frames, session))
        return self.outcome

    async def collect(self, permit: Permit, settled: tuple[str, ...]) -> int | None:
        raise AssertionError((permit, settled))

    async def look_at_host(self, host: SshHost) -> HostKeySeen | SshFault:
        self.done.append(host)
        return self.seen

    async def close_credential(self, name: str) -> None:
        self.done.append(f"credential {name}")

    def retire_session(self, session: str) -> None:
        self.done.append(f"session {session}")

    def retire_all(self) -> None:
        self.done.append("all")

    async def close(self) -> None:
        self.done.append("close")


class FakeMarkers:
    def __init__(self) -> None:
        self.stores: list[tuple[str, StoreSeen]] = []
        self.hosts: list[tuple[Permit, Collect]] = []

    async def bound(self, correlation_id: str, store: StoreSeen) -> None:
        self.stores.append((correlation_id, store))

    def used(self, permit: Permit, collect: Collect) -> None:
        self.hosts.append((permit, collect))


class Bench:
    def __init__(self) -> None:
        self.trust = Trusting()
        self.http, self.ssh = FakeHttp(), FakeSsh(self.trust)
        self.markers = FakeMarkers()
        self.both = ByChannel(http=self.http, ssh=self.ssh, trust=self.trust, markers=self.markers)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_key_that_the_policy_names_or_a_human_accepted_needs_no_look(bench: Bench) -> None:
    bench.trust.stores["web-1"] = STORE
    bench.trust.keys["web-1"] = (SEEN.public,)
    strict = host(22, "deploy", known_hosts="web-1 key")
    pinned = host(22, "deploy", mode=HostKeyMode.PINNED, pins=("SHA256:x",))

    for target, state in ((strict, KeyState.KNOWN_HOSTS), (pinned, KeyState.PINNED), (NEW, KeyState.ACCEPTED)):
        assert HostKey(state=state, store=STORE) == await bench.both.host_key(frozen(target, bare("x")))
    assert [] == bench.ssh.done


async def test_an_unknown_host_is_looked_at_and_nothing_of_it_is_trusted_by_that(bench: Bench) -> None:
    assert SHOWN.host_key == await bench.both.host_key(frozen(NEW, bare("x")))
    assert () == bench.trust.known(NEW)

    bench.ssh.seen = SshFault.CONNECT_REFUSED
    assert SshFault.CONNECT_REFUSED is await bench.both.host_key(frozen(NEW, bare("x")))


async def test_http_has_no_host_key_and_its_own_executor(bench: Bench) -> None:
    request = resolve(market.POLICY, market.CREATE)
    assert isinstance(request, FrozenRequest)

    assert None is await bench.both.host_key(request)


async def test_an_attempt_is_of_its_session_and_heard_by_whom_it_is_for(bench: Bench) -> None:
    async def sink(stream: str, octets: bytes) -> None:
        del stream, octets

    allowed = permit(frozen(NEW, bare("x")))
    await bench.both.execute(allowed, Delivery(session_id="se_7", frames=sink))

    assert [(allowed.correlation_id, sink, "se_7")] == bench.ssh.done
    assert [] == bench.http.done


async def test_a_key_counts_for_the_attempt_that_it_was_shown_for_and_is_kept_once_a_login_came_about(
    bench: Bench,
) -> None:
    await bench.both.execute(permit(frozen(NEW, bare("x"))), SHOWN)

    assert [(SEEN.public,)] == bench.ssh.trusted
    assert (SEEN.public,) == bench.trust.known(NEW)
    assert STORE == bench.trust.store_of(NEW)


@pytest.mark.parametrize(
    "outcome",
    [
        ended(0, phase=SshPhase.LOGIN, store=None),
        ended(0, phase=SshPhase.HOST_KEY, store=None),
        ended(0, host_key=OTHER, store=None),
        ended(0, host_key=None, store=None),
    ],
)
async def test_no_login_with_that_very_key_keeps_nothing(bench: Bench, outcome: SshOutcome) -> None:
    bench.ssh.outcome = outcome
    await bench.both.execute(permit(frozen(NEW, bare("x"))), SHOWN)

    assert () == bench.trust.known(NEW)
    assert None is bench.trust.store_of(NEW)


async def test_a_key_that_was_known_is_not_learned_again_but_where_markers_lie_is(bench: Bench) -> None:
    known = replace(SHOWN, host_key=HostKey(state=KeyState.ACCEPTED))
    later = StoreSeen(path=STORE.path, id=STORE.id, boot="boot-2")
    bench.ssh.outcome = ended(0, store=later)
    await bench.both.execute(permit(frozen(NEW, bare("x"))), known)

    assert (() == bench.trust.known(NEW), later) == (True, bench.trust.store_of(NEW))


async def test_the_store_of_a_command_is_noted_with_it_unless_it_was_known_when_it_began(bench: Bench) -> None:
    known = replace(SHOWN, host_key=HostKey(state=KeyState.ACCEPTED, store=STORE))
    allowed = permit(frozen(NEW, bare("x")))
    await bench.both.execute(allowed, known)
    assert [] == bench.markers.stores

    later = StoreSeen(path=STORE.path, id=STORE.id, boot="boot-2")
    for store, delivery in ((later, known), (STORE, SHOWN), (STORE, Delivery(session_id="se_1"))):
        bench.ssh.outcome = ended(0, store=store)
        await bench.both.execute(allowed, delivery)
    assert [(allowed.correlation_id, store) for store in (later, STORE, STORE)] == bench.markers.stores


async def test_a_host_is_asked_for_old_markers_after_a_marked_command_that_was_heard_to_end(bench: Bench) -> None:
    allowed = permit(frozen(NEW, bare("x")))
    for outcome in (
        ended(0, marker=MarkerState.OFF),
        ended(97, marker=MarkerState.REFUSED_NO_STORE),
        replace(ended(0), fault=SshFault.CONNECTION_LOST),
        replace(ended(0), exit_status=None),
    ):
        bench.ssh.outcome = outcome
        await bench.both.execute(allowed, SHOWN)
    assert [] == bench.markers.hosts

    bench.ssh.outcome = ended(3, marker=MarkerState.STARTED)
    await bench.both.execute(allowed, SHOWN)
    assert [(allowed, bench.ssh.collect)] == bench.markers.hosts


async def test_what_ends_is_told_to_both(bench: Bench) -> None:
    await bench.both.close_credential("deploy")
    bench.both.close_session("se_1")
    bench.both.drop_logins()
    await bench.both.close()

    assert ["credential deploy", "close"] == bench.http.done
    assert ["credential deploy", "session se_1", "all", "close"] == bench.ssh.done
