from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.identity import (
    NEVER_ANCHORS,
    UNIDENTIFIED,
    Anchor,
    Caller,
    PeerFacts,
    ProcessFacts,
    Span,
    identify,
    is_interpreter,
    may_anchor,
    named_by,
    naming,
)
from broker.core.policy.model import AgentProgram

Key = tuple[int, int, int]


def process(pid: int, exe: str | None, *argv: str, sha256: str | None = None) -> ProcessFacts:
    return ProcessFacts(
        pid=pid, start_ticks=pid, inode=pid, uid=1000, exe=exe, exe_id=(8, pid), argv=argv, exe_sha256=sha256
    )


CLIENT = process(40, "/usr/bin/doorward", "doorward", "http")
SHELL = process(30, "/usr/bin/bash", "bash")
AGENT = process(20, "/opt/claude/node", "node", "/opt/claude/cli.js")
TMUX = process(10, "/usr/bin/tmux", "tmux")
INIT = process(1, "/usr/lib/systemd/systemd", "init")
PEER = PeerFacts(process=CLIENT, ancestors=(SHELL, AGENT, TMUX, INIT), boot_id="boot-1")
AGENTS = {"claude-code": AgentProgram(name="claude-code", exe="/opt/claude/*", argv="*cli.js")}


def caller(
    peer: PeerFacts = PEER,
    *,
    agents: dict[str, AgentProgram] | None = None,
    holders: dict[Key, Span] | None = None,
    claimed: tuple[int, ...] = (),
) -> Caller:
    return identify(peer, agents=AGENTS if agents is None else agents, holders=holders or {}, claimed=claimed)


def test_a_helper_of_a_named_agent_belongs_to_the_agent() -> None:
    found = caller()

    assert (AGENT, Span.TREE, "claude-code") == (found.anchor_process, found.span, found.agent)
    assert found.program is AGENT
    assert found.interpreter  # node runs what its argument says


def test_a_client_that_nothing_anchors_is_its_connection_alone() -> None:
    found = caller(agents={})

    assert (CLIENT, Span.CONNECTION, UNIDENTIFIED) == (found.anchor_process, found.span, found.agent)


def test_a_process_that_holds_a_session_keeps_it() -> None:
    found = caller(agents={}, holders={CLIENT.key: Span.PROCESS})

    assert (CLIENT, Span.PROCESS) == (found.anchor_process, found.span)


def test_the_nearest_tree_wins_over_a_named_ancestor() -> None:
    found = caller(holders={SHELL.key: Span.TREE, AGENT.key: Span.TREE})

    assert SHELL == found.anchor_process  # declared by hand, and nearer


def test_a_tree_above_a_named_agent_is_the_session_and_the_agent_keeps_its_name() -> None:
    found = caller(holders={TMUX.key: Span.TREE})

    assert (TMUX, Span.TREE, "claude-code", AGENT) == (
        found.anchor_process, found.span, found.agent, found.program,
    )  # fmt: skip


@pytest.mark.parametrize("span", [Span.PROCESS, Span.CONNECTION])
def test_a_parents_own_session_is_not_its_childs(span: Span) -> None:
    found = caller(agents={}, holders={AGENT.key: span})

    assert CLIENT == found.anchor_process


def test_a_reused_pid_is_another_process() -> None:
    found = caller(agents={}, holders={(20, 999, 20): Span.TREE, (20, 20, 999): Span.TREE})

    assert CLIENT == found.anchor_process


def test_an_ancestor_is_taken_at_the_clients_word_only_within_its_chain() -> None:
    assert AGENT == caller(agents={}, claimed=(AGENT.pid,)).anchor_process
    assert CLIENT == caller(agents={}, claimed=(4242,)).anchor_process


@pytest.mark.parametrize("never", [SHELL, TMUX, INIT])
def test_a_shell_a_multiplexer_or_init_never_anchors(never: ProcessFacts) -> None:
    named = {"sneaky": AgentProgram(name="sneaky", exe=never.exe or "")}

    assert CLIENT == caller(agents=named, claimed=(never.pid,)).anchor_process


@pytest.mark.parametrize("name", sorted(NEVER_ANCHORS))
def test_no_launcher_by_any_name_anchors(name: str) -> None:
    assert not may_anchor(process(50, f"/usr/bin/{name}"))
    assert not may_anchor(process(50, f"/usr/bin/{name} (deleted)"))
    assert not may_anchor(process(50, None, f"-{name}"))


