import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from broker.client.places import Places

ROOT = Path(__file__).resolve().parents[2]


def test_doorward_home_holds_everything() -> None:
    places = Places.find({"DOORWARD_HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1", "XDG_CONFIG_HOME": "/c"})

    assert Path("/h") == places.home
    assert Path("/h/config/policies") == places.policies
    assert Path("/h/config/approver.key") == places.approver_key
    assert Path("/h/data/vault.db") == places.vault
    assert Path("/h/data/ledger.db") == places.ledger
    assert Path("/h/data/audit") == places.audit
    assert Path("/h/data/audit.pin") == places.pin
    assert Path("/h/data/audit-seed") == places.seeds
    assert Path("/h/data/daemon.lock") == places.lock
    assert Path("/h/data/daemon.log") == places.daemon_log
    assert Path("/h/anchor/head") == places.anchor_head
    assert Path("/h/run") == places.runtime
    assert "/h/run/agent.sock" == places.agent_socket
    assert "/h/run/control.sock" == places.control_socket


def test_a_relative_home_is_made_absolute() -> None:
    assert Path.cwd() / "h" == Places.find({"DOORWARD_HOME": "h"}).home


def test_the_platforms_variables_decide_without_a_home() -> None:
    places = Places.find(
        {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d/", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}
    )

    assert places.home is None
    assert Path("/c/doorward/policies") == places.policies
    assert Path("/d/doorward/vault.db") == places.vault
    assert Path("/s/doorward/anchor/head") == places.anchor_head
    assert "/r/doorward/agent.sock" == places.agent_socket


def test_relative_variables_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    assert Path(platformdirs.user_config_dir("doorward")) == Places.find({"XDG_CONFIG_HOME": "odd"}).config


def test_the_agents_path_pays_for_neither_pathlib_nor_platformdirs() -> None:
    script = (
        "import sys; before = set(sys.modules); from broker.client.places import Places;"
        "Places.find({'XDG_RUNTIME_DIR': '/r'}).agent_socket; print(' '.join(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30, cwd=ROOT
    )

    assert not {"pathlib", "platformdirs", "dataclasses", "typing"} & set(loaded.stdout.split())
