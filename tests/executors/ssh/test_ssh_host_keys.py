"""Host keys on real servers: what is accepted is exactly what the policy names for this host and port."""

import subprocess
from pathlib import Path

import pytest

from broker.core.ssh.known_hosts import blob_of, fingerprint
from broker.core.ssh.model import HostKeyMode, SshHost
from broker.core.ssh.outcome import HostKeySeen, SshFault, SshOutcome, SshPhase
from tests.executors.ssh.conftest import Bench
from tests.fakes import odd_ssh_server as odd
from tests.fakes.odd_ssh_server import odd_server
from tests.fakes.ssh_calls import bare, host
from tests.live.sshd import CERTIFICATES, SHA1_ALLOWED, SMALL_RSA, Account, Lab, Shape, Sshd, free_port

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def certified(lab: Lab) -> Sshd:
    return lab.start(Shape(host_certificate=True))


def with_authority(lab: Lab, server: Sshd, *more: str, authority: Path | None = None) -> str:
    signer = lab.public(authority or lab.host_ca)
    return f"@cert-authority [127.0.0.1]:{server.port} {signer}\n" + "".join(f"{line}\n" for line in more)


def judged(seen: SshOutcome) -> tuple[SshPhase, SshFault | None]:
    return seen.phase, seen.fault


def hashed(lab: Lab, text: str) -> str:
    path = lab.home / f"hashed-{free_port()}"
    path.write_text(text, encoding="ascii")
    subprocess.run(["ssh-keygen", "-H", "-f", str(path)], check=True, capture_output=True, timeout=20)  # noqa: S607
    return path.read_text(encoding="ascii")


@pytest.mark.parametrize("name", ["ed25519", "ecdsa", "rsa"])
async def test_any_known_key_of_the_host_is_accepted(
    bench: Bench, lab: Lab, server: Sshd, account: Account, name: str
) -> None:
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server, name)), bare("true"))

    assert 0 == seen.exit_status
    assert seen.host_key is not None
    assert fingerprint(blob_of(lab.public(lab.host_key(name)))) == seen.host_key.fingerprint


async def test_hashed_names_are_read(bench: Bench, lab: Lab, server: Sshd, account: Account) -> None:
    text = hashed(lab, lab.known_hosts(server))
    seen = await bench.run(host(server.port, account.name, known_hosts=text), bare("true"))

    assert 0 == seen.exit_status


async def test_a_pinned_fingerprint_is_accepted_and_another_is_a_change(
    bench: Bench, lab: Lab, server: Sshd, account: Account
) -> None:
    right, wrong = (fingerprint(blob_of(lab.public(lab.host_key(name)))) for name in ("ed25519", "another"))
    good = await bench.run(host(server.port, account.name, mode=HostKeyMode.PINNED, pins=(right,)), bare("true"))
    bad = await bench.run(host(server.port, account.name, mode=HostKeyMode.PINNED, pins=(wrong,)), bare("true"))

    assert (0, (SshPhase.HOST_KEY, SshFault.HOST_KEY_CHANGED)) == (good.exit_status, judged(bad))


async def test_a_host_that_nobody_knows_is_unknown(bench: Bench, lab: Lab, server: Sshd, account: Account) -> None:
    elsewhere = lab.known_hosts(server).replace(f":{server.port} ", ":22 ")
    seen = await bench.run(host(server.port, account.name, known_hosts=elsewhere), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_UNKNOWN) == judged(seen)


async def test_an_entry_of_the_address_is_none_of_the_name(
    bench: Bench, lab: Lab, server: Sshd, account: Account
) -> None:
    seen = await bench.run(
        host(server.port, account.name, address="localhost", known_hosts=lab.known_hosts(server)), bare("true")
    )

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_UNKNOWN) == judged(seen)


async def test_a_changed_key_is_told_with_the_new_one(bench: Bench, lab: Lab, server: Sshd, account: Account) -> None:
    known = f"[127.0.0.1]:{server.port} {lab.public(lab.host_key('another'))}\n"
    seen = await bench.run(host(server.port, account.name, known_hosts=known), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_CHANGED) == judged(seen)
    assert seen.host_key is not None
    assert fingerprint(blob_of(lab.public(lab.host_key("ed25519")))) == seen.host_key.fingerprint


@pytest.mark.parametrize("name", ["127.0.0.1", "[127.0.0.1]:{port}", "*"])
async def test_a_revoked_key_is_refused_under_any_spelling(
    bench: Bench, lab: Lab, server: Sshd, account: Account, name: str
) -> None:
    revoked = [f"@revoked {name.format(port=server.port)} {lab.public(lab.host_key(key))}\n" for key in ("ed25519",)]
    known = lab.known_hosts(server, "ed25519") + "".join(revoked)
    seen = await bench.run(host(server.port, account.name, known_hosts=known), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_REVOKED) == judged(seen)


