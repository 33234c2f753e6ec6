"""Who is calling: kernel facts about processes become a Caller with an anchor.

The anchor is the process that a session, its grants, request ids and results hang on. Shells, terminals,
multiplexers, init and user managers never anchor. What a client says about itself is a label and decides nothing.
Reads no /proc: server/peer.py does, and hands the facts in.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from broker.contract.wire import JsonValue, digest
from broker.core.policy.model import AgentProgram

UNIDENTIFIED = "unidentified"

NEVER_ANCHORS = frozenset(
    {
        "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox", "nu", "pwsh",
        "tmux", "screen", "zellij", "abduco", "dtach", "script", "login", "su", "sudo", "doas", "sshd", "mosh-server",
        "init", "systemd", "launchd", "runit", "s6-svscan", "openrc-init", "tini", "dumb-init", "containerd-shim",
        "conmon", "cron", "crond", "atd", "gnome-terminal-server", "konsole", "xterm", "alacritty", "kitty",
        "wezterm-gui", "foot", "ghostty", "terminator", "xfce4-terminal", "ptyxis",
    }
)  # fmt: skip
INTERPRETERS = frozenset({"node", "bun", "deno", "ruby", "perl", "java", "php", "uv", "npx", "npm"})


class Span(StrEnum):
    """What a session spans: one process, a process and what it starts, or one connection alone."""

    PROCESS = "process"
    TREE = "tree"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """One process as the kernel tells of it. `exe` is None where it can't be read (never a reason to allow)."""

    pid: int
    start_ticks: int
    inode: int  # of the pidfd; 0 on kernels before 6.9
    uid: int
    exe: str | None
    exe_id: tuple[int, int] | None  # device and inode of the executable
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    exe_sha256: str | None = None
    stack: int = 0  # where its stack begins: elsewhere after each exec; 0 where the kernel does not tell

    @property
    def run(self) -> tuple[int, ...] | None:
        """What it executes, and which execution of that it is; None where the executable can't be told."""
        return None if self.exe_id is None else (*self.exe_id, self.stack)

    @property
    def name(self) -> str:
        """The file name of the executable, else of argv[0], else `unknown`."""
        source = self.exe or (self.argv[0] if self.argv else "")
        return source.removesuffix(" (deleted)").rsplit("/", 1)[-1].lstrip("-") or "unknown"

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.pid, self.start_ticks, self.inode)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFacts:
    """The process behind a connection and its ancestors, nearest first. Made by server/peer.py alone."""

    process: ProcessFacts
    ancestors: tuple[ProcessFacts, ...]
    boot_id: str
    foreign_namespace: bool = False

    @property
    def chain(self) -> tuple[ProcessFacts, ...]:
        return (self.process, *self.ancestors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The process that results and request ids belong to; outlives session, lock and restart of the daemon."""

    boot_id: str
    pid: int
    start_ticks: int
    inode: int

    @property
    def id(self) -> str:
        """Stable name of the anchor in ledger and audit log."""
        return _anchor_id(self.boot_id, self.pid, self.start_ticks, self.inode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, as far as the kernel proves it, and what a session of theirs spans."""

    anchor: Anchor
    anchor_process: ProcessFacts
    span: Span
    program: ProcessFacts  # what the human should think of as the agent: the named process, else the anchor
    agent: str  # a name from [agents], or UNIDENTIFIED
    peer: PeerFacts
    interpreter: bool


@lru_cache(maxsize=1024)  # asked for several times in each request
def _anchor_id(boot_id: str, pid: int, start_ticks: int, inode: int) -> str:
    facts: dict[str, JsonValue] = {"boot_id": boot_id, "pid": pid, "start": start_ticks, "inode": inode}
    return "an_" + digest("doorward/anchor/v1", facts).removeprefix("sha256:")[:32]


def may_anchor(process: ProcessFacts) -> bool:
    return process.pid > 1 and process.name not in NEVER_ANCHORS


def is_interpreter(process: ProcessFacts) -> bool:
    return process.name in INTERPRETERS or process.name in NEVER_ANCHORS or process.name.startswith("python")


def named_by(agents: Mapping[str, AgentProgram], process: ProcessFacts) -> str | None:
    """The first name in alphabetical order whose executable (and argv, digest where declared) fits the process."""
    for name in sorted(agents):
        program = agents[name]
        if process.exe is None or not fnmatchcase(process.exe, program.exe):
            continue
        if program.argv is not None and not any(fnmatchcase(word, program.argv) for word in process.argv):
            continue
        if program.sha256 is not None and program.sha256 != process.exe_sha256:
            continue
        return name
    return None


def identify(
    peer: PeerFacts,
    *,
    agents: Mapping[str, AgentProgram],
    holders: Mapping[tuple[int, int, int], Span],
    claimed: Collection[int] = (),
) -> Caller:
    """Choose the anchor of a peer.

    The nearest process that holds a session, else the nearest named one, else one that the client claims within its
    own chain, else the connection alone. `holders` maps process keys to the span of the session that they hold: one
    that was claimed, or goes by its name, is none, for what it has is no business of the others that it started.
    """
    for depth, process in enumerate(peer.chain):
        span = holders.get(process.key)
        if span is Span.TREE or (span is not None and depth == 0):
            return _within(peer, depth, span, agents)
    for depth, process in enumerate(peer.chain):
        if may_anchor(process) and named_by(agents, process) is not None:
            return _within(peer, depth, Span.TREE, agents)
    for depth, process in enumerate(peer.ancestors, start=1):
        if process.pid in claimed and may_anchor(process):
            return _within(peer, depth, Span.TREE, agents)
    return _within(peer, 0, Span.CONNECTION, agents)


def _within(peer: PeerFacts, depth: int, span: Span, agents: Mapping[str, AgentProgram]) -> Caller:
    """The caller of an anchor at `depth` of the chain; the nearest named process up to there is the program."""
    anchored = peer.chain[depth]
    program, agent = anchored, UNIDENTIFIED
    for process in peer.chain[: depth + 1]:
        name = named_by(agents, process)
        if name is not None:
            program, agent = process, name
            break
    anchor = Anchor(boot_id=peer.boot_id, pid=anchored.pid, start_ticks=anchored.start_ticks, inode=anchored.inode)
    return Caller(
        anchor=anchor,
        anchor_process=anchored,
        span=span,
        program=program,
        agent=agent,
        peer=peer,
        interpreter=is_interpreter(program),
    )
