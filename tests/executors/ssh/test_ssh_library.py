"""What of the client library is overridden is looked for at the start: another version is refused, not trusted."""

import pytest
from asyncssh.channel import SSHClientChannel
from asyncssh.connection import SSHClientConnection
from asyncssh.constants import MSG_CHANNEL_FAILURE, MSG_KEXINIT

from broker.executors.ssh import SshExecutor, SshExecutorError
from broker.executors.ssh.channel import CommandChannel, assert_known_channel
from broker.executors.ssh.connection import CheckedConnection, assert_known_library
from tests.fakes.https_calls import frozen, permit
from tests.fakes.ssh_calls import OneLogin, Trusting, password_secret


def test_the_installed_library_can_be_used() -> None:
    assert_known_library()
    assert_known_channel()


@pytest.mark.parametrize("name", ["_recv_version", "validate_server_host_key", "_send"])
def test_a_connection_of_another_make_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for owner in SSHClientConnection.__mro__:
        if name in vars(owner):
            monkeypatch.delattr(owner, name)

    with pytest.raises(SshExecutorError, match=name):
        assert_known_library()


@pytest.mark.parametrize("name", ["_process_exit_status_request", "_make_request"])
def test_a_channel_of_another_make_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for owner in SSHClientChannel.__mro__:
        if name in vars(owner):
            monkeypatch.delattr(owner, name)

    with pytest.raises(SshExecutorError, match=name):
        assert_known_channel()


def test_our_own_answers_to_messages_are_in_force() -> None:
    assert CheckedConnection._packet_handlers[MSG_KEXINIT] is CheckedConnection._process_keys_offer
    assert CommandChannel._packet_handlers[MSG_CHANNEL_FAILURE] is CommandChannel._process_answer


async def test_a_permit_of_another_channel_is_a_fault_of_the_caller() -> None:
    executor = SshExecutor(secrets=OneLogin(password_secret("canary-password")), trust=Trusting())

    with pytest.raises(SshExecutorError, match="another channel"):
        await executor.execute(permit(frozen()))
    await executor.close()
