"""Hostile SSH servers: whatever bytes they send, the end is a typed outcome, in bounded time and memory.

Also T20 and T21 for SSH: more output than is kept is never complete, and a spoiled connection answers nobody else.
"""

import asyncio
import contextlib
import resource
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.core.ssh.frozen import Exec
from broker.core.ssh.outcome import SshFault, SshOutcome, SshPhase
from broker.executors.ssh import SshExecutor
from broker.executors.ssh.command import Graces
from tests.fakes.ssh_calls import QUICK, OneLogin, Trusting, bare, frozen, host, key_secret, permit
from tests.live.sshd import Lab, open_lab

pytestmark = pytest.mark.live

HASTY = replace(QUICK, connect_s=1.0, login_s=1.0, exec_s=1.0, total_s=3.0)
BEFORE_LOGIN = {SshPhase.CONNECTING, SshPhase.BANNER, SshPhase.HOST_KEY}
TYPED = {
    SshFault.LOST_DURING_LOGIN,
    SshFault.NOT_SSH,
    SshFault.LOGIN_TIMEOUT,
    SshFault.HOST_KEY_WEAK,
}
BANNER = b"SSH-2.0-hostile\r\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with open_lab() as made:
        yield made


@asynccontextmanager
async def saying(words: bytes, *, endless: bytes = b"", hang: bool = False) -> AsyncIterator[int]:
    """A server that says this, and then one thing for ever, or nothing more."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(words)
            await writer.drain()
            while endless:
                writer.write(endless)
                await writer.drain()
            if hang:
                await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        server.close()
        await asyncio.sleep(0.02)  # let the handlers see that we have gone


async def attempt(lab: Lab, port: int) -> SshOutcome:
    executor = SshExecutor(secrets=OneLogin(key_secret(lab.user_key)), trust=Trusting())
    seen = await executor.execute(permit(frozen(host(port, "anybody"), bare("true"), deadlines=HASTY)))
    await executor.close()
    return seen


def packet(payload: bytes) -> bytes:
    padding = 8 - (len(payload) + 5) % 8 + 4
    return (len(payload) + padding + 1).to_bytes(4, "big") + bytes([padding]) + payload + b"\0" * padding


def names(*lists: bytes) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in lists)


def opening(host_keys: bytes = b"ssh-ed25519", exchange: bytes = b"curve25519-sha256") -> bytes:
    ciphers, macs = b"aes128-gcm@openssh.com", b"hmac-sha2-256"
    lists = names(exchange, host_keys, ciphers, ciphers, macs, macs, b"none", b"none", b"", b"")
    return packet(b"\x14" + b"\0" * 16 + lists + b"\0" * 5)


ODD_NUMBERS = st.sampled_from([0, 1, 7, 2**15, 2**20, 2**31, 2**32 - 1]).map(lambda number: number.to_bytes(4, "big"))
SCRAPS = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=60).map(packet),
    ODD_NUMBERS,
    st.just(BANNER),
    st.builds(opening, st.binary(max_size=40), st.just(b"curve25519-sha256")),
    st.just(opening()),
    st.integers(20, 100).flatmap(lambda kind: st.binary(max_size=80).map(lambda rest: packet(bytes([kind]) + rest))),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(SCRAPS, max_size=6).map(b"".join), begins=st.booleans())
def test_any_bytes_before_the_login_end_typed_and_in_time(lab: Lab, words: bytes, *, begins: bool) -> None:
    async def one() -> SshOutcome:
        async with saying((BANNER if begins else b"") + words) as port:
            return await attempt(lab, port)

    seen = asyncio.run(one())

    assert seen.fault in TYPED
    assert seen.phase in BEFORE_LOGIN
    assert seen.elapsed_ms < 4000


ENDLESS = [
    (b"", b"no version, " * 1000),
    (b"", b"a line without a version\r\n" * 100),
    (b"SSH-2.0-" + b"x" * 5000, b"x" * 5000),
    (BANNER, packet(b"\x02" + names(b"ignored" * 100))),
    (BANNER + (2**31).to_bytes(4, "big"), b"\0" * 65_536),
    (BANNER + (2**18).to_bytes(4, "big"), b"\0" * 65_536),
    (BANNER + opening(), packet(b"\x02" + names(b"ignored" * 100))),
    (BANNER, packet(b"\x14" + b"\0" * 16 + (2**30).to_bytes(4, "big"))),
]


@pytest.mark.parametrize(("words", "endless"), ENDLESS)
async def test_endless_and_huge_words_are_bounded(lab: Lab, words: bytes, endless: bytes) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with saying(words, endless=endless) as port:
        seen = await attempt(lab, port)

    assert seen.fault in TYPED
    assert seen.elapsed_ms < 4000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 65_536


async def test_a_slow_drip_does_not_hold_the_login_open(lab: Lab) -> None:
    async with saying(b"SSH-2.0-slow", hang=True) as port:
        seen = await attempt(lab, port)

    assert SshFault.LOGIN_TIMEOUT is seen.fault
    assert seen.elapsed_ms < 2500


async def test_output_above_the_cap_is_never_complete_and_answers_nobody_else(lab: Lab) -> None:
    account, server = lab.account("bash"), lab.start()
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    executor = SshExecutor(
        secrets=OneLogin(key_secret(lab.user_key)), trust=Trusting(), graces=Graces(after_exit_s=0.3)
    )
    mark = secrets.token_hex(8)
    action = Exec(command=f"yes {mark} | head -c 300000; (sleep 0.6; echo {mark}) &".encode())
    first = await executor.execute(permit(frozen(target, action, output_bytes=1000)))
    second = await executor.execute(permit(frozen(target, bare("sleep 0.8; echo mine"))))
    await executor.close()

    assert (0, 1000, False) == (first.exit_status, len(first.stdout), first.output_complete)
    assert first.stdout_bytes >= 300_000
    assert (b"mine\n", True) == (second.stdout, second.output_complete)
