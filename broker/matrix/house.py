"""A throw-away installation: state in a directory of its own, a real daemon as a child, and a human who is scripted.

The runner's process is the human and holds the approver's key; agents are processes of their own. Key derivation is
cheap here, for the passphrase guards nothing. The daemon's log goes into the state directory, as `doorward up` has it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from broker.client.approver import ApproverKey, Keys, derive, save_key_file
from broker.client.control import ControlClient, Served
from broker.client.faults import ClientError
from broker.client.handover import key_text
from broker.client.places import Places
from broker.contract.kdf import REDUCED_FLOOR, KdfParams
from broker.contract.wire import JsonObject, JsonValue, parse_object
from broker.core.secret import Secret
from broker.matrix.faults import MatrixError

DAEMON = ("-I", "-m", "broker.daemon")
START_S = 60.0
STOP_S = 60.0
VERIFY_S = 120.0
PAGE = 1000
LOG_LETTERS = 400
NO_DESKTOP = {"DBUS_SESSION_BUS_ADDRESS": "", "DBUS_SYSTEM_BUS_ADDRESS": ""}  # that of whoever runs this is left alone
_SALT = b"salt-of-a-matrix"


class House:
    """State under a directory, the daemon over it, and its human. Close it; the directory stays."""

    def __init__(self, home: Path) -> None:
        self.environ = {**os.environ, "DOORWARD_HOME": str(home), **NO_DESKTOP}
        self.home = home
        self.places = Places(self.environ)
        self.process: subprocess.Popen[bytes] | None = None
        self.key: ApproverKey | None = None
        self.client = ControlClient(self.places)
        self._kdf = KdfParams(memory_kib=8192, iterations=1, lanes=1, salt=_SALT)
        self._keys: Keys = derive(Secret(f"passphrase {os.urandom(16).hex()}"), self._kdf, floor=REDUCED_FLOOR)
        self._credentials: set[str] = set()
        self._program: Sequence[str] = DAEMON
        self.turn = threading.RLock()  # one at a time speaks to the daemon, or brings it back

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()
        if self.process is not None:
            self.kill()

    def init(self) -> Self:
        """Make the state, and the approver's key file in it."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        seed = os.urandom(32)
        unnamed = ApproverKey(log_id="not known yet", seed=seed)
        request = {
            "kek_b64": key_text(self._keys.vault_kek),
            "kdf": self._kdf.to_json(),
            "approver_public_key_b64": key_text(Secret(unnamed.public_key)),
        }
        done = subprocess.run(
            [sys.executable, *DAEMON, "--init"],
            input=json.dumps(request).encode(),
            env=self.environ,
            cwd="/",
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        if done.returncode:
            raise MatrixError(f"no state could be made in {self.home}: {done.stderr.decode(errors='replace')[-400:]}")
        log_id = parse_object(done.stdout)["log_id"]
        self.key = ApproverKey(log_id=str(log_id), seed=seed)
        save_key_file(self.places.approver_key, self.key, self._kdf, self._keys.approver_kek)
        return self

    def start(self, program: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> Self:
        """Start the daemon, or a program in its place, and wait until it serves. It is what `restart` starts too."""
        self._program = program or self._program
        log = os.open(self.places.daemon_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self.process = subprocess.Popen(
                [sys.executable, *self._program],
                env={**self.environ, **(environ or {})},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        finally:
            os.close(log)
        told = self.process.stdout
        if told is None or not select.select([told], [], [], START_S)[0] or told.readline() != b"ready\n":
            raise MatrixError(f"the daemon did not start: {self.said()}")
        return self

    def open(self) -> Self:
        """Unlock the vault and show who we are."""
        self.client.unlock(self._keys.vault_kek)
        self.client.open_session(self.approver)
        return self

    def said(self) -> str:
        """The end of the daemon's own log."""
        return self.places.daemon_log.read_text(encoding="utf-8", errors="replace")[-LOG_LETTERS:].strip()

    def step_away(self) -> None:
        """Leave the vault open and no human in sight: a lock ends the human's session, an unlock does not begin one."""
        self.client.lock()
        self.client.unlock(self._keys.vault_kek)
        self.client.close()

    def come_back(self) -> None:
        """Unlock what is locked, and show who we are."""
        if not self.is_unlocked():
            self.client.unlock(self._keys.vault_kek)
        self.client.open_session(self.approver)

    def lock(self) -> None:
        self.client.lock()

    @property
    def approver(self) -> ApproverKey:
        if self.key is None:
            raise MatrixError("this house has no state yet")
        return self.key

    def furnish(self, name: str, kind: str, secret: JsonObject, origins: Sequence[str]) -> None:
        """Bind a credential, once."""
        if name not in self._credentials:
            self.client.add_credential(
                {"name": name, "kind": kind, "origins": list(origins)}, dict(secret), self.approver
            )
            self._credentials.add(name)

    def trust(self, policy: str, files: Mapping[str, str] | None = None) -> None:
        """Put a policy in force. Raises MatrixError with all that the daemon finds wrong with it."""
        self.places.policies.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in {"matrix.toml": policy, **(files or {})}.items():
            path = self.places.policies / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600)
        pending = self.client.policy_pending()
        if pending["faults"]:
            raise MatrixError(f"the policy of the case is refused: {_listed(pending['faults'])}")
        digest, counter = pending["digest"], pending["counter"]
        if not isinstance(digest, str) or not isinstance(counter, int):
            raise MatrixError("the daemon does not show which policy there is to trust")
        self.client.trust_policy(digest, counter, self.approver)

    def cards(self) -> list[dict[str, JsonValue]]:
        """What waits for a human now."""
        return self.client.approvals(state="pending")

    def approve(self, card_id: str, *, scope: str = "once") -> Served:
        """Look at a card, wait until it may be answered, and say yes."""
        served = self.client.approval(card_id)
        wait_until(lambda: time.time() * 1000 > served.served_at_ms + served.arming_ms + 5)
        self.client.approve(served, self.approver, scope=scope, confirm=served.card.typed_word)
        return served

    def deny(self, card_id: str) -> None:
        self.client.deny(card_id, reason="the matrix says no")

    def events(self, **query: str | int) -> list[dict[str, JsonValue]]:
        """Records of the audit log, decrypted, oldest first."""
        found: list[dict[str, JsonValue]] = []
        after = query.pop("after_seq", None)
        while True:
            page = self.client.audit_events(limit=PAGE, after_seq=after, **query)["events"]
            rows = [dict(row) for row in page if isinstance(row, Mapping)] if isinstance(page, list) else []
            found += rows
            if len(rows) < PAGE:
                return found
            after = int(str(rows[-1]["seq"]))

    def verdict(self) -> str:
        """What the offline check says of the log, by the program that any auditor would run."""
        done = subprocess.run(
            [sys.executable, "-I", "-m", "broker.cli", "audit", "verify", "--json"],
            env=self.environ,
            capture_output=True,
            check=False,
            timeout=VERIFY_S,
        )
        try:
            return str(parse_object(done.stdout)["verdict"])
        except (ValueError, KeyError):
            return f"no verdict: {done.stderr.decode(errors='replace')[-200:]}"

    def kill(self) -> None:
        """As a power failure would, seen from the state."""
        if self.process is not None:
            self.process.kill()
            self.wait()

    def restart(self, *, killed: bool) -> None:
        """Once it has ended, by itself or killed or asked to, start it again and unlock it."""
        with self.turn:
            if killed:
                self.kill()
            else:
                self.stop()
            self.start().open()

    def stop(self) -> int:
        """Ask the daemon to end; its exit code."""
        self.client.close()
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Until the daemon has ended; its exit code."""
        if self.process is None:
            return 0
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait(STOP_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        self.client.close()
        return code

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def last_seq(self) -> int:
        """The number of the last record of the log."""
        audit = self.client.status()["audit"]
        seq = audit.get("seq") if isinstance(audit, Mapping) else None
        return seq if isinstance(seq, int) else 0

    def is_unlocked(self) -> bool:
        with suppress(ClientError):
            vault = self.client.status()["vault"]
            return isinstance(vault, Mapping) and vault.get("state") == "ready"
        return False

    def is_alive(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            return False
        with suppress(ClientError):
            self.client.status()
            return True
        return False


def wait_until(what: Callable[[], bool], *, limit_s: float = 30.0, every_s: float = 0.01) -> bool:
    """Whether it came true within the limit."""
    deadline = time.monotonic() + limit_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def _listed(faults: JsonValue) -> str:
    rows = faults if isinstance(faults, list) else [faults]
    return "; ".join(str(row) for row in rows)[:2000]
