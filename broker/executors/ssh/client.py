"""The SSH executor: carries out one frozen action on a host and reports how far it got and what was heard.

Whatever happens is an SshOutcome. Nothing ambient is used, nothing is sent twice: another connection takes over only
while no command can have started. Judges nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TypeAlias

from broker.core.gate import Permit
from broker.core.ssh import lookup as markers
from broker.core.ssh.frozen import MAX_COMMAND_BYTES, MAX_STDIN_BYTES, Exec, FrozenSsh, Get, LookUp, Put, SshDeadlines
from broker.core.ssh.known_hosts import Known, KnownHostsError, known_of
from broker.core.ssh.model import MarkerMode, SshHost
from broker.core.ssh.outcome import HostKeySeen, Replaced, SshFault, SshOutcome, SshPhase, StoreSeen
from broker.executors.addresses import Lookup, SystemLookup
from broker.executors.ssh import transfer
from broker.executors.ssh.attempt import Attempt
from broker.executors.ssh.channel import assert_known_channel
from broker.executors.ssh.command import Command, Graces, run
from broker.executors.ssh.connection import CheckedConnection, assert_known_library
from broker.executors.ssh.faults import SshExecutorError, StoppedError, stopped
from broker.executors.ssh.frames import Outlet
from broker.executors.ssh.keys import login_with
from broker.executors.ssh.login import Hop, Keepalive, log_in
from broker.executors.ssh.marked import ANSWER_BYTES, look_up, run_marked
from broker.executors.ssh.pool import Lease, Link, Pool, PoolKey, PoolLimits
from broker.ports import FrameSink, SecretStore, TrustStore

CONNECTIONS_TRIED = 3  # for one attempt, while nothing can have started
COLLECT_S = 10.0

Bound: TypeAlias = Callable[[StoreSeen], Awaitable[None]]
_REPLACED = frozenset({SshFault.CONNECTION_LOST, SshFault.CHANNEL_LOST, SshFault.CHANNEL_REFUSED})
_HARMLESS = frozenset({None, SshFault.CHANNEL_REFUSED, SshFault.NO_SFTP, SshFault.REMOTE_FILE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who is told of an attempt while it is made: of its output, and of the store of markers it is bound to."""

    frames: FrameSink | None
    bound: Bound | None


