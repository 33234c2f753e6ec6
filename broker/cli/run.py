"""`doorward run AGENT...`: start an agent whose whole process tree is one session, and stay with it to its end.

This process anchors the session: it opens it before the agent starts, adopts what the agent leaves behind, hands
signals on, and ends with the agent's own exit code. When it dies the session dies, and the agent is told to stop.
"""

import os
import signal
import sys
from argparse import REMAINDER

from broker.cli.arguments import Parser
from broker.cli.envelope_text import show
from broker.cli.environment import for_agent
from broker.cli.faults import UsageError
from broker.cli.own_cgroup import OwnCgroup
from broker.client import endings
from broker.client.agent import AgentClient
from broker.client.faults import Broken, NotRunning
from broker.client.places import Places
from broker.client.prctl import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from typing import Never


LONGEST_LABEL = 80
NOT_FOUND = 127
NOT_STARTED = 126
_FROM_TERMINAL = 0x80  # SI_KERNEL: the terminal's driver sent it to the whole group, the agent has it already
_HANDED_ON = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_ABOUT = """Start an agent; it and all that it starts are one session.

The agent sees only common variables (PATH, HOME, TERM, LANG, proxies and the like): secrets that your shell exports
stay outside. --env NAME passes one more, for the agent's own API key say; --env-all passes everything."""


def run(noun: str, arguments: list[str]) -> int:
    parser = Parser(f"doorward {noun}", _ABOUT)
    parser.add_argument("--label", metavar="TEXT", help="what the human sees as this session's label")
    parser.add_argument("--env", action="append", default=[], metavar="NAME", help="pass this variable too; repeatable")
    parser.add_argument("--env-all", action="store_true", help="pass the whole environment, secrets included")
    parser.add_argument("--json", action="store_true", help="print the envelope where the agent can't start")
    parser.add_argument("command", nargs=REMAINDER, metavar="[--] AGENT ...")
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise UsageError("name the agent to start: doorward run -- AGENT ...")
    missing = [name for name in options.env if name not in os.environ]
    if missing:
        raise UsageError(f"not in the environment: {', '.join(missing)}")
    if options.env_all:
        print("doorward: the agent sees your whole environment, secrets included", file=sys.stderr)
    environ = for_agent(os.environ, named=options.env, everything=options.env_all)
    label = options.label if options.label is not None else os.path.basename(command[0])  # noqa: PTH119 - no pathlib
    prctl(PR_SET_CHILD_SUBREAPER, 1)  # what the agent leaves behind becomes ours
    cgroup = OwnCgroup.enter()
    try:
        return _run(command, environ, label[:LONGEST_LABEL] or None, as_json=options.json)
    finally:
        if cgroup is not None:
            cgroup.leave()


def _run(command: list[str], environ: dict[str, str], label: str | None, *, as_json: bool) -> int:
    with AgentClient(Places(os.environ)) as client:
        try:
            answer = client.session(start=True, label=label, tree=True)
        except (NotRunning, Broken) as fault:
            return show(endings.not_running(str(fault)), as_json=as_json)
        if "category" in answer:
            return show(answer, as_json=as_json, spelled=client.spelled)
        return _attend(command, environ)


def _attend(command: list[str], environ: dict[str, str]) -> int:
    """Start the agent and wait for its end, handing signals on and reaping what it leaves."""
    watched = _HANDED_ON | {signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent may have had it ignored, and children vanish then
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    parent = os.getpid()
    agent = os.fork()
    if agent == 0:
        _become(command, environ, parent, before)
    while True:
        seen = signal.sigwaitinfo(watched)
        if seen.si_signo == signal.SIGCHLD:
            status = _reaped(agent)
            if status is not None:
                return _exit_code(status)
        elif seen.si_code != _FROM_TERMINAL:
            _hand_on(agent, seen.si_signo)


def _reaped(agent: int) -> int | None:
    """Bury whoever ended; the agent's wait status once it is among them."""
    status: int | None = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == agent:
            status = ended


def _hand_on(agent: int, number: int) -> None:
    try:
        os.kill(agent, number)
    except ProcessLookupError:
        return  # it just ended; its SIGCHLD is on the way


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: list[str], environ: dict[str, str], parent: int, mask: "set[int | signal.Signals]") -> "Never":
    """In the child: no descriptor but the three, no signal state of ours, then the agent. Never returns."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(NOT_STARTED)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)  # Python had changed these three
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.execvpe(command[0], command, environ)  # noqa: S606 - the user's own command, without a shell
    except FileNotFoundError:
        os.write(2, b"doorward: the agent's program was not found\n")
        os._exit(NOT_FOUND)
    except OSError as cause:
        os.write(2, f"doorward: the agent could not be started: {cause.strerror}\n".encode())
        os._exit(NOT_STARTED)
    finally:
        os._exit(NOT_STARTED)  # whatever else went wrong: two launchers must not go on
