"""The cases: what is asked, what breaks, and what has to hold. Frozen values, read from YAML by case_files.py.

A case knows nothing of ports, processes or tokens: those belong to the run of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from broker.contract.wire import JsonObject, JsonValue
from broker.matrix import points

Effect = Literal["read", "write", "exec"]
AD_HOC = "matrix"  # the service of requests that name none; it lets everything through
READS = frozenset({"GET", "HEAD", "OPTIONS"})
APPROVERS = ("approve", "approve_session", "deny", "silent", "absent")
POLICIES = ("none", "session", "per_call", "deny")
DECISIONS = (
    "proceed",
    "continue_search",
    "retry",
    "wait",
    "reconcile",
    "collect_evidence",
    "ask_human",
    "fix_request",
    "stop",
)
REVIEW = "refuse_or_request_review"  # of a case: any of those that change nothing more
MEANS_REVIEW = frozenset({"stop", "ask_human", "collect_evidence", "fix_request"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request of an agent. `fields` go out as they are; `verb` says on which route."""

    verb: str = "http"  # http | collect | ssh
    effect: str | None = None  # what the envelope has to say of it; None leaves that to the policy
    fields: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the far side answers. For SSH the exit, signal and output of the command."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    commits: bool | None = None  # whether a request that gets this changes something; None: as the kind says
    honours_key: bool = True  # a change under a key that came before is not made again
    when: str | None = None  # of several answers, the one for a request whose target or body holds this
    exit_status: int = 0
    exit_signal: str | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0  # how long a command runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Where and how it breaks. `on` counts the answers from one; `step` and `side` are for faults in the daemon."""

    point: str
    kind: str
    seconds: float = 0.0
    on: int = 1
    step: str | None = None
    side: str = "before"

    @property
    def channel(self) -> str:
        return points.channel_of(self.point) or "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """What the completeness has to be; None leaves a member open."""

    complete: bool | None = None
    truncated: bool | None = None
    returned: int | None = None
    reasons: tuple[str, ...] | None = None
    by: tuple[str, ...] | None = None  # who cut, of each reason
    next_cursor: str | None = None
    is_null: bool = False  # there must be none


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """What the far side has to have written down; `unknown` is the reason why it can't be told."""

    received: int | None = None
    committed: int | None = None
    keys: int | None = None  # how many different idempotency keys came
    unknown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """How often a human is asked, by which gate, and for what a yes would count."""

    number: int = 0
    gates: tuple[str, ...] | None = None  # session | call, in order
    scopes: tuple[str, ...] | None = None  # once | session, of each yes, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """The four assertions of a case. What is None is not held against anything but the contract."""

    category: str
    retry: str
    code: str | None = None
    retry_after_s: int | None = None
    remote_effect: str | None = None
    status: int | None = None
    completeness: Complete | None = None
    warnings: tuple[str, ...] | None = None
    secret_in_result: bool = False
    remote: Remote = field(default_factory=Remote)
    events: tuple[str, ...] = ()
    prompts: Prompts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The script that acts, what it uses besides the case's own request, and where it may go from there."""

    script: str = "act"
    permitted: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[tuple[str, ...], ...] = ()
    uses: Mapping[str, Ask] = field(default_factory=dict)  # by role: read, annotate, list, delete, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """How the house stands towards the agent."""

    vault: str = "unlocked"
    approver: tuple[str, ...] = ("absent",)  # what the human does with each card; the last word goes on
    policy: str = "none"
    second_process: bool = False  # the same call from a new process after the first one has exited


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the matrix."""

    id: str
    group: str
    place: str  # file:line
    ask: Ask
    expect: Expect
    title: str = ""
    service: str | None = None
    operation: str | None = None  # within the service
    answers: tuple[Answer, ...] = (Answer(),)
    fault: Fault | None = None
    gate: Gate = field(default_factory=Gate)
    agent: Agent = field(default_factory=Agent)
    decision: str | None = None  # what the agent has to conclude from the first answer
    repeat: int = 1
    services: Mapping[str, JsonObject] = field(default_factory=dict)  # tables of a policy file, as written
    rules: tuple[JsonObject, ...] = ()  # instead of the one that the gate makes
    limits: JsonObject = field(default_factory=dict)

    @property
    def channel(self) -> str:
        """What breaks, else what is spoken: daemon, ssh or http."""
        if self.fault is not None and self.fault.channel != "http":
            return self.fault.channel
        return "ssh" if self.ask.verb == "ssh" else "http"

    @property
    def is_read(self) -> bool:
        """As the case says, else as its method does."""
        effect = self.ask.effect or self._declared("effect")
        if isinstance(effect, str):
            return effect == "read"
        return self.ask.verb == "collect" or self._method in READS

    @property
    def _method(self) -> JsonValue:
        request = self._declared("request")
        told = request.get("method") if isinstance(request, Mapping) else None
        return self.ask.fields.get("method") or told

    def _declared(self, key: str) -> JsonValue:
        operations = self.services.get(self.service or "", {}).get("operations")
        declared = operations.get(self.operation or "") if isinstance(operations, Mapping) else None
        return declared.get(key) if isinstance(declared, Mapping) else None


def load(paths: Iterable[Path]) -> list[Case]:
    """The cases of all files, in order. Raises CaseError with every fault of every file."""
    from broker.matrix.case_files import load_files  # noqa: PLC0415 - it builds on the values here

    return load_files(list(paths))


def chosen(cases: Iterable[Case], glob: str | None) -> list[Case]:
    """Those whose id or group the pattern fits; all without one."""
    return [one for one in cases if glob is None or fnmatchcase(one.id, glob) or fnmatchcase(one.group, glob)]
