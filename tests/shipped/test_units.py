import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from broker.client.places import Places

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
MODES = ("user", "system")
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(
    ANALYZE is None, reason="systemd-analyze is not installed: the units' syntax and sandbox are not tested"
)


def settings(path: Path) -> dict[str, list[str]]:
    """The values of each setting of a unit, in order; a setting may come more than once."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        if (parts := re.fullmatch(r"([A-Za-z]+)=(.*)", line)) is not None:
            found[parts[1]].append(parts[2])
    return found


def analyze(*arguments: str, runtime: Path) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    return subprocess.run(
        [ANALYZE, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "LC_ALL": "C.UTF-8"},
    )


@pytest.fixture(params=MODES)
def units(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """The units of one mode with a command that exists, for systemd looks whether it does."""
    copies = []
    for source in sorted((PACKAGING / "systemd" / request.param).iterdir()):
        copy = tmp_path / source.name
        text = source.read_text(encoding="utf-8")
        copy.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text), encoding="utf-8")
        copies.append(copy)
    return copies


@needs_systemd
def test_systemd_finds_no_fault_in_the_units(units: list[Path], tmp_path: Path) -> None:
    mode = ("--user",) if "%t" in (tmp_path / "doorward-agent.socket").read_text(encoding="utf-8") else ()

    done = analyze(*mode, "verify", *map(str, units), runtime=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_the_system_mode_is_sandboxed(tmp_path: Path) -> None:
    unit = PACKAGING / "systemd" / "system" / "doorward.service"

    within = analyze("security", "--offline=true", "--no-pager", "--threshold=20", str(unit), runtime=tmp_path)
    beyond = analyze("security", "--offline=true", "--no-pager", "--threshold=1", str(unit), runtime=tmp_path)

    assert within.returncode == 0, within.stdout
    assert beyond.returncode != 0  # the threshold means something to this systemd


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("face", ["agent", "control"])
def test_each_socket_is_handed_over_under_its_name(mode: str, face: str) -> None:
    socket = settings(PACKAGING / "systemd" / mode / f"doorward-{face}.socket")
    service = settings(PACKAGING / "systemd" / mode / "doorward.service")

    assert socket["FileDescriptorName"] == [face]
    assert socket["ListenStream"][0].endswith(f"/doorward/{face}.sock")
    assert socket["Service"] == ["doorward.service"]
    assert f"doorward-{face}.socket" in service["Requires"][0].split()


def test_in_user_mode_the_sockets_are_the_users_alone() -> None:
    for face in ("agent", "control"):
        socket = settings(PACKAGING / "systemd" / "user" / f"doorward-{face}.socket")

        assert (["0600"], ["0700"]) == (socket["SocketMode"], socket["DirectoryMode"])


def test_in_system_mode_asking_and_answering_are_two_groups() -> None:
    groups = [
        settings(PACKAGING / "systemd" / "system" / f"doorward-{face}.socket")["SocketGroup"]
        for face in ("agent", "control")
    ]
    made = (PACKAGING / "sysusers" / "doorward.conf").read_text(encoding="utf-8")

    assert groups == [["doorward-agents"], ["doorward-approvers"]]
    assert re.findall(r"(?m)^g (\S+)", made) == ["doorward-agents", "doorward-approvers"]
    assert re.findall(r"(?m)^u (\S+)", made) == settings(PACKAGING / "systemd" / "system" / "doorward.service")["User"]


def test_the_daemon_may_look_at_its_peers() -> None:
    service = settings(PACKAGING / "systemd" / "system" / "doorward.service")

    assert ["default"] == service["ProtectProc"]
    assert ["all"] == service["ProcSubset"]
    assert ["no"] == service["PrivateUsers"]


@pytest.mark.parametrize("mode", MODES)
def test_no_mode_dumps_memory_or_gains_privileges(mode: str) -> None:
    service = settings(PACKAGING / "systemd" / mode / "doorward.service")

    assert (["0"], ["yes"], ["0077"]) == (service["LimitCORE"], service["NoNewPrivileges"], service["UMask"])


def test_the_runtime_directory_is_made_where_the_sockets_are() -> None:
    made = (PACKAGING / "tmpfiles" / "doorward.conf").read_text(encoding="utf-8")

    assert ("/run/doorward", "0755", "doorward") in re.findall(r"(?m)^d (\S+) (\S+) (\S+)", made)


def test_in_system_mode_the_daemons_policies_are_not_the_machines() -> None:
    """The daemon wants its own directories to be its own, and the machine's to be root's."""
    service = settings(PACKAGING / "systemd" / "system" / "doorward.service")
    places = Places(dict(word.split("=", 1) for line in service["Environment"] for word in line.split()))
    made = re.findall(r"(?m)^d (\S+) (\S+) (\S+)", (PACKAGING / "tmpfiles" / "doorward.conf").read_text("utf-8"))
    states = {Path("/var/lib") / name for name in service["StateDirectory"][0].split()}

    assert (str(places.system_policies), "0755", "root") in made
    for own in (places.config, places.policies, places.data, places.anchor):
        assert states & {own, *own.parents}, own
        assert places.system_policies not in {own, *own.parents}
