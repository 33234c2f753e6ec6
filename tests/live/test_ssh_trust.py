"""Hosts that are not what they should be, keys that nobody has seen, and where a key of ours may be found: nowhere."""

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.house import Agent, until
from tests.live.ssh_house import SshHouse, add_key, begin, gist, open_ssh_house, processes, run
from tests.live.sshd import ED25519_ONLY, NO_SFTP, NORMAL, RSA_ONLY, Lab, NotHere, Sshd, open_lab
from tests.live.tcp_cuts import CutProxy

pytestmark = pytest.mark.live

SEED_LINE = 3  # of an ed25519 key in OpenSSH's form; the lines before hold what is public
NEW = 'host_keys = "accept-new"'


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    try:
        with open_lab() as made:
            yield made
    except NotHere as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def server(lab: Lab) -> Sshd:
    return lab.start(NORMAL)


def approved(at: SshHouse, agent: Agent, name: str, *, confirm: bool = True) -> dict[str, object]:
    number = begin(agent, operation="note", args={"name": name})
    card = at.house.human.wait_for_card()
    served = at.house.human.approve(card)
    assert confirm is (served.card.typed_word is not None)
    return dict(agent.end_act(number))


def test_a_first_contact_is_shown_and_a_typed_yes_is_kept(tmp_path: Path, lab: Lab, server: Sshd) -> None:
    account = lab.account("bash", mark="n")
    with open_ssh_house(tmp_path / "h", lab, server, account, trust=NEW) as at, at.agent() as agent:
        before = at.logins()
        unasked = run(agent, operation="uptime")
        assert ("local_failure", "host_key_unknown", "after_human", "none") == gist(unasked), unasked
        number = begin(agent, operation="note", args={"name": "one"})
        served = at.house.human.client.approval(at.house.human.wait_for_card())
        assert before == at.logins(), "until somebody answers no login was tried"
        at.house.human.deny(at.house.human.wait_for_card())
        agent.end_act(number)
        assert served.card.ssh is not None
        key = served.card.ssh.host_key
        assert key is not None
        assert ("unverified", "web-1") == (key.state, served.card.typed_word)
        assert (key.fingerprint or "").startswith("SHA256:")
        assert not served.card.yes.session.offered

        told = approved(at, agent, "two")
        assert ("success", "ok", "never", "applied") == gist(told), told
        assert "accepted" == approved_state(at, agent)
        (event,) = at.house.human.events("hostkey.accepted")
        assert ("web-1", key.fingerprint) == (event["fields"]["host"], event["fields"]["fingerprint"])
        at.house.kill()
        at.house.open()
        assert "success" == run(agent_again(at, agent), operation="uptime")["category"], "it outlives the daemon"


def approved_state(at: SshHouse, agent: Agent) -> str:
    number = begin(agent, operation="note", args={"name": "three"})
    card = at.house.human.wait_for_card()
    served = at.house.human.client.approval(card)
    assert served.card.ssh is not None
    assert served.card.ssh.host_key is not None
    at.house.human.approve(card)
    assert "success" == agent.end_act(number)["category"]
    return served.card.ssh.host_key.state


def agent_again(at: SshHouse, agent: Agent) -> Agent:
    agent.ask("GET", "/v1/health")  # its old connection is gone with the daemon
    del at
    return agent


def test_another_key_than_the_accepted_one_stops_before_any_login(tmp_path: Path, lab: Lab) -> None:
    account, first, second = lab.account("bash", mark="ch"), lab.start(ED25519_ONLY), lab.start(RSA_ONLY)
    with ExitStack() as stack:
        proxy = stack.enter_context(CutProxy(("127.0.0.1", first.port)))
        at = stack.enter_context(open_ssh_house(tmp_path / "h", lab, first, account, trust=NEW, port=proxy.port))
        agent = stack.enter_context(at.agent())
        assert "success" == approved(at, agent, "one")["category"]
        proxy.target = ("127.0.0.1", second.port)
        proxy.cut_now()
        told = run(agent, operation="uptime")

    assert ("local_failure", "host_key_changed", "after_human", "none") == gist(told), told
    assert 0 == second.log().count("Accepted")


@pytest.mark.parametrize("pin", ["A" * 43, "host"])
def test_a_pinned_host_is_that_one_or_none(tmp_path: Path, lab: Lab, server: Sshd, pin: str) -> None:
    print_of = pin if pin != "host" else fingerprint(lab, "ed25519")
    trust = f'host_keys = "pinned:SHA256:{print_of}"'
    account = lab.account("bash", mark="p")
    with open_ssh_house(tmp_path / "h", lab, server, account, trust=trust) as at, at.agent() as agent:
        told = run(agent, operation="uptime")

    expected = ("success", "ok", "never", "none")
    if pin != "host":
        expected = ("local_failure", "host_key_changed", "after_human", "none")
    assert expected == gist(told), told


