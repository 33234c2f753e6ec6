"""`doorward ssh` as an agent types it: streams apart and to the byte, exit codes by contract, files of any size."""

import base64
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.contract.frames import DATA, END, PREFIX_BYTES, unpack_prefix
from broker.contract.wire import parse_object
from tests.live.house import Agent
from tests.live.ssh_house import SshHouse, gist, look_up_all, open_ssh_house, run
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


def test_streams_come_apart_and_the_exit_code_is_the_contracts(at: SshHouse, agent: Agent) -> None:
    told = agent.run(DOORWARD, "ssh", "web-1", "--", BOTH)

    assert (17, "a\nb") == (told["code"], told["out"])
    assert told["err"].startswith("c\n")
    assert "command_failed (exit_status)" in told["err"]
    assert 26 == agent.run(DOORWARD, "ssh", "web-1", "--remote-exit", "--", BOTH)["code"], "it is in doubt by then"
    assert 26 == agent.run(DOORWARD, "ssh", "web-1", "--remote-exit", "--", "true; exit 9")["code"], (
        "it may be the same"
    )
    look_up_all(at)
    assert 9 == agent.run(DOORWARD, "ssh", "web-1", "--remote-exit", "--", "true; exit 9")["code"]
    look_up_all(at)


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

    assert (0, 20_000 * 41) == (told["code"], len(told["out"])), told["err"]
    assert "OUTPUT_TRUNCATED" not in told["err"]


def test_long_output_in_one_piece_is_cut_and_says_so(agent: Agent) -> None:
    told = run(agent, command=LONG)

    assert ("partial", "incomplete", "never", "applied") == gist(told)
    assert 20_000 * 41 == told["ssh"]["stdout_bytes"] > len(told["ssh"]["stdout"])
    assert ["OUTPUT_TRUNCATED"] == [reason["code"] for reason in told["completeness"]["incomplete_reasons"]]


def test_the_end_of_a_stream_speaks_for_the_stream_and_its_record_hides_nothing(agent: Agent) -> None:
    asked = {"host": "web-1", "command": LONG, "request_id": "long"}
    frames = frames_of(base64.b64decode(agent.ask("POST", "/v1/ssh/stream", asked, binary=True)["b64"]))
    kind, end = frames[-1]
    assert kind == END
    told = parse_object(end, max_bytes=len(end))
    ssh, completeness = told["ssh"], told["completeness"]
    assert isinstance(ssh, dict)
    assert isinstance(completeness, dict)

    assert ("success", True, False) == (told["category"], completeness["complete"], completeness["truncated"])
    assert 20_000 * 41 == sum(len(payload) - 1 for kind, payload in frames if kind == DATA)
    assert isinstance(completeness["work"], dict)
    assert (20_000 * 41, 20_000 * 41) == (completeness["work"]["bytes"], ssh["stdout_bytes"])
    assert ("stdout" in ssh, "stderr" in ssh) == (False, True), "a part of it is not shown as if it were all"
    assert told == run(agent, command=LONG, request_id="long"), "whoever asks again is told the same"


def frames_of(octets: bytes) -> list[tuple[bytes, bytes]]:
    frames, at = [], 0
    while at < len(octets):
        kind, length = unpack_prefix(octets[at : at + PREFIX_BYTES])
        at += PREFIX_BYTES + length
        frames.append((kind, octets[at - length : at]))
    return frames


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
