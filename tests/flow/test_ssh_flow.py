"""SSH actions through the ladder: the same gates, one look at a new host's key, and nothing before a good yes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.core.approval import Happening
from broker.core.ledger import AttemptState
from broker.core.outcome import Fault, Phase
from broker.core.secret import Secret
from broker.core.ssh.frozen import FrozenSsh
from broker.core.ssh.outcome import Finding, Found, MarkerState, SshFault, Transfer
from broker.core.ssh.recall import KEY, look_ups
from broker.core.ssh.resolve import LookUpAsk, SshAsk
from broker.core.ssh.secrets import SshPasswordSecret
from broker.core.ssh.trust import HostKey, KeyState
from broker.ports import Delivery
from tests.fakes import hosts, market
from tests.fakes.flow import Flow, gist
from tests.fakes.hosts import SEEN, STORE, command, ended, get, operation, put, words

PASSWORD = "canary-login-password-0123"
BOUND = (
    "ssh://deploy@web-1.example:22",
    "ssh://deploy@bastion.example:22",
    "ssh://root@10.0.4.14:2222",
    "ssh://deploy@new-1.example:22",
)
RESTART = operation("restart", unit="php")
ONCE = command("touch x")
KNOWN = HostKey(state=KeyState.KNOWN_HOSTS, store=STORE)


def ssh_flow() -> Flow:
    flow = Flow()
    flow.policies.policy = hosts.POLICY
    flow.vault.put("deploy", "", *BOUND, secret=SshPasswordSecret(password=Secret(PASSWORD)))
    flow.executor.key = KNOWN
    return flow


async def test_a_read_goes_straight_through_and_its_output_comes_back() -> None:
    flow = ssh_flow()
    flow.executor.answers.append(ended(0, b"active\n", marker=MarkerState.OFF))
    envelope = await flow.ask(operation("status", unit="php"))

    assert ("success", "ok", "never", "none") == gist(envelope)
    ssh = envelope["ssh"]
    assert isinstance(ssh, dict)
    assert ("active\n", 0) == (ssh["stdout"], ssh["exit_status"])
    assert ["action.requested", "policy.decided", "dispatch.started", "remote.answered", "action.result"] == (
        flow.audit.names(flow.last)
    )
    (delivery,) = flow.executor.deliveries
    assert Delivery(session_id="se_1", host_key=KNOWN) == delivery


async def test_a_yes_lets_the_very_command_run_and_the_ledger_knows_how_to_look_it_up() -> None:
    flow = ssh_flow()
    flow.executor.answers.append(ended(0))
    envelope = await flow.ask_and_answer(RESTART)

    assert ("success", "ok", "never", "applied") == gist(envelope)
    (permit,) = flow.executor.permits
    assert isinstance(permit.frozen, FrozenSsh)
    (attempt,) = flow.ledger.attempts
    about = attempt.args[KEY]
    assert isinstance(about, dict)
    assert {"path": STORE.path, "id": STORE.id, "boot": STORE.boot} == about["since"]
    assert ("php", "exec") == (attempt.args["unit"], about["action"])


@pytest.mark.parametrize("happening", [Happening.DENIED, Happening.EXPIRED, Happening.LOCKED, Happening.FROZEN])
async def test_nothing_is_sent_without_a_yes(happening: Happening) -> None:
    """T10."""
    flow = ssh_flow()
    envelope = await flow.ask_and_answer(RESTART, happening)

    assert ([], []) == (flow.executor.permits, flow.ledger.attempts)
    assert "none" == envelope["remote_effect"]


def lock(flow: Flow) -> None:
    flow.vault.lock()


def rotate(flow: Flow) -> None:
    flow.vault.put("deploy", "", *BOUND, secret=SshPasswordSecret(password=Secret("canary-2")))


def new_policy(flow: Flow) -> None:
    flow.policies.policy = replace(hosts.POLICY, digest=market.OTHER_DIGEST)


def end_session(flow: Flow) -> None:
    flow.sessions.exit(flow.caller)


@pytest.mark.parametrize("change", [lock, rotate, new_policy, end_session])
async def test_a_yes_is_void_where_anything_changed_meanwhile(change: Callable[[Flow], None]) -> None:
    flow = ssh_flow()
    async with flow.asking(RESTART) as (card, answer):
        change(flow)
        flow.desk.settle(card, Happening.APPROVED)
    envelope = answer.result()

    assert [] == flow.executor.permits
    assert "success" != envelope["category"]


async def test_a_session_grant_covers_the_whole_command_alone() -> None:
    """T03."""
    flow = ssh_flow()
    flow.executor.answers.extend([ended(0), ended(0), ended(0)])
    await flow.ask_and_answer(ONCE, scope="session")

    assert "success" == (await flow.ask(ONCE))["category"]
    async with flow.asking(command("touch y")) as (card, answer):
        flow.desk.settle(card, Happening.DENIED)
    assert "session_denied" == answer.result()["category"]


@pytest.mark.parametrize(
    "ask",
    [
        command("rm -rf /"),
        command("touch x; rm -rf /"),
        words("touch", "/forbidden"),
        put("/etc/passwd"),
        command("uptime", host="web/web-2"),
        command("true", host="lab/web-1"),
    ],
)
async def test_what_no_rule_names_is_denied_without_a_look_at_the_host(ask: SshAsk) -> None:
    flow = ssh_flow()

    assert "policy_denied" == (await flow.ask(ask))["category"]
    assert ([], []) == (flow.executor.looks, flow.executor.permits)


async def test_a_credential_that_is_not_bound_to_each_hop_opens_nothing() -> None:
    flow = ssh_flow()
    flow.vault.put("deploy", "", *BOUND[:1], secret=SshPasswordSecret(password=Secret(PASSWORD)))
    envelope = await flow.ask(operation("status", host="web/web-2", unit="x"))

    assert ("policy_denied", "rule_denied") == (envelope["category"], envelope["code"])
    assert "ssh://deploy@bastion.example:22" in str(envelope["message"])


async def test_a_new_hosts_key_is_on_the_card_and_goes_with_the_yes() -> None:
    flow = ssh_flow()
    flow.executor.key = HostKey(state=KeyState.UNVERIFIED, seen=SEEN)
    ask = command("uptime", host="web/new-1")
    async with flow.asking(ask) as (card, answer):
        assert [] == flow.executor.permits, "until somebody answers no login is tried"
        assert "new-1" == card.drawn["typed_word"]
        flow.desk.settle(card, Happening.APPROVED, scope="session")
    assert "success" == answer.result()["category"]

    assert SEEN == (flow.executor.deliveries[0].host_key or HostKey(state=KeyState.PINNED)).seen
    flow.executor.key = HostKey(state=KeyState.ACCEPTED)
    assert "success" == (await flow.ask_and_answer(ask))["category"], "a first contact grants nothing for later"


async def test_a_new_host_that_no_card_would_show_is_refused() -> None:
    flow = ssh_flow()
    flow.executor.key = HostKey(state=KeyState.UNVERIFIED, seen=SEEN)
    envelope = await flow.ask(operation("status", host="web/new-1", unit="x"))

    assert ("local_failure", "host_key_unknown", "after_human", "none") == gist(envelope)
    assert [] == flow.executor.permits


async def test_a_host_that_can_not_be_looked_at_is_told_before_anybody_is_asked() -> None:
    flow = ssh_flow()
    flow.executor.key = SshFault.CONNECT_REFUSED
    envelope = await flow.ask(RESTART)

    assert ("local_failure", "connect_refused", "bounded", "none") == gist(envelope)
    assert ([], []) == (flow.desk.cards, flow.executor.permits)


@pytest.mark.parametrize(
    ("seen", "expected", "event"),
    [
        (hosts.LOST, ("outcome_unknown", "connection_lost", "reconcile_first", "unknown"), "transport.failed"),
        (hosts.TIMED_OUT, ("outcome_unknown", "total_timeout", "reconcile_first", "unknown"), "deadline.expired"),
        (hosts.REFUSED, ("local_failure", "connect_refused", "bounded", "none"), "transport.failed"),
        (ended(3), ("command_failed", "exit_status", "reconcile_first", "unknown"), "remote.answered"),
    ],
)
async def test_what_may_have_happened_is_in_doubt_and_blocks_its_repeat(
    seen: object, expected: tuple[str, ...], event: str
) -> None:
    flow = ssh_flow()
    flow.executor.answers.append(seen)  # type: ignore[arg-type]  # an outcome
    envelope = await flow.ask_and_answer(RESTART)

    assert expected == gist(envelope)
    assert event in flow.audit.names(flow.last)
    doubtful = expected[3] == "unknown"
    assert (AttemptState.IN_DOUBT if doubtful else AttemptState.DONE) is flow.ledger.state(flow.last)
    if doubtful:
        again = await flow.ask(RESTART)
        assert ("reconcile_required", "in_doubt") == (again["category"], again["code"])
        assert "success" == (await flow.ask_and_answer(operation("restart", unit="web")))["category"]


async def test_a_look_up_passes_the_gates_and_is_no_change_of_its_own() -> None:
    flow = ssh_flow()
    flow.executor.answers.append(hosts.LOST)
    await flow.ask_and_answer(RESTART)
    doubted = flow.last
    (attempt,) = flow.ledger.attempts
    (way,) = look_ups(
        hosts.POLICY, attempt.args, service="web", operation="restart", correlation_id=attempt.correlation_id
    )
    flow.executor.answers.append(
        ended(0, marker=MarkerState.OFF, finding=Finding(found=Found.FINISHED, status=0), store=None)
    )
    envelope = await flow.ask(way)

    assert ("success", "reconciled", "never", "applied") == gist(envelope)
    assert AttemptState.IN_DOUBT is flow.ledger.state(doubted), "settling is the reconciler's"
    flow.vault.lock()
    assert "vault_locked" == (await flow.ask(way))["category"]
    assert isinstance(way, LookUpAsk)


async def test_output_in_frames_is_scrubbed_and_a_file_leaves_the_envelope() -> None:
    flow = ssh_flow()
    heard: list[tuple[str, bytes]] = []

    async def sink(stream: str, octets: bytes) -> None:
        heard.append((stream, octets))

    transfer = Transfer(size=3, complete=True)
    flow.executor.answers.append(ended(0, b"abc" + PASSWORD.encode(), marker=MarkerState.OFF, transfer=transfer))
    envelope = await flow.perform(replace(flow.received(get("/a")), frames=sink))
    ssh = envelope["ssh"]
    assert isinstance(ssh, dict)

    assert [("stdout", b"abc[redacted]")] == heard
    assert "stdout" not in ssh


async def test_a_listener_that_went_away_changes_nothing() -> None:
    flow = ssh_flow()

    async def gone(stream: str, octets: bytes) -> None:
        raise ConnectionResetError(stream, len(octets))

    flow.executor.answers.append(ended(0, b"\xff", marker=MarkerState.OFF, transfer=Transfer(size=1, complete=True)))
    envelope = await flow.perform(replace(flow.received(get("/a")), frames=gone))

    assert "success" == envelope["category"]


@pytest.mark.parametrize("request_id", [None, "r1"])
async def test_the_end_of_a_stream_speaks_for_what_was_streamed(request_id: str | None) -> None:
    flow = ssh_flow()
    heard: list[bytes] = []

    async def sink(stream: str, octets: bytes) -> None:
        del stream
        heard.append(octets)

    async def talk() -> None:
        frames = flow.executor.deliveries[-1].frames
        assert frames is not None
        await frames("stdout", b"line\n" * 100)

    flow.executor.talk = talk
    flow.executor.answers.append(ended(0, b"line\n", b"bad\n", stdout_bytes=500, streamed=True, marker=MarkerState.OFF))
    envelope = await flow.perform(
        replace(flow.received(operation("status", unit="x"), request_id=request_id), frames=sink)
    )
    ssh, completeness = envelope["ssh"], envelope["completeness"]
    assert isinstance(ssh, dict)
    assert isinstance(completeness, dict)

    assert b"line\n" * 100 == b"".join(heard)
    assert ("success", True, 504) == (envelope["category"], completeness["complete"], completeness["work"]["bytes"])
    assert (500, False, "bad\n") == (ssh["stdout_bytes"], "stdout" in ssh, ssh["stderr"])


@pytest.mark.parametrize(
    ("status", "gist_of_end"), [(0, ("partial", "incomplete")), (3, ("command_failed", "exit_status"))]
)
async def test_a_stream_that_was_ended_for_what_is_in_it_is_never_whole(
    status: int, gist_of_end: tuple[str, str]
) -> None:
    """The record keeps less than was streamed, and holds nothing of it."""
    flow = ssh_flow()
    flow.vault.put("deploy", "", *BOUND, secret=SshPasswordSecret(password=Secret("canary-pw")))
    heard: list[bytes] = []

    async def sink(stream: str, octets: bytes) -> None:
        del stream
        heard.append(octets)

    async def talk() -> None:
        frames = flow.executor.deliveries[-1].frames
        assert frames is not None
        await frames("stdout", b"a\n")
        await frames("stdout", b"canary-pw and more\n")

    flow.executor.talk = talk
    flow.executor.answers.append(ended(status, b"a\n", stdout_bytes=21, streamed=True, marker=MarkerState.OFF))
    envelope = await flow.perform(replace(flow.received(operation("status", unit="x")), frames=sink))

    assert b"canary" not in b"".join(heard)
    assert gist_of_end == gist(envelope)[:2]
    completeness = envelope["completeness"]
    assert completeness is None or (isinstance(completeness, dict) and completeness["complete"] is False)
    assert "SCRUB_NOT_POSSIBLE" in str(envelope["warnings"])


async def test_of_a_stream_that_broke_off_no_beginning_of_a_value_is_handed_on() -> None:
    flow = ssh_flow()
    heard: list[bytes] = []

    async def sink(stream: str, octets: bytes) -> None:
        del stream
        heard.append(octets)

    async def talk() -> None:
        frames = flow.executor.deliveries[-1].frames
        assert frames is not None
        await frames("stdout", b"it is " + PASSWORD[:-3].encode())

    flow.executor.talk = talk
    flow.executor.answers.append(replace(hosts.LOST, marker=MarkerState.OFF))
    await flow.perform(replace(flow.received(operation("status", unit="x")), frames=sink))

    assert b"canary" not in b"".join(heard)


async def test_frames_of_a_command_are_handed_on_while_it_runs() -> None:
    flow = ssh_flow()
    heard: list[bytes] = []

    async def sink(stream: str, octets: bytes) -> None:
        assert "stdout" == stream
        heard.append(octets)

    async def talk() -> None:
        frames = flow.executor.deliveries[-1].frames
        assert frames is not None
        for piece in (b"one ", PASSWORD[:5].encode(), PASSWORD[5:].encode(), b" two cana"):
            await frames("stdout", piece)

    flow.executor.talk = talk
    flow.executor.answers.append(ended(0, b"kept", marker=MarkerState.OFF))
    envelope = await flow.perform(replace(flow.received(operation("status", unit="x")), frames=sink))
    ssh = envelope["ssh"]
    assert isinstance(ssh, dict)

    assert b"one [redacted] two cana" == b"".join(heard)
    assert "kept" == ssh["stdout"]


async def test_an_outcome_of_http_is_a_fault_of_ours_and_leaves_the_doubt() -> None:
    flow = ssh_flow()
    flow.executor.answers.append(market.failed(Fault.CONNECTION_LOST, Phase.BODY_SENT))
    with pytest.raises(TypeError, match="channel"):
        await flow.perform(flow.received(operation("status", unit="x")))

    assert ["transport.failed", "action.result"] == flow.audit.names(flow.last)[-2:]
