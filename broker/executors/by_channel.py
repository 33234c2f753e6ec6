"""The executors by the channel of a request, and what is remembered of a host after an attempt on it.

A key that a human has just accepted counts for this attempt; it is kept once a login with it has come about.
"""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeAlias

from broker.core.channels import Frozen, Raw
from broker.core.frozen import FrozenRequest
from broker.core.gate import Permit
from broker.core.outcome import RawOutcome
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import HostKeySeen, MarkerState, SshFault, SshOutcome, SshPhase, StoreSeen
from broker.core.ssh.trust import HostKey, KeyState, declared_key
from broker.ports import AnswerSink, Delivery, FrameSink, TrustStore

_BEFORE_LOGIN = frozenset({SshPhase.BUILT, SshPhase.CONNECTING, SshPhase.BANNER, SshPhase.HOST_KEY, SshPhase.LOGIN})


class Http(Protocol):
    async def execute(self, permit: Permit, answer: AnswerSink | None = None) -> RawOutcome: ...
    async def close_credential(self, name: str) -> None: ...
    async def close(self) -> None: ...


class Ssh(Protocol):
    async def execute(
        self,
        permit: Permit,
        *,
        frames: FrameSink | None = None,
        session: str | None = None,
        bound: Callable[[StoreSeen], Awaitable[None]] | None = None,
    ) -> SshOutcome: ...
    async def collect(self, permit: Permit, settled: tuple[str, ...]) -> int | None: ...
    async def look_at_host(self, host: SshHost) -> HostKeySeen | SshFault: ...
    async def close_credential(self, name: str) -> None: ...
    def retire_session(self, session: str) -> None: ...
    def retire_all(self) -> None: ...
    async def close(self) -> None: ...


Collect: TypeAlias = Callable[[Permit, tuple[str, ...]], Awaitable[int | None]]


class Markers(Protocol):
    """What is kept of the markers that commands leave on hosts."""

    async def bound(self, correlation_id: str, store: StoreSeen) -> None:
        """Keep, before a command is sent, the store in which it claims its id. Raises where that can't be kept."""
        ...

    def used(self, permit: Permit, collect: Collect) -> None:
        """A host was just reached: a time to collect what is old there. Returns at once and never raises."""
        ...


class ByChannel:
    """Implements ports.Executor."""

    def __init__(self, *, http: Http, ssh: Ssh, trust: TrustStore, markers: Markers) -> None:
        self._http = http
        self._ssh = ssh
        self._trust = trust
        self._markers = markers

    async def host_key(self, frozen: Frozen) -> HostKey | SshFault | None:
        if isinstance(frozen, FrozenRequest):
            return None
        key = declared_key(frozen.host, self._trust.known(frozen.host))
        if key is not None:
            return replace(key, store=self._trust.store_of(frozen.host))
        seen = await self._ssh.look_at_host(frozen.host)
        return seen if isinstance(seen, SshFault) else HostKey(state=KeyState.UNVERIFIED, seen=seen)

    async def execute(self, permit: Permit, delivery: Delivery) -> Raw:
        frozen = permit.frozen
        if isinstance(frozen, FrozenRequest):
            return await self._http.execute(permit, delivery.answer)
        fresh = _fresh(delivery)
        with nullcontext() if fresh is None else self._trust.provisionally(frozen.host, fresh):
            outcome = await self._ssh.execute(
                permit,
                frames=delivery.frames,
                session=delivery.session_id,
                bound=partial(self._bound, permit, None if delivery.host_key is None else delivery.host_key.store),
            )
            await self._learn(frozen, outcome, fresh)
        if outcome.marker is MarkerState.STARTED and outcome.exit_status is not None and outcome.fault is None:
            self._markers.used(permit, self._ssh.collect)
        return outcome

    async def close_credential(self, name: str) -> None:
        """Drop kept connections that were made with a credential; what is under way ends first."""
        await self._ssh.close_credential(name)
        await self._http.close_credential(name)

    def close_session(self, session_id: str) -> None:
        """Drop kept logins that no other session has used."""
        self._ssh.retire_session(session_id)

    def drop_logins(self) -> None:
        """Drop every kept login, as at a lock or a change of policy; what is under way ends first."""
        self._ssh.retire_all()

    async def close(self) -> None:
        await self._ssh.close()
        await self._http.close()

    async def _bound(self, permit: Permit, known: StoreSeen | None, store: StoreSeen) -> None:
        """`known` is what the ledger was told when the attempt was begun."""
        if store != known:
            await self._markers.bound(permit.correlation_id, store)

    async def _learn(self, frozen: FrozenSsh, outcome: SshOutcome, fresh: HostKeySeen | None) -> None:
        if fresh is not None and outcome.phase not in _BEFORE_LOGIN and _is(outcome, fresh):
            await self._trust.remember(frozen.host, fresh)
        if outcome.store is not None:
            await self._trust.saw_store(frozen.host, outcome.store)


def _fresh(delivery: Delivery) -> HostKeySeen | None:
    key = delivery.host_key
    return key.seen if key is not None and key.state is KeyState.UNVERIFIED else None


def _is(outcome: SshOutcome, fresh: HostKeySeen) -> bool:
    return outcome.host_key is not None and outcome.host_key.fingerprint == fresh.fingerprint
