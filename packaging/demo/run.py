"""The main job, end to end, on a throw-away vault: `make demo`. No key press; exits 1 if anything is not as it must be.

Starts the sample upstream and a real daemon, plays the human with a scripted approver, lets a scripted agent read,
write, be denied, lose an answer and reconcile, and verifies the audit log and an altered copy of it.
"""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from typing_extensions import override

from broker.client.approver import ApproverKey, Secret, derive, read_key_file
from broker.client.control import ControlClient
from broker.client.envelope_lines import lines
from broker.client.faults import ClientError
from broker.client.places import Places

HERE = Path(__file__).parent
DOORWARD = str(Path(sys.executable).parent / "doorward")
Expect = dict[str, object]

EXPECTED: dict[str, Expect] = {
    "read while the vault is locked": {"category": "vault_locked", "retry": "after_human", "remote_effect": "none"},
    "read, asked once for this session": {"category": "success", "remote_effect": "none"},
    "read again, under the session's grant": {"category": "success", "remote_effect": "none"},
    "write, approved once": {"category": "success", "remote_effect": "applied"},
    "write, denied by the human": {"category": "call_denied", "code": "declined", "remote_effect": "none"},
    "delete, denied by the policy": {"category": "policy_denied", "code": "rule_denied", "remote_effect": "none"},
    "write whose answer never comes": {
        "category": "outcome_unknown",
        "code": "total_timeout",
        "retry": "reconcile_first",
        "remote_effect": "unknown",
    },
    "the same write again": {"category": "reconcile_required", "retry": "reconcile_first"},
    "reconcile by the declared read-back": {"category": "success", "code": "reconciled", "remote_effect": "applied"},
    "read by a new process": {"category": "session_denied", "code": "declined", "remote_effect": "none"},
}
NOTHING_SENT = {
    "read while the vault is locked",
    "write, denied by the human",
    "delete, denied by the policy",
    "the same write again",
    "read by a new process",
}


