"""A whole installation for live tests: throw-away state, a real daemon as a child, a human and agents.

The test's own process is the human; agents are processes of their own, for whoever asks as an agent can't answer.
"""

import base64
import itertools
import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from broker.client.approver import ApproverKey, KeyFile, Keys, derive
from broker.client.control import ControlClient, Served
from broker.client.places import Places
from broker.contract.kdf import REDUCED_FLOOR, KdfParams
from broker.core.secret import Secret
from tests.live.agent_process import Link, exchange

ROOT = Path(__file__).resolve().parents[2]
AGENT = Path(__file__).with_name("agent_process.py")
DAEMON = ("-I", "-m", "broker.daemon")
PASSPHRASE = "canary passphrase of a house"
CHEAP = KdfParams(memory_kib=8192, iterations=1, lanes=1, salt=b"salt-of-a-house!")
START_S = 30.0
NO_DESKTOP = {"DBUS_SESSION_BUS_ADDRESS": "", "DBUS_SYSTEM_BUS_ADDRESS": ""}  # that of who runs the tests is left alone
SHOP = """
version = 1

[[rules]]
id = "look"
services = ["shop"]
effects = ["read"]
approval = "session"
max_uses = 5

[[rules]]
id = "buy"
services = ["shop"]
effects = ["write"]
approval = "per_call"

[[rules]]
id = "free"
services = ["open"]
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET", "POST"]

[services.shop.operations."orders.list"]
request = {{ method = "GET", path = "/orders", query = ["page"] }}
effect = "read"

[services.shop.operations."orders.list".completeness]
complete_when = "type(json.orders) == 'array' && json.more == `false`"
examples.match = [{{ status = 200, json = {{ orders = [], more = false }} }}]
examples.no_match = [{{ status = 200, json = {{ orders = [], more = true }} }}]

[services.shop.operations."orders.create"]
request = {{ method = "POST", path = "/orders", body = ["name"] }}
effect = "write"
change_key = ["name"]

[services.shop.operations."orders.create".reconcile]
operation = "orders.list"
args = {{}}
match = "json.orders[?name == $name]"

[services.open]
kind = "http"
base_url = "{origin}/open"
ad_hoc = ["GET", "POST"]
"""
T = TypeVar("T")


def until(what: Callable[[], T], *, limit_s: float = 60.0, every_s: float = 0.01) -> T:
    """The first true answer; fails after the limit."""
    deadline = time.monotonic() + limit_s
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(every_s)
    return found


