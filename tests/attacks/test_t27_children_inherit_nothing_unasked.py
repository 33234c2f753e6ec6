"""T27: an agent under `run` starts from an allow-listed environment and inherits no descriptor."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.cli.environment import for_agent, for_daemon
from broker.client.places import Places
from tests.fakes.unix_daemon import UnixDaemon

LOOK = """
import json, os
print(json.dumps({"env": dict(os.environ), "fds": sorted(map(int, os.listdir("/proc/self/fd")))}))
"""
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "canary-1",
    "GITHUB_TOKEN": "canary-2",
    "DOORWARD_PASSPHRASE": "canary-3",
    "LD_PRELOAD_NOT": "canary-4",
    "PYTHONSTARTUP": "canary-5",
}
COMMON = {"LC_CTYPE": "C.UTF-8", "https_proxy": "http://p", "NO_PROXY": "x", "XDG_CONFIG_HOME": "/c", "TERM": "dumb"}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with UnixDaemon(Path(Places({"DOORWARD_HOME": str(tmp_path)}).agent_socket)) as daemon:
        daemon.replies["POST /v1/session"] = (200, {"session": {"id": "se_1"}})
        yield tmp_path


def seen_by_agent(home: Path, *options: str) -> Any:
    """What an agent sees whose launcher was itself started with secrets and an open descriptor."""
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "broker.cli", "run", *options, "--", sys.executable, "-I", "-c", LOOK],
            env={"PATH": os.environ["PATH"], "DOORWARD_HOME": str(home), **SECRETS, **COMMON},
            pass_fds=(reading, writing),
            capture_output=True,
            check=True,
            timeout=30,
        )
    finally:
        os.close(reading)
        os.close(writing)
    return json.loads(done.stdout)


def test_an_agent_sees_common_variables_and_no_secret_of_the_shell(home: Path) -> None:
    found = seen_by_agent(home)["env"]

    assert {"PATH": os.environ["PATH"], "DOORWARD_HOME": str(home), **COMMON} == found


def test_an_agent_inherits_no_descriptor_but_the_three(home: Path) -> None:
    found = seen_by_agent(home)["fds"]

    assert [0, 1, 2] == found[:3]
    assert len(found) == 4  # and the directory that is being listed


def test_one_more_variable_passes_by_name(home: Path) -> None:
    found = seen_by_agent(home, "--env", "GITHUB_TOKEN")["env"]

    assert "canary-2" == found["GITHUB_TOKEN"]
    assert "AWS_SECRET_ACCESS_KEY" not in found


def test_everything_passes_only_when_told_so_and_ours_never(home: Path) -> None:
    found = seen_by_agent(home, "--env-all")["env"]

    assert {"canary-1", "canary-2", "canary-4"} <= set(found.values())
    assert "DOORWARD_PASSPHRASE" not in found
    assert "DOORWARD_PASSPHRASE" not in for_agent(SECRETS, named=["DOORWARD_PASSPHRASE"])


def test_a_daemon_that_we_start_sees_places_and_language_alone() -> None:
    kept = {"HOME": "/h", "LC_ALL": "C", "XDG_RUNTIME_DIR": "/r", "DOORWARD_HOME": "/d"}

    assert kept == for_daemon({**kept, **SECRETS, "TMUX": "x", "SSH_AUTH_SOCK": "/s", "https_proxy": "http://p"})
