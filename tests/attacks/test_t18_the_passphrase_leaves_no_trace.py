"""T18, T27: a passphrase on its way leaves no trace, and a pinentry sees nothing that it has no need of."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.control_answers import part
from broker.client.handover import key_text
from broker.contract.kdf import KdfParams
from tests import canary_scan
from tests.fakes.pinentries import pinentry
from tests.live.house import House, until

pytestmark = pytest.mark.live

SECRET = "canary-passphrase-of-a-human"
STANDARD = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=4, salt=b"a salt of a test")
ASKED = "note(pid=os.getpid())\nwhile not os.path.exists(RECORD + '.go'): time.sleep(0.02)\n"
NOISE = {
    "GITHUB_TOKEN": "a token of the shell",
    "LD_LIBRARY_PATH": "/nowhere",
    "GTK_MODULES": "evil",
    "QT_PLUGIN_PATH": "/nowhere",
    "PYTHONPATH": "/nowhere",
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path / "h", passphrase=SECRET, kdf=STANDARD) as made:
        yield made.init().start()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A pinentry whose human takes time; it plays the human, who knows the passphrase."""
    return pinentry(tmp_path / "far_side", answer=f"{ASKED}say('D {SECRET}')\nsay('OK')")


def unlocking(house: House, *words: str, **more: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "broker.cli", "unlock", *words],
        env={**house.environ, **NOISE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # no terminal to ask at
        **more,
    )


def said(program: Path) -> list[dict[str, Any]]:
    record = program.with_name("record")
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def looked_into(*pids: int) -> bytes:
    """What any process of the same user, and in parts root alone, reads of these."""
    seen = b""
    for pid in pids:
        for name in ("cmdline", "environ", "comm"):
            try:
                seen += Path(f"/proc/{pid}/{name}").read_bytes()
            except PermissionError:
                continue
    assert seen
    return seen


def core_limit(pid: int) -> list[str]:
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max core file size"):
            return line.split()[4:6]
    raise AssertionError("no such limit")


def test_a_passphrase_by_pinentry_is_nowhere_while_and_after_it_is_asked(house: House, program: Path) -> None:
    unlock = unlocking(house, "--pinentry", str(program))
    child = until(lambda: next((int(item["pid"]) for item in said(program) if "pid" in item), 0), limit_s=60.0)
    assert house.process is not None
    assert [] == canary_scan.hits(looked_into(unlock.pid, house.process.pid, child))
    assert ["0", "0"] == core_limit(unlock.pid) == core_limit(house.process.pid)
    program.with_name("record.go").touch()
    out, err = unlock.communicate(timeout=60)

    assert (0, b"the vault is ready\n", b"") == (unlock.returncode, out, err)
    assert "ready" == part(house.human.client.status(), "vault")["state"]
    assert [] == canary_scan.hits(house.log().encode())
    assert [] == traces(house)


def traces(house: House) -> list[Path]:
    """Files of the state that hold it."""
    assert house.places.home is not None
    found = [path for path in house.places.home.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in found if canary_scan.scan_file(path)]


def test_a_pinentry_sees_no_variable_and_no_descriptor_that_it_has_no_need_of(house: House, program: Path) -> None:
    program.with_name("record.go").touch()
    reading, writing = os.pipe()
    try:
        unlock = unlocking(house, "--pinentry", str(program), pass_fds=(reading, writing))
        unlock.communicate(timeout=60)
    finally:
        os.close(reading)
        os.close(writing)
    first = said(program)[0]

    assert 0 == unlock.returncode
    assert set() == set(first["environ"]) & {*NOISE, "DOORWARD_HOME", "HOME", "PATH", "SSH_AUTH_SOCK"}
    assert [0, 1, 2] == first["descriptors"][:3]
    assert len(first["descriptors"]) == 4  # and the directory that is being listed


def test_a_prompt_that_is_killed_leaves_nothing_behind(house: House, program: Path) -> None:
    unlock = unlocking(house, "--pinentry", str(program))
    until(lambda: any("pid" in item for item in said(program)), limit_s=60.0)
    unlock.send_signal(signal.SIGABRT)
    unlock.communicate(timeout=60)
    program.with_name("record.go").touch()

    assert -signal.SIGABRT == unlock.returncode
    assert [] == traces(house)
    assert not list(Path.cwd().glob("core*"))
    assert "locked" == part(house.human.client.status(), "vault")["state"]


def test_a_wrong_passphrase_is_on_record_without_its_words(house: House) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"canary-passphrase-of-nobody\n")
    os.close(writing)
    unlock = unlocking(house, "--passphrase-fd", str(reading), pass_fds=(reading,))
    os.close(reading)
    out, err = unlock.communicate(timeout=60)

    assert 1 == unlock.returncode
    assert [] == canary_scan.hits(out + err + house.log().encode())
    assert [] == traces(house)
    until(lambda: opened(house))
    house.human.open_session()
    (failed,) = house.human.events("vault.unlock_failed")
    assert {"why": "wrong_passphrase"} == failed["fields"]


def opened(house: House) -> bool:
    """The right one, as soon as it is looked at again."""
    return house.human.ask("POST", "/v1/unlock", {"kek_b64": key_text(house.keys.vault_kek)})[0] == 200
