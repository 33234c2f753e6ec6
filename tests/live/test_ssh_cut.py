"""Both halves of what can happen to a command whose connection is lost, twenty times each: it goes on, or it is killed.

Nothing here is called a failure that is not known to be one, and nothing is repeated before it is known.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from tests.live.house import until
from tests.live.ssh_house import SshHouse, begin, gist, open_ssh_house, reconcile, run, settled
from tests.live.sshd import NORMAL, Lab, NotHere, is_root, kill, of_user, open_lab
from tests.live.tcp_cuts import CutProxy, How

pytestmark = pytest.mark.live

TIMES = 20
GOES_ON = "echo going >> going; sleep 0.7; echo done >> done; exit 7"
IS_KILLED = "echo begun >> begun; sleep 60; echo never >> never"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    try:
        with open_lab() as made:
            yield made
    except NotHere as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Iterator[tuple[SshHouse, CutProxy]]:
    with ExitStack() as stack:
        server = lab.start(NORMAL)
        proxy = stack.enter_context(CutProxy(("127.0.0.1", server.port)))
        at = stack.enter_context(
            open_ssh_house(
                tmp_path_factory.mktemp("cut") / "h",
                lab,
                server,
                lab.account("bash", mark="c"),
                texts=(GOES_ON, IS_KILLED),
                port=proxy.port,
            )
        )
        yield at, proxy


def said(at: SshHouse, name: str, word: str, count: int) -> bool:
    return at.here(name).exists() and at.text(name).count(word) == count


def test_a_command_that_goes_on_after_its_connection_is_found_finished_with_its_own_status(
    proxied: tuple[SshHouse, CutProxy],
) -> None:
    """C06, first half."""
    at, proxy = proxied
    with at.agent() as agent:
        for count in range(1, TIMES + 1):
            number = begin(agent, command=GOES_ON)
            until(partial(said, at, "going", "going", count))
            proxy.cut_now(How.RST if count % 2 else How.FIN)
            lost = agent.end_act(number)
            assert ("outcome_unknown", "reconcile_first", "unknown") == (
                lost["category"], lost["retry"], lost["remote_effect"],
            ), lost  # fmt: skip
            assert "reconcile_required" == run(agent, command=GOES_ON)["category"], "nothing is repeated meanwhile"
            told = settled(agent, lost["correlation_id"])

            assert ("command_failed", "exit_status", "after_human", "unknown") == gist(told), told
            assert (7, "finished") == (told["ssh"]["exit_status"], told["ssh"]["marker"])
            assert count == at.text("done").count("done")


@pytest.mark.skipif(not is_root(), reason="nobody else's processes may be killed")
def test_a_command_that_is_killed_after_its_start_is_never_called_failed_nor_done(
    proxied: tuple[SshHouse, CutProxy],
) -> None:
    """C06, second half."""
    at, _ = proxied
    with at.agent() as agent:
        for count in range(1, TIMES + 1):
            number = begin(agent, command=IS_KILLED)
            until(partial(said, at, "begun", "begun", count))
            while left := of_user(at.account.uid):  # one of them may just have begun another
                for pid in sorted(left):  # what waits for another before what it waits for
                    kill({pid})
            lost = agent.end_act(number)
            assert ("outcome_unknown", "unknown") == (lost["category"], lost["remote_effect"]), lost
            told = reconcile(agent, lost["correlation_id"])

            assert ("outcome_unknown", "unrecorded", "after_human", "unknown") == gist(told), told
            assert "died" == told["ssh"]["marker"]
            assert "reconcile_required" == run(agent, command=IS_KILLED)["category"]
            at.house.human.client.settle(lost["correlation_id"], "not_applied", "it was killed", at.house.key)
    assert not at.here("never").exists()
