"""Who is calling: kernel facts about processes become a Caller with an anchor.

The anchor is the process that a session, its grants, request ids and results hang on. Shells, terminals,
multiplexers, init and user managers never anchor. What a client says about itself is a label and decides nothing.
Reads no /proc: server/peer.py does, and hands the facts in.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from broker.contract.wire import JsonObject, JsonValue, digest
from broker.core.policy.model import AgentProgram

UNIDENTIFIED = "unidentified"
UNNAMED = "unnamed"
OUR_CLIENTS = frozenset({"broker.cli", "broker.mcp"})  # as they stand in the command line of what `doorward` runs
NO_LISTENERS: Mapping[tuple[int, int, int], str] = MappingProxyType({})

NEVER_ANCHORS = frozenset(
    {
        "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "yash", "fish", "csh", "tcsh", "busybox",
        "toybox", "nu", "elvish", "pwsh",
        "tmux", "tmate", "screen", "zellij", "abduco", "dtach", "dvtm", "script", "ttyd", "login", "su", "runuser",
        "sudo", "doas", "pkexec", "sshd", "sshd-session", "dropbear", "mosh-server", "etterminal",
        "init", "systemd", "systemd-executor", "launchd", "runit", "runsvdir", "runsv", "s6-svscan", "s6-supervise",
        "openrc-init", "openrc-run", "dinit", "procd", "tini", "docker-init", "dumb-init", "catatonit",
        "containerd-shim", "containerd-shim-runc-v2", "conmon", "crun", "runc", "cron", "crond", "anacron", "atd",
        "gnome-terminal-server", "kgx", "konsole", "yakuake", "xterm", "urxvt", "urxvtd", "st", "alacritty", "kitty",
        "wezterm-gui", "wezterm-mux-server", "foot", "footclient", "ghostty", "terminator", "tilix", "xfce4-terminal",
        "mate-terminal", "lxterminal", "qterminal", "terminology", "ptyxis", "rio", "contour",
    }
)  # fmt: skip
INTERPRETERS = frozenset({"node", "bun", "deno", "ruby", "perl", "java", "php", "uv", "npx", "npm"})


class Span(StrEnum):
    """What a session spans: one process, it and what it starts, one connection, or all that reaches a listener."""

    PROCESS = "process"
    TREE = "tree"
    CONNECTION = "connection"
    CONTAINER = "container"


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
    exe_here: bool = True  # the path of `exe`, looked up by us, is the file that runs: others may mount what they like

    @property
    def run(self) -> tuple[int, ...] | None:
        """What it executes, and which execution of that it is; None where the executable can't be told."""
        return None if self.exe_id is None else (*self.exe_id, self.stack)

    @property
    def name(self) -> str:
        """The file name of the executable, else of argv[0], else `unknown`."""
        return _file_name(self.exe or (self.argv[0] if self.argv else ""))

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
    container: str | None = None  # the short id of the container that it lives in, where its cgroup tells one

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

    @property
    def container(self) -> str | None:
        """The container that it is known to live in: by its listener's name, else by its short id, else `unnamed`."""
        if self.span is Span.CONTAINER:
            return self.agent
        return (self.peer.container or UNNAMED) if self.peer.foreign_namespace else None

    @property
    def budget(self) -> Hashable:
        """Whose limits, mutes and counts it shares: all processes of one program of one user, or one container."""
        if self.span is Span.CONTAINER:
            return (Span.CONTAINER.value, self.agent)
        return (self.program.uid, self.program.exe_id or self.program.exe)


@lru_cache(maxsize=1024)  # asked for several times in each request
def _anchor_id(boot_id: str, pid: int, start_ticks: int, inode: int) -> str:
    facts: dict[str, JsonValue] = {"boot_id": boot_id, "pid": pid, "start": start_ticks, "inode": inode}
    return "an_" + digest("doorward/anchor/v1", facts).removeprefix("sha256:")[:32]


@lru_cache(maxsize=1024)  # likewise
def _file_name(source: str) -> str:
    return source.removesuffix(" (deleted)").rsplit("/", 1)[-1].lstrip("-") or "unknown"


def may_anchor(process: ProcessFacts) -> bool:
    return process.pid > 1 and not _starts_others(process)


def is_interpreter(process: ProcessFacts) -> bool:
    return process.name in INTERPRETERS or _starts_others(process) or process.name.startswith("python")


def _starts_others(process: ProcessFacts) -> bool:
    """A shell, terminal, multiplexer or manager, also as `bash5` or `zsh-5.9`."""
    name = process.name
    return name in NEVER_ANCHORS or name.rstrip("0123456789.-_") in NEVER_ANCHORS


def named_by(agents: Mapping[str, AgentProgram], process: ProcessFacts) -> str | None:
    """The first name in alphabetical order whose executable (and argv, digest where declared) fits the process."""
    for name in sorted(agents):
        program = agents[name]
        if process.exe is None or not fnmatchcase(process.exe, program.exe):
            continue
        if program.sha256 is None and not process.exe_here and not program.exe.startswith("*"):
            continue  # a path proves something only where we would find that file at it
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
    listeners: Mapping[tuple[int, int, int], str] = NO_LISTENERS,
) -> Caller:
    """Choose the anchor of a peer.

    The nearest process that holds a session, else the nearest named one, else one that the client claims within its
    own chain, else the connection alone. `holders` maps process keys to the span of the session that they hold: one
    that was claimed, or goes by its name, is none, for what it has is no business of the others that it started.
    `listeners` are processes that hand on what a container asks, with the name that an approver signed for each.
    """
    name = listeners.get(peer.process.key)
    if name is not None:
        return replace(_within(peer, 0, Span.CONTAINER, {}), agent=name)
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


def naming(caller: Caller) -> JsonObject | None:
    """What `[agents.NAME]` would have to say for an unidentified caller; None for one that has a name.

    Of the processes from the caller up to its anchor the nearest that could be an agent, and is not our own client.
    An interpreter's own path names nobody, so its script goes along; where none is seen there is nothing to offer.
    """
    if caller.agent != UNIDENTIFIED:
        return None
    for process in caller.peer.chain:
        if process.exe is not None and may_anchor(process) and OUR_CLIENTS.isdisjoint(process.argv):
            exe = process.exe.removesuffix(" (deleted)")
            if not is_interpreter(process):
                return {"exe": exe, "argv": None}
            script = next((word for word in process.argv[1:] if word and not word.startswith("-")), None)
            return None if script is None else {"exe": exe, "argv": script}
        if process is caller.anchor_process and caller.span is not Span.CONNECTION:
            return None
    return None


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
