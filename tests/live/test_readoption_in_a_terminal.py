"""`doorward vault readopt` as a human does it: read what was found, type the word and the passphrase."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.contract.kdf import STANDARD_FLOOR, KdfParams
from tests.live.house import PASSPHRASE, House
from tests.live.terminal import Terminal
from tests.live.test_log_custody import flip, looked, status

pytestmark = pytest.mark.live
DEAR = KdfParams(
    memory_kib=STANDARD_FLOOR.memory_kib, iterations=STANDARD_FLOOR.iterations, lanes=4, salt=b"salt-of-a-house!"
)
READOPT = (sys.executable, "-I", "-m", "broker.cli", "vault", "readopt")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Stopped, with a record altered since."""
    with House(tmp_path / "h", kdf=DEAR) as made:
        made.init().start().human.unlock()
        made.stop()
        flip(made.places.audit / "00000001.seg", 700)
        yield made


def test_a_human_reads_types_the_word_and_the_passphrase(house: House) -> None:
    house.start()
    looked(house)
    with Terminal("readopt", [*READOPT], environ=house.environ, size=(140, 30)) as terminal:
        shown = terminal.until("type audit_altered:")
        assert "records of the audit log were altered" in shown
        assert "00000001.seg offset" in shown
        terminal.keys("y", "Enter")
    assert "quarantined" == status(house)["vault"]["state"]
    with Terminal(
        "readopt2", ["sh", "-c", f"{' '.join(READOPT)}; cat"], environ=house.environ, size=(140, 30)
    ) as terminal:
        terminal.until("type audit_altered:")
        terminal.keys("audit_altered", "Enter")
        terminal.until("Passphrase:")
        terminal.paste(PASSPHRASE)
        terminal.keys("Enter")
        assert "known from now on" in terminal.until("taken over: the vault is ready")
    assert "ready" == status(house)["vault"]["state"]


def test_it_works_without_a_daemon_and_without_a_terminal(house: House) -> None:
    def run(*more: str, passphrase: str = PASSPHRASE) -> "subprocess.CompletedProcess[bytes]":
        reading, writing = os.pipe()
        os.write(writing, passphrase.encode() + b"\n")
        os.close(writing)
        try:
            return subprocess.run(
                [*READOPT, "--passphrase-fd", str(reading), *more],
                env=house.environ,
                pass_fds=(reading,),
                capture_output=True,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                timeout=60,
                check=False,
            )
        finally:
            os.close(reading)

    refused = run()
    assert (1, True) == (refused.returncode, b"no terminal" in refused.stderr)
    wrong = run("--yes", passphrase="something else")
    assert 1 == wrong.returncode
    done = run("--yes", "--json")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (0, "ready", True) == (done.returncode, answer["state"], answer["known"])
    again = run("--yes", "--json")
    assert (0, None) == (again.returncode, json.loads(again.stdout)["reason"])
    house.start()
    assert "locked" == looked(house)["vault"]["state"]
    house.human.unlock()
