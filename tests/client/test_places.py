import os
import stat
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from broker.client.places import Places

ROOT = Path(__file__).resolve().parents[2]


def test_doorward_home_holds_everything() -> None:
    places = Places({"DOORWARD_HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1", "XDG_CONFIG_HOME": "/c"})

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
    assert Path.cwd() / "h" == Places({"DOORWARD_HOME": "h"}).home


def test_the_platforms_variables_decide_without_a_home() -> None:
    places = Places({"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d/", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"})

    assert places.home is None
    assert Path("/c/doorward/policies") == places.policies
    assert Path("/d/doorward/vault.db") == places.vault
    assert Path("/s/doorward/anchor/head") == places.anchor_head
    assert "/r/doorward/agent.sock" == places.agent_socket


def test_relative_variables_are_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    places = Places({"HOME": str(tmp_path), "XDG_CONFIG_HOME": "odd"})

    assert Path(platformdirs.user_config_dir("doorward")) == places.config


def test_without_variables_the_places_are_those_that_the_platform_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)

    for places in (Places({"HOME": str(tmp_path)}), Places({})):
        assert Path(platformdirs.user_config_dir("doorward")) == places.config
        assert Path(platformdirs.user_data_dir("doorward")) == places.data
        assert Path(platformdirs.user_state_dir("doorward")) / "anchor" == places.anchor


def test_another_platform_is_asked_where_its_places_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "elsewhere")

    assert Path(platformdirs.user_data_dir("doorward")) == Places({"HOME": str(tmp_path)}).data


def test_without_a_runtime_directory_the_sockets_stand_with_the_data_and_never_in_tmp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 2_000_000_000)  # a user who never logged in

    places = Places({"HOME": str(tmp_path)})

    assert f"{tmp_path}/.local/share/doorward/run/agent.sock" == places.agent_socket
    assert places.data / "run" == places.runtime


@pytest.mark.parametrize(("mode", "taken"), [(0o700, True), (0o770, False), (0o755, False)])
def test_a_runtime_directory_is_taken_without_its_variable_where_it_is_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, taken: bool
) -> None:
    kind = stat.S_IFDIR | mode
    monkeypatch.setattr("os.lstat", lambda _: os.stat_result((kind, 0, 0, 1, os.getuid(), 0, 0, 0, 0, 0)))

    login = f"/run/user/{os.getuid()}/doorward"

    assert (login if taken else f"{tmp_path}/.local/share/doorward/run") == str(Places({"HOME": str(tmp_path)}).runtime)


@pytest.mark.parametrize("environ", [{"XDG_RUNTIME_DIR": "/r"}, {"HOME": "/h"}])
def test_the_agents_path_pays_for_neither_pathlib_nor_platformdirs(environ: dict[str, str]) -> None:
    script = (
        "import sys; before = set(sys.modules); from broker.client.places import Places;"
        f"Places({environ!r}).agent_socket; print(' '.join(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30, cwd=ROOT
    )

    assert not {"pathlib", "platformdirs", "dataclasses", "typing"} & set(loaded.stdout.split())