def fingerprint(lab: Lab, name: str) -> str:
    blob = base64.b64decode(lab.public(lab.host_key(name)).split()[1])
    return base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def test_nothing_of_the_key_is_anywhere_outside_the_vault(tmp_path: Path, lab: Lab, server: Sshd) -> None:
    """No process, file or socket of the run shows a private line: not in arguments, environment, state or output."""
    account = lab.account("bash", mark="s")
    body = [line for line in lab.user_key.read_bytes().split(b"\n") if line and b"-----" not in line]
    secret = [body[SEED_LINE]]
    texts = ("sleep 2; env; tr '\\0' '\\n' < /proc/self/environ; cat id_copy",)
    with open_ssh_house(tmp_path / "h", lab, server, account, texts=texts) as at, at.agent() as agent:
        at.here("id_copy").write_bytes(lab.user_key.read_bytes())
        at.here("id_copy").chmod(0o644)
        number = begin(agent, command=texts[0], request_id="r1")
        until((at.here(".doorward") / "ops").exists)
        found = [str(where) for where, octets in seen(at) if any(line in octets for line in secret)]
        told = agent.end_act(number)
        found += [str(where) for where, octets in seen(at) if any(line in octets for line in secret)]

        assert [] == found
        assert told["scrub"]["state"] == "done"
        assert not any(line.decode() in str(told) for line in secret), "a copy on the host is cut out"
        assert "[redacted]" in told["ssh"]["stdout"], told
        assert "SSH_AUTH_SOCK" not in told["ssh"].get("stdout", "")
        at.house.stop()
        assert [] == [str(where) for where, octets in files(at) if any(line in octets for line in secret)]


def seen(at: SshHouse) -> Iterator[tuple[Path, bytes]]:
    for pid in processes():
        for name in ("cmdline", "environ"):
            try:
                yield Path(f"/proc/{pid}/{name}"), Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
    yield from files(at)


def files(at: SshHouse) -> Iterator[tuple[Path, bytes]]:
    home = at.house.places.home
    assert home is not None
    for folder, _, names in os.walk(home):
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                yield path, path.read_bytes()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"command": "echo \0"}, ("invalid_request", "schema", "never", "none")),
        ({"command": "echo " + "x" * 30_000}, ("invalid_request", "body_too_large", "never", "none")),
        ({"host": "web-9", "argv": ["uptime"]}, ("invalid_request", "unknown_service", "never", "none")),
        ({"operation": "nosuch"}, ("invalid_request", "unknown_operation", "never", "none")),
        ({"operation": "note", "args": {}}, ("invalid_request", "schema", "never", "none")),
        ({"operation": "note", "args": {"name": "--help"}}, ("invalid_request", "schema", "never", "none")),
    ],
)
def test_what_can_not_be_asked_is_told_by_name(
    bad: tuple[SshHouse, Agent], request_: dict[str, object], expected: tuple[str, str, str, str]
) -> None:
    assert expected == gist(run(bad[1], **request_))


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Iterator[tuple[SshHouse, Agent]]:
    server, account = lab.start(NO_SFTP), lab.account("bash", mark="b")
    with open_ssh_house(tmp_path_factory.mktemp("bad") / "h", lab, server, account) as at, at.agent() as agent:
        yield at, agent


def test_a_host_without_file_transfer_says_so(bad: tuple[SshHouse, Agent]) -> None:
    told = bad[1].ask("POST", "/v1/ssh/get", {"host": "web-1", "path": "a"})["value"]

    assert ("confirmed_failure", "precondition") == (told["category"], told["code"]), told


def test_a_key_that_the_host_does_not_take_is_tried_once(tmp_path: Path, lab: Lab, server: Sshd) -> None:
    account = lab.account("bash", mark="w")
    lab.authorize(account, lab.key("another"))
    with open_ssh_house(tmp_path / "h", lab, server, account) as at, at.agent() as agent:
        before = server.log().count("Failed publickey")
        told = run(agent, operation="uptime")

    assert ("authentication_failed", "ssh_rejected", "never", "none") == gist(told), told
    assert server.log().count("Failed publickey") <= before + 1


def test_a_credential_that_is_bound_elsewhere_goes_nowhere(tmp_path: Path, lab: Lab, server: Sshd) -> None:
    account = lab.account("bash", mark="e")
    with open_ssh_house(tmp_path / "h", lab, server, account) as at, at.agent() as agent:
        before = at.connections()
        at.house.human.client.rebind_credential(
            "deploy",
            [f"ssh://{account.name}@127.0.0.2:{server.port}"],
            {"private_key": lab.user_key.read_text(encoding="ascii")},
            at.house.key,
        )
        told = run(agent, operation="uptime")

        assert ("policy_denied", "rule_denied") == (told["category"], told["code"]), told
        assert before == at.connections()
        with pytest.raises(Exception, match="bound to ssh"):
            add_key(at.house, lab, "https://api.example.com", name="wrong")


def test_a_lock_ends_kept_logins(tmp_path: Path, lab: Lab) -> None:
    server, account = lab.start(NORMAL), lab.account("bash", mark="l")
    with open_ssh_house(tmp_path / "h", lab, server, account) as at, at.agent() as agent:
        for _ in range(3):
            assert "success" == run(agent, operation="uptime")["category"]
        assert 1 == at.logins(), "one login serves them all"
        assert server.sessions()
        at.house.human.client.lock()
        until(lambda: not server.sessions())
        assert "vault_locked" == run(agent, operation="uptime")["category"]
