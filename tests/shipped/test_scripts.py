import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path
    for folder in ("packaging", "tests", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and path.stat().st_size < 100_000 and path.read_bytes().startswith((b"#!/bin/sh", b"#!/bin/bash"))
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_can_be_read_by_its_shell_and_started(script: Path) -> None:
    shell = script.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#!")

    assert script.stat().st_mode & 0o111
    assert subprocess.run([shell, "-n", str(script)], capture_output=True, check=False, timeout=10).stderr == b""


def test_without_root_missing_programs_are_named_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n", encoding="utf-8")
    (tmp_path / "id").chmod(0o755)

    done = subprocess.run(
        ["/bin/sh", str(ROOT / "packaging" / "setup-test-deps.sh")],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )

    assert done.returncode == 0
    assert "not installed: tmux (package tmux); without it not tested: the terminal UI" in done.stderr
    assert "not root; to install them: sudo apt-get install --no-install-recommends" in done.stderr


def test_an_interpreter_that_does_not_fit_is_refused_with_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(ROOT / "packaging" / "setup-venv.sh"), str(tmp_path / "venv"), str(ROOT / "requirements.lock")],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(tmp_path / "python3")},
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )

    assert done.returncode == 1
    assert "doorward needs Python 3.11 to 3.14" in done.stderr
    assert not (tmp_path / "venv").exists()
