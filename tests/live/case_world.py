"""The cases of tests/cases as one policy, one plan of a fault server and one scripted agent, over a real daemon.

Every case has a service of its own below the same origin. What it observed is kept as values, so that what it is held
to (case_claims.py) can itself be held against lies.
"""

import base64
import re
import tomllib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any

from tests.live.fault_server import FaultServer, Logged, Scripted
from tests.live.house import Agent, House, until

CASES_DIR = Path(__file__).resolve().parents[1] / "cases"
GROUPS = ("auth", "completeness", "malformed", "rate_limit", "uncertain", "further")
TOKEN = "canary-token-of-every-case"
PADDING = "n" * 240_000  # more than goes on its way unread
DEADLINE = {"first_byte_s": 15, "total_s": 20}
FAULTS = {  # of a case, and how the server brings it about
    "connection_lost": "close",
    "first_byte_timeout": "silence",
    "total_timeout": "silence",
    "write_timeout": "never_read",
    "truncated": "short",
}
UNREACHED = {"dns_failed", "connect_refused", "tls_untrusted"}
BRIEF: dict[str, dict[str, float]] = {
    "first_byte_timeout": {"first_byte_s": 0.3},
    "total_timeout": {"total_s": 2},
    "write_timeout": {"write_s": 0.3},
}
NOBODYS_PORT = 9  # discard; nothing listens there
POLICY = """
version = 1

[limits]
prompts_per_minute = 60

[[rules]]
id = "cases"
services = ["c-*"]
approval = "none"

[[rules]]
id = "again"
services = ["d-*"]
approval = "session"
in_doubt = "ask"
expires_s = 60

"""
SERVICE = """
[services.{name}]
kind = "http"
base_url = "{base}"
credential = "cases"

[services.{name}.operations.l]
effect = "read"
request = {{ method = "GET", path = "/read-back" }}

[services.{name}.operations."{operation}"]
{declares}
"""
_EPOCH = re.compile(r"\b1[0-9]{9}\b")
_DATE = re.compile(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """A case, and how it comes about over sockets."""

    name: str
    group: str
    case: dict[str, Any]

    @property
    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = self.case["answer"]
        return found

    @property
    def fault(self) -> str:
        return str(self.answer.get("fault", ""))

    @property
    def service(self) -> str:
        return f"{'d' if self.is_repeat else 'c'}-{self.name}"

    @property
    def is_repeat(self) -> bool:
        """Whether an earlier attempt of ours, whose answer was lost, comes first."""
        return "earlier" in self.case

    @property
    def is_collected(self) -> bool:
        return "before" in self.case

    @property
    def is_padded(self) -> bool:
        return self.fault == "write_timeout" or "early" in self.answer

    @property
    def is_write(self) -> bool:
        return 'effect = "read"' not in self.case["declares"]

    @property
    def args(self) -> dict[str, Any]:
        args: dict[str, Any] = self.case.get("args", {})
        return {**args, "note": PADDING} if self.is_padded else args


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an agent did, what it was told, and what came of it at the far side and in the log."""

    did: str  # ask | repeat | reconcile | go_on
    envelope: dict[str, Any]
    far: tuple[Logged, ...]
    trail: tuple[dict[str, Any], ...]


def every_case() -> list[Real]:
    found = []
    for group in GROUPS:
        cases = tomllib.loads((CASES_DIR / f"{group}.toml").read_text(encoding="utf-8"))
        found += [Real(name=name, group=group, case=case) for name, case in cases.items()]
    return found


class World:
    """One house, its agent, and three far sides: one that listens, one that takes little, and one nobody trusts."""

    def __init__(self, house: House, servers: dict[str, FaultServer], agent: Agent) -> None:
        self.house = house
        self.servers = servers
        self.agent = agent
        self._seq = 0
        self._group = ""

    def furnish(self) -> None:
        """The credential, bound to every place that a case goes to."""
        bound = [f"http://127.0.0.1:{NOBODYS_PORT}", "https://no-such-host.invalid"]
        self.house.human.add_bearer("cases", TOKEN, *(one.origin for one in self.servers.values()), *bound)

    def enter(self, group: str, cases: list[Real]) -> None:
        """The policy with the services of a group; a policy takes no more than that."""
        if group != self._group:
            text = POLICY + "".join(self._service(one) for one in cases if one.group == group)
            self.house.human.write_policy("cases.toml", text)
            self.house.human.trust()
            self._new_events()
            self._group = group

    def server_of(self, one: Real) -> FaultServer:
        if one.fault == "tls_untrusted":
            return self.servers["stranger"]
        return self.servers["narrow" if one.is_padded else "far"]

    def run(self, one: Real) -> list[Step]:
        """The case, and what an agent may and may not do next."""
        self.server_of(one).plan(one.service, self._answers(one))
        before = [self._ask(one, "earlier")] if one.is_repeat else []
        first = self._ask(one, "ask")
        steps = [*before, first]
        action = first.envelope["next"]["action"]
        if is_in_doubt(first.envelope) and not one.is_repeat:
            steps.append(self._ask(one, "repeat"))  # what must not reach the far side
        elif action == "retry" and not one.is_repeat:
            steps.append(self._ask(one, "repeat"))
        if action == "reconcile":
            steps.append(self._reconcile(one, first.envelope["correlation_id"]))
        if action == "continue" and one.is_collected and first.envelope["completeness"]["next_cursor"] is not None:
            steps.append(self._ask(one, "go_on", cursor=first.envelope["completeness"]["next_cursor"]))
        return steps

    def _ask(self, one: Real, did: str, **more: Any) -> Step:
        request: dict[str, Any] = {"service": one.service, "operation": one.name, "args": one.args, **more}
        if not one.is_collected:
            fault = "first_byte_timeout" if did == "earlier" else one.fault
            request["deadline"] = {**DEADLINE, **BRIEF.get(fault, {})}
        path = "/v1/collect" if one.is_collected else "/v1/http"
        return self._step(one, did, lambda: self._answered(one, did, path, request))

    def _answered(self, one: Real, did: str, path: str, request: dict[str, Any]) -> dict[str, Any]:
        asking = self.agent.begin("POST", path, request)
        if one.is_repeat:
            self._approve(asking, scope="session" if did == "earlier" else "once")
        value: dict[str, Any] = self.agent.end(asking)["value"]
        return value

    def _approve(self, asking: int, *, scope: str) -> None:
        """Say yes where somebody is asked: for the session at first, and once where something is in doubt."""
        until(lambda: self.agent.answered(asking) or self.house.human.cards())
        for card in self.house.human.cards():
            self.house.human.approve(card["id"], scope=scope)

    def _reconcile(self, one: Real, about: str) -> Step:
        def ask() -> dict[str, Any]:
            value: dict[str, Any] = self.agent.ask("POST", "/v1/reconcile", {"correlation_id": about})["value"]
            return value

        return self._step(one, "reconcile", ask)

    def _step(self, one: Real, did: str, do: Any) -> Step:
        server = self.server_of(one)
        before = len(server.log())
        envelope = do()
        far = tuple(logged for logged in server.log()[before:] if logged.case == one.service)
        events = self._new_events()
        trail = tuple(event for event in events if event["correlation_id"] == envelope["correlation_id"])
        return Step(did=did, envelope=envelope, far=far, trail=trail)

    def _new_events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while page := self.house.human.client.audit_events(limit=1000, after_seq=self._seq)["events"]:
            assert isinstance(page, list)
            found += [dict(event) for event in page]
            self._seq = found[-1]["seq"]
        return found

    def _base(self, one: Real) -> str:
        if one.fault == "dns_failed":
            return f"https://no-such-host.invalid/{one.service}"
        if one.fault == "connect_refused":
            return f"http://127.0.0.1:{NOBODYS_PORT}/{one.service}"
        return f"{self.server_of(one).origin}/{one.service}"

    def _service(self, one: Real) -> str:
        declares = one.case["declares"]
        if "forgotten" in one.case:
            declares = re.sub(r"window_s = [0-9]+", "window_s = 1", declares)
        return SERVICE.format(name=one.service, operation=one.name, base=self._base(one), declares=declares)

    def _answers(self, one: Real) -> tuple[Scripted, ...]:
        usual = {"status": 200, "headers": {"content-type": "application/json"}}
        told = [usual | page for page in one.case.get("before", ())]
        told += [one.answer, *one.case.get("then", ())]
        answers = [self._scripted(one, answer) for answer in told]
        if one.is_repeat:
            lost = Scripted(fault="silence", commits=True)
            first = one.case.get("first")
            answers.insert(0, lost if first is None else replace(self._scripted(one, first), commits=True))
        return tuple(answers)

    def _scripted(self, one: Real, answer: dict[str, Any]) -> Scripted:
        body = base64.b64decode(answer["body_b64"]) if "body_b64" in answer else answer.get("body", "").encode()
        chunked = "transfer-encoding" in answer.get("headers", {})
        fault = "chunk_cut" if chunked and one.fault else FAULTS.get(str(answer.get("fault", "")), "none")
        if one.fault == "total_timeout" and "status" in answer:
            fault = "stall"
        if "early" in answer:
            fault = "early"
        headers = [
            (name, self._placed(one, text))
            for name, value in answer.get("headers", {}).items()
            for text in (value if isinstance(value, list) else [value])
        ]
        return Scripted(
            status=answer.get("status", 200),
            headers=tuple(headers),
            body_b64=base64.b64encode(self._placed(one, body.decode("latin-1")).encode("latin-1")).decode(),
            fault=fault,
            commits=one.is_write and commits(one.case, answer),
        )

    def _placed(self, one: Real, text: str) -> str:
        """With the far side's own address, and at this hour: a case tells of its own."""
        host = one.case.get("host", "api.example")
        text = text.replace(f"https://{host}", self._base(one))
        if "clock" not in one.case:
            return text
        then = datetime.fromisoformat(one.case["clock"])
        later = datetime.now(tz=UTC) - then
        day_s = timedelta(days=1).total_seconds()

        def number(found: re.Match[str]) -> str:
            is_near = abs(int(found[0]) - then.timestamp()) < day_s
            return str(round(int(found[0]) + later.total_seconds())) if is_near else found[0]

        def date(found: re.Match[str]) -> str:
            told = parsedate_to_datetime(found[0])
            return format_datetime(told + later, usegmt=True) if abs(told - then) < timedelta(days=1) else found[0]

        return _DATE.sub(date, _EPOCH.sub(number, text))


def commits(case: dict[str, Any], answer: dict[str, Any]) -> bool:
    """What such a service has done when it answers so: declared in the case, else by the kind of the answer alone."""
    if "commits" in case:
        return bool(case["commits"])
    status = answer.get("status")
    return status is None or 200 <= status < 300 or status >= 500


def is_in_doubt(envelope: dict[str, Any]) -> bool:
    """By the contract: a change whose effect is unknown, or whose proof can't be relied on, blocks its repeat."""
    if envelope["effect"] == "read" or envelope["category"] == "partial":
        return False
    broken = envelope["category"] == "malformed_response" and envelope["retry"] == "reconcile_first"
    return bool(envelope["remote_effect"] == "unknown" or broken)