class Agent:
    """A process that asks. `begin` and `end` leave time for a human in between."""

    def __init__(self, socket_path: str, argv: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*(argv or (sys.executable, "-I")), str(AGENT), socket_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {0: queue.SimpleQueue()}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.pid: int = self.end(0)["pid"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> dict[str, Any]:
        """Status and value of an answer, or `fault` where there was none."""
        return self.end(self.begin(method, path, body, **more))

    def act(self, **request: Any) -> dict[str, Any]:
        """The envelope of an action."""
        value: dict[str, Any] = self.ask("POST", "/v1/http", request)["value"]
        return value

    def begin(self, method: str, path: str, body: object = None, **more: Any) -> int:
        return self.order("ask", method=method, path=path, body=body, **more)

    def begin_act(self, **request: Any) -> int:
        return self.begin("POST", "/v1/http", request)

    def end_act(self, number: int) -> dict[str, Any]:
        value: dict[str, Any] = self.end(number)["value"]
        return value

    def hang_up(self, number: int) -> None:
        self.end(self.order("hang_up", of=number))

    def run(self, *argv: str) -> dict[str, Any]:
        """Let it start a child; its exit code and output."""
        return self.end(self.order("run", argv=list(argv)))

    def child(self, socket_path: str, method: str, path: str, body: object = None, *, orphan: bool = False) -> Any:
        """What a child of this agent is answered."""
        words = [sys.executable, "-I", str(AGENT), *(["--orphan"] if orphan else []), socket_path, method, path]
        told = self.run(*words, *([] if body is None else [json.dumps(body)]))
        assert told["code"] == 0, told
        return json.loads(told["out"])

    def become(self, *argv: str) -> None:
        """Exec into another program that follows the same orders."""
        self._answers[0] = queue.SimpleQueue()
        self.order("exec", argv=[*argv])
        assert self.end(0)["pid"] == self.pid

    def order(self, do: str, **more: Any) -> int:
        number = next(self._numbers)
        self._answers[number] = queue.SimpleQueue()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": do, **more}) + "\n")
        return number

    def end(self, number: int, *, limit_s: float = 40.0) -> dict[str, Any]:
        return self._answers[number].get(timeout=limit_s)

    def answered(self, number: int) -> bool:
        """Whether an answer is there that `end` has not taken yet."""
        return not self._answers[number].empty()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._answers[answer.pop("id")].put(answer)


class ControlPerson:
    """The human: unlocks, trusts, looks at cards and answers them. Lives in the test's own process."""

    def __init__(self, places: Places, keys: Keys, key: ApproverKey) -> None:
        self.places = places
        self.keys = keys
        self.key = key
        self.client = ControlClient(places)

    def close(self) -> None:
        self.client.close()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Anything at all, as any process of this user could."""
        link = Link(self.places.control_socket)
        try:
            told = exchange(link, {"method": method, "path": path, "body": body})
        finally:
            link.close()
        return told["status"], told["value"]

    def unlock(self) -> None:
        self.client.unlock(self.keys.vault_kek.reveal())

    def readopt(self) -> dict[str, Any]:
        """Take a quarantined vault over, as what is found is shown now; what was shown."""
        shown = self.client.quarantine()
        statement = shown["statement"]
        assert isinstance(statement, dict)
        self.client.readopt(statement, self.keys.vault_kek.reveal(), self.key)
        return dict(shown)

    def open_session(self) -> None:
        self.client.open_session(self.key)

    def add_bearer(self, name: str, token: str, *origins: str) -> None:
        self.client.add_credential(
            {"name": name, "kind": "bearer", "origins": list(origins)}, {"token": token}, self.key
        )

    def write_policy(self, name: str, text: str) -> None:
        self.places.policies.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.places.policies / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)

    def trust(self) -> None:
        """Trust the policy files as they lie there."""
        pending = self.client.policy_pending()
        assert pending["faults"] == [], pending["faults"]
        digest, counter = pending["digest"], pending["counter"]
        assert isinstance(digest, str)
        assert isinstance(counter, int)
        self.client.trust_policy(digest, counter, self.key)

    def cards(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self.client.approvals(state="pending")]

    def wait_for_card(self) -> str:
        """The id of the card that waits; there is to be one."""
        (card,) = until(self.cards)
        found: str = card["id"]
        return found

    def approve(self, card_id: str, *, scope: str = "once") -> Served:
        """Look at the card, wait for its arming, and say yes."""
        served = self.client.approval(card_id)
        until(lambda: time.time() * 1000 > served.served_at_ms + served.arming_ms + 5)
        self.client.approve(served, self.key, scope=scope, confirm=served.card.typed_word)
        return served

    def deny(self, card_id: str, reason: str | None = None, *, end_session: bool = False) -> None:
        self.client.deny(card_id, reason=reason, end_session=end_session)

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """Records of the audit log, oldest first."""
        told = self.client.audit_events(limit=1000, event=event)["events"]
        assert isinstance(told, list)
        return [dict(record) for record in told]


class House:
    """State under a directory, and the daemon over it."""

    def __init__(self, home: Path, *, passphrase: str = PASSPHRASE, kdf: KdfParams = CHEAP) -> None:
        self.environ = {**os.environ, "DOORWARD_HOME": str(home), **NO_DESKTOP}
        self.places = Places(self.environ)
        self.kdf = kdf
        self.keys = derive(Secret(passphrase), kdf, floor=REDUCED_FLOOR)
        self.log_id = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._seed = os.urandom(32)
        self._human: ControlPerson | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._human is not None:
            self._human.close()
        if self.process is not None:
            self.kill()

    @classmethod
    def like(cls, other: Self, home: Path) -> Self:
        """The same installation in another place, as it lies on the disk now."""
        source = other.places.home
        assert source is not None
        shutil.copytree(source, home, ignore=shutil.ignore_patterns("*.sock"))
        made = cls(home, kdf=other.kdf)
        made._seed, made.log_id = other._seed, other.log_id
        return made

    @property
    def key(self) -> ApproverKey:
        return ApproverKey(log_id=self.log_id, seed=self._seed)

    @property
    def human(self) -> ControlPerson:
        if self._human is None:
            self._human = ControlPerson(self.places, self.keys, self.key)
        return self._human

    def init(self, **more: object) -> Self:
        """Make the state, and the approver's key file beside it."""
        key = ApproverKey(log_id="not known yet", seed=self._seed)
        request = {
            "kek_b64": _b64(self.keys.vault_kek.reveal()),
            "kdf": self.kdf.to_json(),
            "approver_public_key_b64": _b64(key.public_key),
            **more,
        }
        told = self.run_daemon("--init", stdin=json.dumps(request).encode())
        assert told.returncode == 0, told.stderr
        self.log_id = json.loads(told.stdout)["log_id"]
        self.places.approver_key.write_bytes(KeyFile.sealed(self.key, self.kdf, self.keys.approver_kek).encode())
        self.places.approver_key.chmod(0o600)
        return self

    def run_daemon(self, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        """The daemon's program to its end: making state, or refusing to start."""
        return subprocess.run(
            [sys.executable, *DAEMON, *words],
            input=stdin,
            env=self.environ,
            cwd="/",
            capture_output=True,
            timeout=START_S,
            check=False,
        )

    def start(
        self,
        *words: str,
        program: Sequence[str] = DAEMON,
        environ: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Self:
        """Start the daemon and wait until it serves. Its log goes where the CLI would put it."""
        log = os.open(self.places.daemon_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self.process = subprocess.Popen(
                [sys.executable, *program, *words],
                env={**self.environ, **(environ or {})},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=pass_fds,
            )
        finally:
            os.close(log)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], START_S)[0], "the daemon did not start in time"
        assert self.process.stdout.readline() == b"ready\n", self.log()
        return self

    def open(self, policy: str | None = None, *, token: str = "canary-token-of-the-house", origin: str = "") -> Self:
        """Start it and make it ready for agents: unlocked, a credential bound, a policy trusted."""
        if self.process is None:
            self.start()
        human = self.human
        human.unlock()
        human.open_session()
        if origin:
            human.add_bearer("shop", token, origin)
            human.write_policy("shop.toml", (policy or SHOP).format(origin=origin))
            human.trust()
        return self

    def agent(self, argv: Sequence[str] = ()) -> Agent:
        return Agent(self.places.agent_socket, argv)

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """As a power failure would, seen from the state."""
        self._running().kill()
        self.wait()

    def wait(self, limit_s: float = 45.0) -> int:
        process = self._running()
        code = process.wait(limit_s)
        if process.stdout is not None:
            process.stdout.close()
        self.process = None
        if self._human is not None:
            self._human.client.close()
        return code

    def log(self) -> str:
        return self.places.daemon_log.read_text(encoding="utf-8")

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self.process is not None, "no daemon was started"
        return self.process


@contextmanager
def open_house(home: Path, *, origin: str = "", policy: str | None = None) -> Iterator[House]:
    """A house with a daemon that is ready for agents."""
    with House(home) as house:
        yield house.init().open(policy, origin=origin)


def _b64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
