"""Running the command line inside a test, against a state directory and fake daemons of the test's own."""

import ctypes
import os
from pathlib import Path

import pytest

from broker.cli.main import main
from broker.client.approver import create_key_file, derive
from broker.client.places import Places
from broker.contract.kdf import STANDARD_FLOOR, KdfParams
from broker.core.secret import Secret
from tests.fakes.unix_daemon import UnixDaemon

PASSPHRASE = "canary passphrase"
LOG_ID = "5c1d0badcafe0000"
KDF = KdfParams(
    memory_kib=STANDARD_FLOOR.memory_kib, iterations=STANDARD_FLOOR.iterations, lanes=4, salt=b"a salt of a test"
)
NONCE = "n" * 22
_PR_SET_DUMPABLE = 4
_KEY_FILE: list[bytes] = []  # made once for all tests: the derivation is dear on purpose


class CommandLine:
    """`run` gives exit code, standard output and standard error of one verb."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self.places = Places({"DOORWARD_HOME": str(home)})
        self._capsys = capsys
        monkeypatch.setenv("DOORWARD_HOME", str(home))

    def run(self, *arguments: str, passphrase: str | None = None) -> tuple[int, str, str]:
        given = [*arguments]
        reading = None
        if passphrase is not None:
            reading, writing = os.pipe()
            os.write(writing, passphrase.encode() + b"\n")
            os.close(writing)
            given += ["--passphrase-fd", str(reading)]
        try:
            code = main(given)
        finally:
            if reading is not None:
                os.close(reading)
            looked_into_again()
        out = self._capsys.readouterr()
        return code, out.out, out.err

    def agent_daemon(self) -> UnixDaemon:
        return UnixDaemon(Path(self.places.agent_socket))

    def control_daemon(self) -> UnixDaemon:
        """Answers what every signed verb asks first."""
        daemon = UnixDaemon(Path(self.places.control_socket))
        daemon.replies["GET /v1/status"] = (200, status())
        daemon.replies["GET /v1/nonce"] = (200, {"nonce": NONCE, "expires_at_ms": 1})
        daemon.replies["POST /v1/control-session"] = (200, {"key_id": "0" * 16, "opened": True})
        return daemon

    def make_key(self) -> None:
        """Put an approver key for PASSPHRASE where the command line looks for it."""
        path = self.places.approver_key
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _KEY_FILE:
            create_key_file(path, LOG_ID, KDF, derive(Secret(PASSPHRASE), KDF).approver_kek)
            _KEY_FILE.append(path.read_bytes())
        path.write_bytes(_KEY_FILE[0])
        path.chmod(0o600)


def status(*, vault: str = "ready", log_id: str = LOG_ID) -> dict[str, object]:
    return {
        "version": "0.1.0",
        "log_id": log_id,
        "vault": {"state": vault, "term": 12, "kdf": KDF.to_json()},
        "policy": {"digest": "sha256:3f9c21ab", "counter": 17, "pending": False},
        "audit": {"seq": 4211, "anchored": True},
        "approvals": {"pending": 2},
        "sessions": 3,
        "frozen": False,
        "warnings": [],
        "operations": {"in_doubt": 1},
    }


def looked_into_again() -> None:
    """Undo a human verb's hardening of this process: other tests look into their own /proc."""
    if hasattr(os, "pidfd_open"):
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(ctypes.c_int(_PR_SET_DUMPABLE), ctypes.c_ulong(1), zero, zero, zero)
