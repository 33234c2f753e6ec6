"""`doorward listen --for NAME PATH`: a socket for one container, whose requests are all one session of that name.

For containers whose processes the daemon can't tell apart, and for naming one. The approver signs the name; then this
process becomes the relay, which holds no key and hands every connection on to agent.sock and nowhere else.
"""

import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

from broker.cli.arguments import human_parser
from broker.cli.environment import for_agent
from broker.cli.faults import CliError, UsageError
from broker.cli.reach import desk, places
from broker.client.hardening import harden
from broker.client.listeners import ListenerControl
from broker.client.unix_sockets import ListenError, listen_at
from broker.contract.listener_names import is_name
from broker.contract.neutralise import visible, visible_json
from broker.contract.wire import dump_names

BACKLOG = 256
PATH_MAX_BYTES = 107
_ABOUT = """Open a socket for one container and hand on what comes there, until interrupted.

All that reaches PATH is one session under NAME, which rules may speak of (agents = ["NAME"]) and cards show as
"container". Mount PATH's directory into the container, not the socket itself: it is made anew at each start. Run one
listener for each container. A lock or freeze ends its grants; after a restart of the daemon start it again."""


def run(noun: str, arguments: list[str]) -> int:
    harden()
    parser = human_parser(f"doorward {noun}", _ABOUT)
    parser.add_argument("--for", dest="name", required=True, metavar="NAME", help="what cards and rules call it")
    parser.add_argument(
        "--mode", default="600", metavar="OCTAL", help="who may connect: 600, 660 or 666 for another user in there"
    )
    parser.add_argument("path", metavar="PATH", help="where the socket is made")
    options = parser.parse_args(arguments)
    if not is_name(options.name):
        raise UsageError("NAME: small letters, digits, - and _ were expected, at most 64, and no word of ours")
    if options.mode not in {"600", "660", "666"}:
        raise UsageError("--mode: 600, 660 or 666 was expected")
    path = os.path.abspath(options.path)  # noqa: PTH100 - links in it are the user's own matter
    with desk(options, transient=False) as reached, ListenerControl(places()) as control:
        listener = listening(path, int(options.mode, 8))
        try:
            answer = control.open_listener(options.name, reached.key)
        except BaseException:
            listener.close()
            Path(path).unlink(missing_ok=True)
            raise
    told = visible_json(dump_names({**answer, "path": path}).decode())
    _become_relay(
        listener, path, options.name, told if options.json else f"listening for {options.name} at {visible(path)}"
    )


def listening(path: str, mode: int) -> socket.socket:
    """A listening socket at the path; a stale one is replaced, a live one never. Raises CliError."""
    if len(os.fsencode(path)) > PATH_MAX_BYTES:
        raise UsageError(f"PATH: a socket's path has at most {PATH_MAX_BYTES} bytes; choose a shorter one")
    try:
        return listen_at(path, mode=mode, backlog=BACKLOG)
    except ListenError as cause:
        raise CliError(str(cause)) from cause


def _become_relay(listener: socket.socket, path: str, name: str, ready: str) -> NoReturn:
    """The same process to the kernel, and another program: nothing that was unlocked here is in its memory."""
    os.set_inheritable(listener.fileno(), True)  # noqa: FBT003 - positional-only
    about = [str(listener.fileno()), path, places().agent_socket, name, ready]
    words = [sys.executable, "-I", "-m", "broker.cli.relay", *about]
    os.execve(sys.executable, words, for_agent(os.environ, named=[], everything=False))  # noqa: S606 - our own program
