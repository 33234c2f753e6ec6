"""An agent as a process of its own, for live tests: asks on a socket what it is told to on standard input.

One JSON object a line. `ask` is answered when the answer is there, so that many may be under way; `hang_up` closes
the connection of one that waits; `run` starts a child and answers with its output; `exec` becomes another program.
Also once: `agent_process.py SOCKET METHOD PATH [BODY]`, after a double fork with `--orphan` as the first argument.
"""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

LIMIT_S = 60.0


class Link(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=LIMIT_S)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(LIMIT_S)
        self.sock.connect(path)


def exchange(link: Link, order: dict[str, Any]) -> dict[str, Any]:
    raw, body = order.get("raw"), order.get("body")
    octets = base64.b64decode(raw) if raw is not None else None if body is None else json.dumps(body).encode()
    link.request(order["method"], order["path"], octets, order.get("headers") or {})
    answer = link.getresponse()
    told = answer.read()
    try:
        value = json.loads(told)
    except ValueError:
        value = None
    octets_b64 = {"b64": base64.b64encode(told).decode()} if order.get("binary") else {}
    return {"status": answer.status, "value": value, "text": told.decode("utf-8", "replace"), **octets_b64}


class Agent:
    """Follows orders until its input ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._links: dict[int, Link] = {}
        self._told = threading.Lock()

    def tell(self, number: int, value: dict[str, Any]) -> None:
        with self._told:
            print(json.dumps({"id": number, **value}), flush=True)

    def follow(self, order: dict[str, Any]) -> None:
        number = order["id"]
        match order["do"]:
            case "ask":
                threading.Thread(target=self._ask, args=(number, order), daemon=True).start()
            case "hang_up":
                link = self._links.pop(order["of"])
                if link.sock is not None:
                    link.sock.shutdown(socket.SHUT_RDWR)
                link.close()
                self.tell(number, {})
            case "run":
                done = subprocess.run(order["argv"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
                self.tell(number, {"code": done.returncode, "out": done.stdout, "err": done.stderr})
            case "exec":
                os.execv(order["argv"][0], order["argv"])  # noqa: S606 - becoming another program is the point
            case other:
                raise ValueError(other)

    def _ask(self, number: int, order: dict[str, Any]) -> None:
        keep = order.get("keep")
        try:
            link = self._links.get(keep) if keep is not None else None
            if link is None:
                link = Link(order.get("socket") or self._path)
            self._links[number if keep is None else keep] = link
            self.tell(number, exchange(link, order))
            if keep is None:
                self._links.pop(number, None)
                link.close()
        except (OSError, http.client.HTTPException) as fault:
            self.tell(number, {"fault": type(fault).__name__})


def once(arguments: list[str]) -> None:
    path, method, target, *more = arguments
    print(
        json.dumps(
            exchange(Link(path), {"method": method, "path": target, "body": json.loads(more[0]) if more else None})
        )
    )


def orphan(arguments: list[str]) -> None:
    """Leave the tree: the child of a child whose parent is gone."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        between = os.getpid()
        if os.fork() == 0:
            while os.getppid() == between:
                time.sleep(0.001)
            os.dup2(writing, 1)
            once(arguments)
            sys.stdout.flush()
        os._exit(0)
    os.wait()
    os.close(writing)
    with os.fdopen(reading) as told:
        print(told.read(), end="")


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[0] == "--orphan":
        orphan(arguments[1:])
    elif len(arguments) > 1:
        once(arguments)
    else:
        agent = Agent(arguments[0])
        print(json.dumps({"id": 0, "pid": os.getpid()}), flush=True)
        for line in sys.stdin:
            agent.follow(json.loads(line))


if __name__ == "__main__":
    main()
