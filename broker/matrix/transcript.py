"""What an agent did, was told and concluded: the values that agents write and checks read.

A decision is made of the typed fields of an envelope alone. Messages are for humans and are not read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.contract.wire import JsonObject, JsonValue

NO_ANSWER = "no_answer"
_BY_ACTION = {
    "retry": "retry",
    "wait": "wait",
    "reconcile": "reconcile",
    "continue": "continue_search",
    "collect": "collect_evidence",
    "ask_human": "ask_human",
    "fix_request": "fix_request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request and its answer. `outcome` is the category, or a word that the deed has for it."""

    deed: str
    outcome: str
    process: int
    verb: str
    request: JsonObject = field(default_factory=dict)
    envelope: JsonObject | None = None  # None: the daemon was gone
    decision: str = "stop"

    @property
    def correlation_id(self) -> str | None:
        told = None if self.envelope is None else self.envelope.get("correlation_id")
        return told if isinstance(told, str) else None

    def told(self, key: str) -> JsonValue:
        return None if self.envelope is None else self.envelope.get(key)

    def to_json(self) -> JsonObject:
        return {
            "deed": self.deed,
            "outcome": self.outcome,
            "process": self.process,
            "verb": self.verb,
            "request": dict(self.request),
            "envelope": None if self.envelope is None else dict(self.envelope),
            "decision": self.decision,
        }


def step_of(value: JsonObject) -> Step:
    request, envelope = value["request"], value["envelope"]
    number = value["process"]
    return Step(
        deed=str(value["deed"]),
        outcome=str(value["outcome"]),
        process=number if isinstance(number, int) else 0,
        verb=str(value["verb"]),
        request=request if isinstance(request, Mapping) else {},
        envelope=envelope if isinstance(envelope, Mapping) else None,
        decision=str(value["decision"]),
    )


def decide(envelope: JsonObject | None) -> str:
    """What follows from an answer, by `ok` and `next.action`; a word that is not known means to stop."""
    if envelope is None:
        return "reconcile"
    if envelope.get("ok") is True:
        return "proceed"
    following = envelope.get("next")
    action = following.get("action") if isinstance(following, Mapping) else None
    return _BY_ACTION.get(str(action), "stop")