class Demo:
    """One run in one throw-away directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.faults: list[str] = []
        self.passphrase = secrets.token_hex(12)
        self.places = Places({"DOORWARD_HOME": str(home)})
        self.environ = {
            "DOORWARD_HOME": str(home),
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "LANG": "C.UTF-8",
        }

    def doorward(self, *words: str, secret: str | None = None, env: dict[str, str] | None = None) -> str:
        """Run a human verb; the passphrase goes over a pipe."""
        inner, outer = os.pipe()
        os.write(outer, (secret or self.passphrase).encode() + b"\n")
        os.close(outer)
        try:
            done = subprocess.run(
                [DOORWARD, *words, "--passphrase-fd", str(inner)],
                env={**self.environ, **(env or {})},
                pass_fds=(inner,),
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        finally:
            os.close(inner)
        if done.returncode != 0:
            raise SystemExit(f"doorward {' '.join(words)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def check(self, told: dict[str, object]) -> None:
        """Print one step: what is typed, what it says to a human, its envelope. Hold it against what it has to be."""
        step, envelope = str(told["step"]), told["envelope"]
        print(f"\n  {step}\n    $ doorward {told['command']}   (exit {told['exit']})")
        if not isinstance(envelope, dict):
            self.faults.append(f"{step}: no envelope")
            return
        meaning, *_ = lines(envelope, terminal=False)
        print(f"    {meaning}\n      {envelope.get('message')}\n    {json.dumps(envelope)}")
        for name, value in EXPECTED[step].items():
            if envelope.get(name) != value:
                self.faults.append(f"{step}: {name} is {envelope.get(name)!r}, not {value!r}")
        if step in NOTHING_SENT:
            print(f"    bytes that reached the upstream: {told['upstream_got_bytes']}")
            if told["upstream_got_bytes"] != 0:
                self.faults.append(f"{step}: {told['upstream_got_bytes']} bytes reached the upstream")

    def agent(self, script: str, log: Path) -> None:
        """Run the scripted agent; its whole process tree is one session."""
        command = [DOORWARD, "run", "--", sys.executable, str(HERE / "agent.py"), script, DOORWARD, str(log)]
        with subprocess.Popen(command, env=self.environ, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout or ():
                self.check(json.loads(line))
        if running.returncode != 0:
            self.faults.append(f"the agent ended with {running.returncode}")


class Approver(threading.Thread):
    """The scripted human: looks at every card and answers it as `decide` says."""

    def __init__(self, places: Places, key: ApproverKey, decide: Callable[[str, str], str]) -> None:
        super().__init__(daemon=True)
        self._places = places
        self._key = key
        self._decide = decide
        self._over = threading.Event()

    @override
    def run(self) -> None:
        with ControlClient(self._places) as control:
            control.open_session(self._key)
            while not self._over.wait(0.1):
                with suppress(ClientError):
                    for row in control.approvals(state="pending"):
                        self._answer(control, str(row["id"]), str(row["operation"]))

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=10)

    def _answer(self, control: ControlClient, card: str, operation: str) -> None:
        served = control.approval(card)
        answer = self._decide(operation, json.dumps(served.raw))
        print(f"\n  [the human sees {card}: {operation}, and answers: {answer}]")
        if answer == "deny":
            control.deny(card, reason="Not this one.")
            return
        time.sleep(served.arming_ms / 1000 + 0.05)
        control.approve(served, self._key, scope=answer)


def decide_first(operation: str, card: str) -> str:
    if operation.endswith(".list"):
        return "session"
    return "deny" if "intruder" in card else "once"


@contextmanager
def started(command: list[str], environ: dict[str, str]) -> Iterator[str]:
    """A child process that says one line when it is ready; stopped at the end."""
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        try:
            yield (child.stdout.readline() if child.stdout else "").strip()
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(timeout=30)


def prepare(demo: Demo, port: int, ca: Path, token: str) -> None:
    """What `doorward setup` does for a shipped pack, step by step for the sample service."""
    print(demo.doorward("init", "--yes").strip())
    origin = f"https://localhost:{port}"
    print(
        demo.doorward(
            "credential", "add", "shop", "--kind", "bearer", "--origin", origin, "--from-env", "DEMO_TOKEN",
            env={"DEMO_TOKEN": token},
        ).strip()
    )  # fmt: skip
    policies = demo.places.policies
    text = (HERE / "policy.toml").read_text(encoding="utf-8")
    for name, value in {
        "port": str(port),
        "python": os.path.realpath(sys.executable),
        "agent": str(HERE / "agent.py"),
    }.items():
        text = text.replace("{" + name + "}", value)
    (policies / "shop.toml").write_text(text, encoding="utf-8")
    shutil.copy(ca, policies / "demo-ca.pem")
    print(demo.doorward("policy", "trust", "--yes").strip())


def verify(demo: Demo) -> None:
    """The log verifies offline; a copy with one flipped byte does not."""
    print("\n== The audit log, verified offline and without a key ==")
    print("  " + _verdict(demo, ["audit", "verify"], expected=0))
    copy = demo.home / "copy"
    shutil.copytree(demo.places.audit, copy)
    segment = copy / "00000001.seg"
    octets = bytearray(segment.read_bytes())
    octets[len(octets) // 2] ^= 1
    segment.write_bytes(octets)
    pinned = ["audit", "verify", str(copy), "--pin", str(demo.places.pin)]
    print("  one bit of a copy flipped: " + _verdict(demo, pinned, expected=44))


def _verdict(demo: Demo, words: list[str], *, expected: int) -> str:
    done = subprocess.run(
        [DOORWARD, *words, "--json"], env=demo.environ, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != expected:
        demo.faults.append(f"doorward {' '.join(words)} ended with {done.returncode}, not {expected}: {done.stderr}")
    return done.stdout.strip()


def play(demo: Demo) -> None:
    work = demo.home / "upstream"
    work.mkdir()
    token, log = secrets.token_urlsafe(24), work / "requests.log"
    (work / "token").write_text(token, encoding="utf-8")
    subprocess.run([sys.executable, "-I", str(HERE / "certificates.py"), str(work)], check=True, timeout=60)
    files = [str(work / name) for name in ("server.pem", "server.key", "token")]
    upstream = [sys.executable, "-I", str(HERE / "upstream.py"), *files, str(log)]
    with started(upstream, demo.environ) as port:
        print("== Setting up: vault, approver key, credential, policy ==")
        prepare(demo, int(port), work / "ca.pem", token)
        with started([DOORWARD, "serve"], demo.environ):
            print("\n== Before anybody unlocks the vault ==")
            demo.agent("locked", log)
            print("\n== Unlocked; a human looks at the cards ==")
            print(demo.doorward("unlock").strip())
            file = read_key_file(demo.places.approver_key)
            key = file.opened(derive(Secret(demo.passphrase), file.kdf).approver_kek)
            approver = Approver(demo.places, key, decide_first)
            approver.start()
            demo.agent("first", log)
            approver.stop()
            print("\n== Another process of the same agent inherits nothing ==")
            approver = Approver(demo.places, key, lambda _operation, _card: "deny")
            approver.start()
            demo.agent("second", log)
            approver.stop()
        verify(demo)
    if token in json.dumps(
        [path.read_bytes().decode("latin-1") for path in demo.places.data.rglob("*") if path.is_file()]
    ):
        demo.faults.append("the token stands somewhere in the state directory in clear")


def main() -> int:
    try:
        return _played()
    except KeyboardInterrupt:
        print("\ninterrupted; what it had started is stopped, what it had made is removed", file=sys.stderr)
        return 130


def _played() -> int:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="doorward-demo-") as home:
        demo = Demo(Path(home))
        play(demo)
    for fault in demo.faults:
        print(f"NOT AS IT MUST BE: {fault}", file=sys.stderr)
    print(f"\n{'All as it must be' if not demo.faults else 'Faults were found'}, in {time.monotonic() - begun:.0f} s.")
    return 1 if demo.faults else 0


if __name__ == "__main__":
    sys.exit(main())