class SshExecutor:
    """`lookup` resolves names; the rest of the settings are for tests, which have less time than hosts."""

    def __init__(
        self,
        *,
        secrets: SecretStore,
        trust: TrustStore,
        lookup: Lookup | None = None,
        limits: PoolLimits | None = None,
        keepalive: Keepalive | None = None,
        graces: Graces | None = None,
    ) -> None:
        assert_known_library()
        assert_known_channel()
        self._secrets = secrets
        self._trust = trust
        self._system_lookup = SystemLookup()
        self._lookup = lookup or self._system_lookup
        self._keepalive = keepalive or Keepalive()
        self._graces = graces or Graces()
        self._pool = Pool(limits or PoolLimits())

    async def execute(
        self,
        permit: Permit,
        *,
        frames: FrameSink | None = None,
        session: Hashable = None,
        bound: Bound | None = None,
    ) -> SshOutcome:
        """Never raises but for cancellation, which closes the channel.

        `frames` is handed the command's output as it comes; `session` is whose end may end the connection; `bound` is
        told of the store of markers before a command is sent there, and where it fails none is sent.
        """
        frozen = _frozen(permit)
        attempt = Attempt(frozen.deadlines)
        try:
            _check(frozen)
            return await self._on_link(permit, frozen, attempt, Told(frames=frames, bound=bound), session)
        except StoppedError as end:
            return attempt.ended(end)
        except Exception as cause:  # noqa: BLE001 - every ending is a value; faults.py names the known ones
            return attempt.ended(stopped(cause, attempt.phase))

    async def look_at_host(self, host: SshHost) -> HostKeySeen | SshFault:
        """The key that a host shows and proves to hold. No login is tried. Behind a jump host it can't be seen so."""
        attempt = Attempt(SshDeadlines())
        if host.jump:
            return SshFault.HOST_KEY_UNKNOWN
        try:
            hop = Hop(host=host, known=None, login=None)
            connection = await log_in((hop,), lookup=self._lookup, attempt=attempt, keepalive=self._keepalive)
        except StoppedError as end:
            return end.fault
        connection.abort()
        return SshFault.INTERNAL if connection.offered is None else connection.offered

    async def collect(self, permit: Permit, settled: tuple[str, ...]) -> int | None:
        """Remove the markers of settled operations from a permit's host; how many went, None where that is not known.

        Only over a connection that is there already: nothing is dialled for it.
        """
        frozen = _frozen(permit)
        if not settled:
            return 0
        line = markers.collect(settled[: markers.MAX_COLLECTED]).encode("utf-8")
        with self._pool.spare(self._key(permit, frozen)) as link:
            if link is None:
                return None
            attempt = Attempt(SshDeadlines(total_s=COLLECT_S))
            command = Command(line=line, keep_bytes=ANSWER_BYTES)
            try:
                seen = await run(link.connection, command, attempt=attempt, graces=self._graces)
            except StoppedError:
                return None
            return markers.parse_collected(seen.stdout)

    async def close_credential(self, name: str) -> None:
        """Drop kept connections that were made with a credential; commands under way end first."""
        self._pool.drop(lambda key: key.credential == name)

    async def close_session(self, session: Hashable) -> None:
        """Drop kept connections that no other session has used."""
        self.retire_session(session)

    def retire_session(self, session: Hashable) -> None:
        """The same, at once and without waiting for anything."""
        self._pool.end_session(session)

    def retire_all(self) -> None:
        """Keep no connection any more, at once; commands under way end first."""
        self._pool.drop(lambda _: True)

    async def close_all(self) -> None:
        """Drop every kept connection, as at a lock or a change of policy; commands under way end first."""
        await self._pool.close()

    async def close(self) -> None:
        await self.close_all()
        self._system_lookup.close()

    async def _on_link(
        self, permit: Permit, frozen: FrozenSsh, attempt: Attempt, told: Told, session: Hashable
    ) -> SshOutcome:
        """The action on a kept or a new connection; on another one where that proves dead before anything started."""
        may_replace = True
        left = CONNECTIONS_TRIED
        while True:
            left -= 1
            async with self._lease(permit, frozen, attempt, session) as lease:
                link = lease.link
                attempt.take_over(link.host_key)
                seen = await self._carry_out(permit, frozen, attempt, link, told)
                if attempt.may_have_started or not left:
                    break
                if seen.fault is SshFault.CHANNEL_REFUSED and link.shrink():
                    attempt.restart()
                    continue
                if seen.fault not in _REPLACED or not may_replace or lease.fresh:
                    break
                may_replace = False
                link.retire()  # a server may take a while to free the channel of the command before
                attempt.restart()
        if seen.transfer is not None and seen.transfer.replaced is Replaced.UNKNOWN:
            return await self._settle_put(permit, frozen, attempt, seen)
        return seen

    async def _carry_out(
        self, permit: Permit, frozen: FrozenSsh, attempt: Attempt, link: Link, told: Told
    ) -> SshOutcome:
        """The outcome, after which the link is kept or not."""
        try:
            seen = await self._act(permit, frozen, attempt, link, told)
        except StoppedError as end:
            seen = attempt.ended(end)
        except BaseException:
            link.retire()
            raise
        if seen.fault not in _HARMLESS or (seen.phase is SshPhase.EXITED) or _was_cut(seen):
            link.retire()
        return seen

    async def _act(self, permit: Permit, frozen: FrozenSsh, attempt: Attempt, link: Link, told: Told) -> SshOutcome:
        match frozen.action:
            case Exec() as action:
                return await self._exec(link, action, permit, frozen, attempt, told)
            case LookUp() as action:
                return await look_up(link, action, keep_bytes=frozen.output_bytes, attempt=attempt, graces=self._graces)
            case Put() as action:
                return await transfer.put(link.connection, action, operation_id=permit.correlation_id, attempt=attempt)
            case Get() as action:
                return await transfer.get(link.connection, action, cap_bytes=frozen.output_bytes, attempt=attempt)

    async def _exec(
        self, link: Link, action: Exec, permit: Permit, frozen: FrozenSsh, attempt: Attempt, told: Told
    ) -> SshOutcome:
        if told.frames is None:
            return await self._run(link, action, permit, frozen, attempt, told)
        outlet = Outlet(told.frames)
        async with asyncio.TaskGroup() as tasks:
            pump = tasks.create_task(outlet.pump())
            try:
                seen = await self._run(link, action, permit, frozen, attempt, told, outlet)
                await outlet.drain()
                seen = _streamed(seen, has_delivered=outlet.has_delivered)
            except StoppedError as end:
                seen = attempt.ended(end)
            finally:
                pump.cancel()
        return seen

    async def _run(
        self,
        link: Link,
        action: Exec,
        permit: Permit,
        frozen: FrozenSsh,
        attempt: Attempt,
        told: Told,
        outlet: Outlet | None = None,
    ) -> SshOutcome:
        if action.marker is MarkerMode.OFF:
            command = Command(line=action.command, stdin=action.stdin, pty=action.pty, keep_bytes=frozen.output_bytes)
            return await run(link.connection, command, attempt=attempt, graces=self._graces, outlet=outlet)

        async def saw_store(store: StoreSeen) -> None:
            await self._trust.saw_store(frozen.host, store)
            if told.bound is not None:
                await told.bound(store)

        return await run_marked(
            link,
            action,
            operation_id=permit.correlation_id,
            keep_bytes=frozen.output_bytes,
            attempt=attempt,
            graces=self._graces,
            outlet=outlet,
            saw_store=saw_store,
        )

    async def _settle_put(self, permit: Permit, frozen: FrozenSsh, attempt: Attempt, seen: SshOutcome) -> SshOutcome:
        """Ask over another connection what became of a rename that was not answered."""
        if not isinstance(frozen.action, Put):
            return seen
        aside = attempt.aside()
        try:
            async with self._lease(permit, frozen, aside, None) as lease:
                return await transfer.settle(
                    lease.link.connection, frozen.action, seen, operation_id=permit.correlation_id, attempt=aside
                )
        except Exception:  # noqa: BLE001 - whatever keeps it from being asked, it stays unknown
            return seen

    def _lease(
        self, permit: Permit, frozen: FrozenSsh, attempt: Attempt, session: Hashable
    ) -> AbstractAsyncContextManager[Lease]:
        key = self._key(permit, frozen)
        deadlines = frozen.deadlines
        until_s = attempt.by(deadlines.connect_s + deadlines.login_s + deadlines.exec_s)
        return self._pool.lease(
            key, lambda: self._connect(permit, frozen, key, attempt), until_s=until_s, session=session
        )

    async def _connect(self, permit: Permit, frozen: FrozenSsh, key: PoolKey, attempt: Attempt) -> CheckedConnection:
        name = frozen.service.credential
        if name is None or permit.credential_version is None:
            raise StoppedError(SshFault.KEY_UNUSABLE, "the service has no credential")
        login = login_with(self._secrets.secret_of(name, permit.credential_version))
        hops = tuple(
            Hop(host=host, known=_known(host, accepted), login=login)
            for host, accepted in zip(key.hosts, key.accepted, strict=True)
        )
        return await log_in(hops, lookup=self._lookup, attempt=attempt, keepalive=self._keepalive)

    def _key(self, permit: Permit, frozen: FrozenSsh) -> PoolKey:
        hosts = (*frozen.host.jump, frozen.host)
        return PoolKey(
            hosts=hosts,
            accepted=tuple(self._trust.known(host) for host in hosts),
            credential=frozen.service.credential,
            credential_version=permit.credential_version,
            vault_term=permit.vault_term,
        )


