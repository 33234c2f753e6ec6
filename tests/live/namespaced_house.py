"""A whole installation as one process, to be started in a pid namespace of its own; does what standard input says.

`namespaced_house.py DIRECTORY KIND`: with `listener` it opens one at DIRECTORY/box/agent.sock under the name
build-box. Tells one JSON object when it is ready, and one for each order: `cards`, `approve ID`, `sessions`, `events
NAME`, `status`, `kill-daemon`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from broker.contract.kdf import KdfParams
from tests.live.house import PASSPHRASE, House
from tests.live.plain_upstream import serving

NAME = "build-box"
HUMAN_KDF = KdfParams(memory_kib=64 * 1024, iterations=3, lanes=1, salt=b"salt-of-a-human!")  # what the verbs insist on


def listen(house: House, path: Path, *more: str) -> "subprocess.Popen[bytes]":
    """`doorward listen`, the way a human types it."""
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode() + b"\n")
    os.close(writing)
    words = ["listen", "--for", NAME, str(path), "--passphrase-fd", str(reading), *more]
    started = subprocess.Popen(
        [sys.executable, "-I", "-m", "broker.cli", *words],
        env=house.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(reading,),
    )
    os.close(reading)
    return started


def listener_of(house: House, path: Path) -> "subprocess.Popen[bytes]":
    """One that is ready."""
    started = listen(house, path)
    assert started.stdout is not None
    said = started.stdout.readline()
    assert said == f"listening for {NAME} at {path}\n".encode(), (said, started.communicate())
    return started


def done(house: House, order: list[str]) -> Any:
    match order:
        case ["cards"]:
            return house.human.cards()
        case ["approve", card, scope]:
            return house.human.approve(card, scope=scope).raw
        case ["sessions"]:
            return house.human.client.sessions()
        case ["events", name]:
            return house.human.events(name)
        case ["kill-daemon"]:
            house.kill()
            return "killed"
        case _:
            raise ValueError(order)


def main(directory: Path, kind: str) -> None:
    listener = None
    with serving() as upstream, House(directory / "h", kdf=HUMAN_KDF) as house:
        house.init().open(origin=upstream.origin)
        if kind == "listener":
            (directory / "box").mkdir()
            listener = listener_of(house, directory / "box" / "agent.sock")
        print(json.dumps({"pid": None if listener is None else listener.pid}), flush=True)
        for line in sys.stdin:
            print(json.dumps(done(house, line.split())), flush=True)
        if listener is not None:
            listener.terminate()
            listener.wait(15)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