async def test_a_certificate_of_a_known_authority_is_accepted(
    bench: Bench, lab: Lab, certified: Sshd, account: Account
) -> None:
    known = with_authority(lab, certified)
    seen = await bench.run(host(certified.port, account.name, known_hosts=known), bare("true"))

    assert 0 == seen.exit_status


async def test_a_certificate_of_another_authority_is_unknown(
    bench: Bench, lab: Lab, certified: Sshd, account: Account
) -> None:
    known = with_authority(lab, certified, authority=lab.key("other-ca"))
    seen = await bench.run(host(certified.port, account.name, known_hosts=known), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_UNKNOWN) == judged(seen)


async def test_a_revoked_authority_or_key_below_a_certificate_is_revoked(
    bench: Bench, lab: Lab, certified: Sshd, account: Account
) -> None:
    authority = with_authority(lab, certified, f"@revoked * {lab.public(lab.host_ca)}")
    keys = [f"@revoked * {lab.public(lab.host_key(name))}" for name in certified.shape.host_keys]
    by_authority = await bench.run(host(certified.port, account.name, known_hosts=authority), bare("true"))
    by_key = await bench.run(
        host(certified.port, account.name, known_hosts=with_authority(lab, certified, *keys)), bare("true")
    )

    assert (SshFault.HOST_KEY_REVOKED, SshFault.HOST_KEY_REVOKED) == (by_authority.fault, by_key.fault)


@pytest.mark.parametrize("flaw", ["other-host", "expired", "user-kind"])
async def test_a_certificate_that_is_not_valid_for_the_host_is_unknown(
    bench: Bench, lab: Lab, account: Account, flaw: str
) -> None:
    key = lab.key(f"flawed-{flaw}")
    match flaw:
        case "other-host":
            certificate = lab.certify(key, "db.example.com", host=True)
        case "expired":
            certificate = lab.certify(key, "127.0.0.1", host=True, valid="20200101:20200102")
        case _:
            certificate = lab.certify(key, "127.0.0.1", ca=lab.host_ca)
    server = lab.start(Shape(host_keys=(), options={"HostKey": str(key), "HostCertificate": str(certificate)}))
    seen = await bench.run(host(server.port, account.name, known_hosts=with_authority(lab, server)), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_UNKNOWN) == judged(seen)


async def test_a_host_with_a_small_rsa_key_is_refused(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start(SMALL_RSA)
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server)), bare("true"))
    looked = await bench.executor.look_at_host(host(server.port, account.name))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_WEAK) == judged(seen)
    assert SshFault.HOST_KEY_WEAK is looked


async def test_a_host_with_a_dsa_key_alone_is_refused(bench: Bench) -> None:
    async with odd_server(odd.status(0), kind="ssh-dss") as server:
        seen = await bench.run(host(server.port, "anybody", known_hosts=server.known_hosts), bare("true"))

    assert (SshPhase.HOST_KEY, SshFault.HOST_KEY_WEAK) == judged(seen)
    assert b"ssh-dss" in seen.said


async def test_old_signatures_of_a_host_are_not_asked_for(bench: Bench, lab: Lab, account: Account) -> None:
    shape = Shape(options=SHA1_ALLOWED.options, host_keys=("rsa",))
    server = lab.start(shape)
    seen = await bench.run(host(server.port, account.name, known_hosts=lab.known_hosts(server)), bare("true"))

    assert 0 == seen.exit_status
    assert "host key algorithm: rsa-sha2-512" in server.log()


async def test_a_broken_known_hosts_text_accepts_nothing(bench: Bench, server: Sshd, account: Account) -> None:
    seen = await bench.run(host(server.port, account.name, known_hosts="what is this"), bare("true"))

    assert (SshPhase.BUILT, SshFault.HOST_KEY_UNKNOWN) == judged(seen)
    assert b"line 1" in seen.said


async def test_a_look_tries_no_login_and_runs_nothing(bench: Bench, lab: Lab, account: Account) -> None:
    server = lab.start()
    seen = await bench.executor.look_at_host(host(server.port, account.name))

    assert isinstance(seen, HostKeySeen)
    assert lab.public(lab.host_key("ed25519")) == seen.public
    assert "userauth-request" not in server.log()
    assert 0 == bench.logins.asked


async def test_a_look_at_nothing_says_why(bench: Bench, account: Account) -> None:
    assert SshFault.CONNECT_REFUSED is await bench.executor.look_at_host(host(free_port(), account.name))


async def test_behind_a_jump_host_a_key_can_not_be_looked_at(bench: Bench, target: SshHost, account: Account) -> None:
    inner = host(22, account.name, jump=(target,))

    assert SshFault.HOST_KEY_UNKNOWN is await bench.executor.look_at_host(inner)


async def test_a_user_certificate_logs_in_and_its_shape_alone_does_not(
    bench: Bench, lab: Lab, account: Account
) -> None:
    server = lab.start(CERTIFICATES)
    seen = await bench.run(host(server.port, account.name, known_hosts=with_authority(lab, server)), bare("true"))

    assert (SshPhase.LOGIN, SshFault.LOGIN_REJECTED) == judged(seen)