def _frozen(permit: Permit) -> FrozenSsh:
    if not isinstance(permit.frozen, FrozenSsh):
        raise SshExecutorError("the permit is for another channel")
    return permit.frozen


def _check(frozen: FrozenSsh) -> None:
    """Raises StoppedError for what can't be sent as it stands."""
    action = frozen.action
    if not isinstance(action, Exec):
        return
    if b"\0" in action.command or not action.command:
        raise StoppedError(SshFault.COMMAND_REFUSED, "the command is empty or holds a NUL")
    if len(action.command) > MAX_COMMAND_BYTES or len(action.stdin) > MAX_STDIN_BYTES:
        raise StoppedError(SshFault.COMMAND_REFUSED, "the command or its stdin is too long")
    if action.detach and (action.pty or action.marker is MarkerMode.OFF):
        raise StoppedError(SshFault.COMMAND_REFUSED, "a detached command needs a marker and takes no terminal")


def _known(host: SshHost, accepted: tuple[str, ...]) -> Known:
    try:
        return known_of(host.trust, address=host.address, port=host.port, accepted=accepted)
    except KnownHostsError as cause:
        raise StoppedError(SshFault.HOST_KEY_UNKNOWN, str(cause)) from None


def _streamed(seen: SshOutcome, *, has_delivered: bool) -> SshOutcome:
    """Output that was not all handed on is as whole as what was kept of it."""
    if has_delivered and seen.output_complete:
        return replace(seen, streamed=True)
    return replace(seen, output_complete=seen.output_complete and not _was_cut(seen))


def _was_cut(seen: SshOutcome) -> bool:
    """More came than was kept: the rest of it may still be on its way."""
    return seen.stdout_bytes > len(seen.stdout) or seen.stderr_bytes > len(seen.stderr)