@pytest.mark.parametrize(
    "exe", ["/bin/bash5", "/usr/bin/zsh-5.9", "/usr/bin/ksh93", "/usr/bin/containerd-shim-runc-v2"]
)
def test_a_version_in_its_name_makes_no_agent_of_a_shell(exe: str) -> None:
    assert not may_anchor(process(50, exe))


def test_a_path_in_a_mount_namespace_of_its_own_proves_no_name() -> None:
    anywhere = {"codex": AgentProgram(name="codex", exe="*/codex")}
    placed = {"codex": AgentProgram(name="codex", exe="/opt/codex")}
    pinned = {"codex": AgentProgram(name="codex", exe="/opt/codex", sha256="ab" * 32)}
    mounted = replace(process(5, "/opt/codex", sha256="ab" * 32), exe_here=False)

    assert [None, "codex", "codex"] == [named_by(agents, mounted) for agents in (placed, pinned, anywhere)]
    assert "codex" == named_by(placed, replace(mounted, exe_here=True))


def test_what_comes_by_a_listener_is_its_containers_whoever_asked_there() -> None:
    found = identify(
        PEER, agents=AGENTS, holders={AGENT.key: Span.TREE}, claimed=(AGENT.pid,), listeners={CLIENT.key: "build-box"}
    )
    other = identify(PEER, agents={}, holders={}, listeners={AGENT.key: "build-box"})

    assert ("build-box", Span.CONTAINER, CLIENT) == (found.agent, found.span, found.anchor_process)
    assert ("build-box", ("container", "build-box")) == (found.container, found.budget)
    assert (UNIDENTIFIED, Span.CONNECTION) == (other.agent, other.span), "a listener's own children are nobody's"


@pytest.mark.parametrize(
    ("foreign", "short", "told"), [(False, "3fe2", None), (True, "3fe2", "3fe2"), (True, None, "unnamed")]
)
def test_a_caller_of_another_pid_namespace_is_in_a_container(
    short: str | None, told: str | None, *, foreign: bool
) -> None:
    assert told == caller(replace(PEER, foreign_namespace=foreign, container=short)).container


def test_the_programs_processes_share_one_budget() -> None:
    again = replace(PEER, ancestors=(SHELL, replace(AGENT, pid=21, start_ticks=21), TMUX, INIT))
    unread = replace(PEER, process=replace(CLIENT, exe_id=None), ancestors=())

    assert (1000, AGENT.exe_id) == caller().budget == caller(again).budget
    assert (1000, "/usr/bin/doorward") == caller(unread).budget


NODE = process(20, "/usr/bin/node", "node", "--flag", "/opt/new/cli.js")
OURS = process(40, "/usr/bin/python3", "python3", "-I", "-m", "broker.cli", "http")
MCP = process(41, "/usr/bin/python3", "python3", "-I", "-m", "broker.mcp")
LAUNCHER = process(8, "/usr/bin/python3", "python3", "-I", "-m", "broker.cli", "run")
BY_SCRIPT = {"exe": "/usr/bin/node", "argv": "/opt/new/cli.js"}


@pytest.mark.parametrize(
    ("chain", "offered"),
    [
        ((OURS, SHELL, NODE, TMUX), BY_SCRIPT),
        ((MCP, NODE, SHELL, TMUX), BY_SCRIPT),
        ((OURS, SHELL, NODE, LAUNCHER), BY_SCRIPT),
        ((process(9, "/opt/tool (deleted)"), SHELL), {"exe": "/opt/tool", "argv": None}),
        ((process(9, "/usr/bin/python3", "python3", "-i"), AGENT), None),
        ((OURS, SHELL, LAUNCHER, AGENT), None),
        ((process(9, None, "x"), SHELL, INIT), None),
    ],
    ids=[
        "by the client",
        "by MCP",
        "in a tree",
        "no interpreter",
        "no script",
        "nobody but us in the tree",
        "unreadable",
    ],
)
def test_whoever_has_no_name_can_be_given_one(
    chain: tuple[ProcessFacts, ...], offered: dict[str, str | None] | None
) -> None:
    peer = replace(PEER, process=chain[0], ancestors=chain[1:])

    assert offered == naming(caller(peer, agents={}, holders={LAUNCHER.key: Span.TREE}))


