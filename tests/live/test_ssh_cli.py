"""`doorward ssh` as an agent types it: streams apart and to the byte, exit codes by contract, files of any size."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.house import Agent
from tests.live.ssh_house import SshHouse, open_ssh_house
from tests.live.sshd import NORMAL, Lab, NotHere, open_lab

pytestmark = pytest.mark.live

DOORWARD = str(Path(sys.executable).parent / "doorward")
BOTH = "printf 'a\\nb'; printf 'c\\n' >&2; exit 4"
LONG = "i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    try:
        with open_lab() as made:
            yield made
    except NotHere as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> Iterator[SshHouse]:
    server = lab.start(NORMAL)
    home = tmp_path_factory.mktemp("cli") / "h"
    with open_ssh_house(
        home, lab, server, lab.account("bash", mark="i"), texts=(BOTH, LONG, "cat; true", "true; exit 9")
    ) as made:
        yield made


@pytest.fixture
def agent(at: SshHouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setenv("DOORWARD_HOME", str(at.house.places.home))
    with at.agent() as made:
        yield made


def test_streams_come_apart_and_the_exit_code_is_the_contracts(agent: Agent) -> None:
    told = agent.run(DOORWARD, "ssh", "web-1", "--", BOTH)

    assert (17, "a\nb") == (told["code"], told["out"])
    assert told["err"].startswith("c\n")
    assert "command_failed (exit_status)" in told["err"]
    assert 26 == agent.run(DOORWARD, "ssh", "web-1", "--remote-exit", "--", BOTH)["code"], "it is in doubt by then"
    assert 9 == agent.run(DOORWARD, "ssh", "web-1", "--remote-exit", "--", "true; exit 9")["code"]


def test_words_are_words_and_an_operation_has_a_name(agent: Agent) -> None:
    told = agent.run(DOORWARD, "ssh", "web-1", "--operation", "uptime")
    denied = agent.run(DOORWARD, "ssh", "web-1", "--", "id", "-u")
    envelope = agent.run(DOORWARD, "ssh", "web-1", "--json", "--", "uptime")

    assert 0 == told["code"]
    assert "load average" in told["out"]
    assert (20, "") == (denied["code"], denied["out"])
    assert '"operation":"web.uptime"' in envelope["out"].replace(" ", "")


def test_long_output_comes_whole_though_the_record_keeps_less(agent: Agent) -> None:
    told = agent.run(DOORWARD, "ssh", "web-1", "--", LONG)

    assert 20_000 * 41 == len(told["out"])
    assert (3, "OUTPUT_TRUNCATED" in told["err"]) == (told["code"], True)


def test_input_is_handed_on_only_where_asked(agent: Agent) -> None:
    told = agent.run("/bin/sh", "-c", f"echo hello | {DOORWARD} ssh web-1 --stdin -- 'cat; true'")

    assert (0, "hello\n") == (told["code"], told["out"]), told


def test_files_go_there_and_come_back(at: SshHouse, agent: Agent, tmp_path: Path) -> None:
    local, back = tmp_path / "big", tmp_path / "back"
    local.write_bytes(os.urandom(5 << 20))
    put = agent.run(DOORWARD, "ssh", "put", str(local), "web-1:big.bin", "--mode", "0600")
    got = agent.run(DOORWARD, "ssh", "get", "web-1:big.bin", str(back))
    missing = agent.run(DOORWARD, "ssh", "get", "web-1:nosuch", str(tmp_path / "no"))

    assert (0, 0) == (put["code"], got["code"]), (put, got)
    assert local.read_bytes() == back.read_bytes() == at.here("big.bin").read_bytes()
    assert 13 == missing["code"]
    assert ["back", "big"] == sorted(path.name for path in tmp_path.iterdir() if path.is_file())


def test_the_services_list_hosts_and_commands(agent: Agent) -> None:
    told = agent.run(DOORWARD, "services")

    assert "host web-1 as" in told["out"]
    assert "uptime  READ uptime; on web-1; runs without asking" in told["out"]


@pytest.mark.parametrize(
    "words",
    [
        ("ssh",),
        ("ssh", "web-1"),
        ("ssh", "web-1", "uptime"),
        ("ssh", "put", "x"),
        ("ssh", "get", "web-1"),
        ("ssh", "web-1", "--operation", "note", "name"),
    ],
)
def test_a_slip_is_told_and_nothing_is_asked(agent: Agent, words: tuple[str, ...]) -> None:
    assert 64 == agent.run(DOORWARD, *words)["code"]
