"""Keys, certificates, passwords and jump hosts on real servers. What can't be used is told before a host is dialled."""

from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from broker.core.secret import Secret
from broker.core.ssh.model import SshHost
from broker.core.ssh.outcome import SshFault, SshPhase
from broker.core.ssh.secrets import SshKeySecret
from tests.executors.ssh.conftest import Bench
from tests.fakes.ssh_calls import bare, host, key_secret, password_secret
from tests.live.sshd import CERTIFICATES, KEYBOARD, PASSWORD, Account, Lab, Shape, Sshd, free_port, is_root

pytestmark = pytest.mark.live

KINDS = [("ed25519", None), ("rsa", 2048), ("rsa", 3072), ("ecdsa", 256), ("ecdsa", 384), ("ecdsa", 521)]


@pytest.mark.parametrize(("kind", "bits"), KINDS)
async def test_each_kind_of_key_logs_in(bench: Bench, lab: Lab, server: Sshd, kind: str, bits: int | None) -> None:
    key = lab.key(f"login-{kind}-{bits}", kind=kind, bits=bits)
    account = lab.account("bash", mark="k")
    lab.authorize(account, key)
    bench.logins.secret = key_secret(key)
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server)), bare("id -un"))

    assert (0, account.name.encode()) == (seen.exit_status, seen.stdout.strip())


@pytest.mark.parametrize(("kind", "bits"), [("ed25519", None), ("rsa", 2048), ("ecdsa", 256)])
async def test_a_certificate_logs_in_with_one_offer(
    bench: Bench, lab: Lab, account: Account, kind: str, bits: int | None
) -> None:
    server = lab.start(Shape(options={"MaxAuthTries": "1"}, keys_accepted=False))
    key = lab.key(f"certified-{kind}", kind=kind, bits=bits)
    bench.logins.secret = key_secret(key, lab.certify(key, account.name))
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server)), bare("id -un"))

    assert (None, account.name.encode()) == (seen.fault, seen.stdout.strip())
    assert 1 == server.log().count("Accepted publickey")


async def test_a_certificate_for_somebody_else_is_rejected(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(replace(CERTIFICATES, host_certificate=False))
    bench.logins.secret = key_secret(lab.user_key, lab.certify(lab.user_key, "somebody-else"))
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server)), bare("true"))

    assert (SshPhase.LOGIN, SshFault.LOGIN_REJECTED) == (seen.phase, seen.fault)


def unusable(lab: Lab, flaw: str) -> SshKeySecret:
    match flaw:
        case "passphrase":
            return key_secret(lab.key("with-passphrase", passphrase="canary-passphrase"))
        case "dsa":
            return SshKeySecret(private_key=Secret(asyncssh.generate_private_key("ssh-dss").export_private_key()))
        case "small-rsa":
            return key_secret(lab.key("small-rsa", kind="rsa", bits=1024))
        case "garbage":
            return SshKeySecret(private_key=Secret("not a key"))
        case "foreign-certificate":
            return key_secret(lab.user_key, lab.certify(lab.key("someone"), "x"))
        case _:
            return replace(key_secret(lab.user_key), certificate="not a certificate")


FLAWS = ["passphrase", "dsa", "small-rsa", "garbage", "foreign-certificate", "broken-certificate"]


@pytest.mark.parametrize("flaw", FLAWS)
async def test_a_key_that_can_not_be_used_is_told_before_anything_is_dialled(
    bench: Bench, lab: Lab, account: Account, flaw: str
) -> None:
    bench.logins.secret = unusable(lab, flaw)
    seen = await bench.run(host(free_port(), account.name), bare("true"))

    assert (SshPhase.BUILT, SshFault.KEY_UNUSABLE) == (seen.phase, seen.fault)
    assert seen.said


@pytest.mark.parametrize("shape", [PASSWORD, KEYBOARD], ids=["password", "keyboard-interactive"])
async def test_a_password_logs_in_and_a_wrong_one_is_tried_once(
    bench: Bench, lab: Lab, account: Account, shape: Shape
) -> None:
    assert is_root(), "no password can be set without root, so password logins are not tested here"
    server = lab.start(shape)
    target = host(server.port, account.name, known_hosts=lab.known_hosts(server))
    bench.logins.secret = password_secret(account.password)
    right = await bench.run(target, bare("id -un"))
    await bench.executor.close_all()
    bench.logins.secret = password_secret("canary-wrong-password")
    wrong = await bench.run(target, bare("true"))

    assert (0, account.name.encode()) == (right.exit_status, right.stdout.strip())
    assert (SshPhase.LOGIN, SshFault.LOGIN_REJECTED) == (wrong.phase, wrong.fault)
    assert 1 == server.log().count("Failed ")


async def test_a_jump_host_is_gone_through_and_each_hop_judged(
    bench: Bench, lab: Lab, server: Sshd, account: Account
) -> None:
    inner = lab.start()
    hop = host(server.port, account.name, known_hosts=lab.known_hosts(server), name="hop")
    good = host(inner.port, account.name, known_hosts=lab.known_hosts(inner), jump=(hop,))
    stranger = replace(good, trust=replace(good.trust, known_hosts=lab.known_hosts(inner, "another")))
    strange_hop = replace(good, jump=(replace(hop, trust=replace(hop.trust, known_hosts="")),))
    through = await bench.run(good, bare("echo $SSH_CONNECTION"))
    changed = await bench.run(stranger, bare("true"))
    unknown = await bench.run(strange_hop, bare("true"))

    assert (0, str(inner.port).encode()) == (through.exit_status, through.stdout.split()[-1])
    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_CHANGED) == (changed.phase, changed.fault)
    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_UNKNOWN) == (unknown.phase, unknown.fault)


async def test_a_target_that_refuses_the_jump_host_was_not_reached(bench: Bench, target: SshHost) -> None:
    inner = replace(target, port=free_port(), jump=(target,))
    seen = await bench.run(inner, bare("true"))

    assert (SshPhase.CONNECTING, SshFault.CONNECT_FAILED) == (seen.phase, seen.fault)


async def test_a_server_without_forwarding_is_no_jump_host(bench: Bench, lab: Lab, account: Account) -> None:
    closed = lab.start(Shape(options={"AllowTcpForwarding": "no"}))
    hop = host(closed.port, account.name, known_hosts=lab.known_hosts(closed), name="hop")
    seen = await bench.run(replace(hop, name="inner", jump=(hop,)), bare("true"))

    assert SshFault.CONNECT_FAILED is seen.fault


async def test_a_service_without_a_credential_logs_in_nowhere(bench: Bench, target: SshHost) -> None:
    from tests.fakes.ssh_calls import frozen, permit  # noqa: PLC0415 - for this test alone

    seen = await bench.executor.execute(permit(frozen(target, bare("true"), credential=None)))

    assert (SshPhase.BUILT, SshFault.KEY_UNUSABLE) == (seen.phase, seen.fault)


def test_the_lab_s_keys_are_files_of_this_run(lab: Lab) -> None:
    assert Path(lab.home) in lab.user_key.parents