def test_whoever_has_a_name_needs_none() -> None:
    assert naming(caller()) is None


def test_the_first_process_of_a_container_never_anchors() -> None:
    assert not may_anchor(process(1, "/opt/agent"))
    assert may_anchor(process(2, "/opt/agent"))


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (process(5, "/opt/claude/node", "x", "/a/cli.js"), "claude-code"),
        (process(5, "/opt/claude/node", "x", "/a/other.js"), None),
        (process(5, "/opt/elsewhere/node", "x", "/a/cli.js"), None),
        (process(5, None, "/opt/claude/node", "/a/cli.js"), None),
    ],
    ids=["fits", "other argument", "other place", "unreadable"],
)
def test_a_name_needs_the_executable_and_the_argument(facts: ProcessFacts, name: str | None) -> None:
    assert name == named_by(AGENTS, facts)


def test_a_name_with_a_digest_needs_the_bytes_too() -> None:
    pinned = {"codex": AgentProgram(name="codex", exe="/opt/codex", sha256="ab" * 32)}

    assert named_by(pinned, process(5, "/opt/codex", sha256="ab" * 32)) == "codex"
    assert named_by(pinned, process(5, "/opt/codex", sha256="cd" * 32)) is None
    assert named_by(pinned, process(5, "/opt/codex")) is None


def test_of_two_names_that_fit_the_first_in_the_alphabet_is_taken() -> None:
    both = {name: AgentProgram(name=name, exe="/opt/*") for name in ("zed", "aider")}

    assert named_by(both, process(5, "/opt/tool")) == "aider"


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (process(5, "/opt/tools/agent", "other"), "agent"),
        (process(5, "/opt/tools/agent (deleted)"), "agent"),
        (process(5, None, "-zsh"), "zsh"),
        (process(5, None, "/opt/x/agent", "y"), "agent"),
        (process(5, None), "unknown"),
        (process(5, "/"), "unknown"),
    ],
)
def test_a_process_is_called_by_its_file(facts: ProcessFacts, name: str) -> None:
    assert name == facts.name


@pytest.mark.parametrize(
    ("exe", "runs_what_it_is_told"),
    [("/usr/bin/python3.12", True), ("/usr/bin/node", True), ("/bin/sh", True), ("/opt/agent", False)],
)
def test_an_interpreter_is_told_to_be_one(exe: str, *, runs_what_it_is_told: bool) -> None:
    assert runs_what_it_is_told is is_interpreter(process(5, exe))


def test_an_anchor_outlives_sessions_and_is_told_from_every_other() -> None:
    anchor = Anchor(boot_id="boot-1", pid=20, start_ticks=5, inode=9)
    others = [
        replace(anchor, boot_id="boot-2"),
        replace(anchor, pid=21),
        replace(anchor, start_ticks=6),
        replace(anchor, inode=10),
    ]

    assert anchor.id == replace(anchor).id
    assert anchor.id.startswith("an_")
    assert 5 == len({anchor.id, *(other.id for other in others)})


def test_the_anchor_of_a_caller_is_the_process_that_anchors_it() -> None:
    assert Anchor(boot_id="boot-1", pid=20, start_ticks=20, inode=20) == caller().anchor


def test_what_a_client_says_of_itself_is_no_input() -> None:
    lying = replace(PEER, process=process(40, "/usr/bin/doorward", "/opt/claude/cli.js"))

    assert caller(lying).program is AGENT
    assert caller(replace(lying, ancestors=())).agent == UNIDENTIFIED


@given(
    st.lists(st.sampled_from([SHELL, AGENT, TMUX, INIT]), max_size=6),
    st.dictionaries(
        st.sampled_from([CLIENT.key, SHELL.key, AGENT.key, TMUX.key]), st.sampled_from(list(Span)), max_size=4
    ),
    st.lists(st.integers(1, 50), max_size=3),
)
def test_an_anchor_is_always_in_the_chain_and_was_never_made_up(
    ancestors: list[ProcessFacts], holders: dict[Key, Span], claimed: list[int]
) -> None:
    peer = replace(PEER, ancestors=tuple(ancestors))
    found = caller(peer, holders=holders, claimed=tuple(claimed))

    assert found.anchor_process in peer.chain
    if found.anchor_process is not CLIENT:
        assert found.span is Span.TREE
        assert may_anchor(found.anchor_process) or holders[found.anchor_process.key] is Span.TREE
