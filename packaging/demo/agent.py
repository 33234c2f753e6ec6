"""The scripted agent: asks doorward for one thing after the other and prints each answer as one JSON line.

It holds no credential and knows no token; all it has is the `doorward` command.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path


def ask(doorward: str, *words: str) -> dict[str, object]:
    """Run one agent verb; its envelope, and the exit code that belongs to it."""
    done = subprocess.run([doorward, *words, "--json"], capture_output=True, text=True, check=False, timeout=60)
    return {"envelope": json.loads(done.stdout), "exit": done.returncode, "command": shlex.join(words)}


def create(doorward: str, name: str, *more: str) -> dict[str, object]:
    return ask(doorward, "call", "shop.deployments.create", f"name={name}", *more)


def received_bytes(log: str) -> int:
    """How much the upstream has got so far, by its own log."""
    try:
        lines = Path(log).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return 0
    return sum(json.loads(line)["bytes"] for line in lines)


def tell(step: str, answer: dict[str, object], sent: int) -> None:
    print(json.dumps({"step": step, "upstream_got_bytes": sent, **answer}), flush=True)


def main(script: str, doorward: str, log: str) -> None:
    """Go through one script."""

    def step(name: str, *words: str) -> dict[str, object]:
        before = received_bytes(log)
        answer = ask(doorward, *words)
        tell(name, answer, received_bytes(log) - before)
        return answer

    listing = ("call", "shop.deployments.list", "--reason", "look at what runs")
    if script == "locked":
        step("read while the vault is locked", *listing)
        return
    if script == "second":
        step("read by a new process", *listing)
        return
    step("read, asked once for this session", *listing)
    step("read again, under the session's grant", *listing)
    step("write, approved once", "call", "shop.deployments.create", "name=web", "--reason", "deploy web")
    step("write, denied by the human", "call", "shop.deployments.create", "name=intruder", "--reason", "all is well")
    step("delete, denied by the policy", "call", "shop.releases.delete", "id=7")
    slow = ("call", "shop.deployments.create", "name=slow", "--reason", "deploy slow", "--deadline", "1.5")
    unknown = step("write whose answer never comes", *slow)
    step("the same write again", *slow)
    envelope = unknown["envelope"]
    if isinstance(envelope, dict):
        step("reconcile by the declared read-back", "reconcile", str(envelope["correlation_id"]))


if __name__ == "__main__":
    main(*sys.argv[1:4])
