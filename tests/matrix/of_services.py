"""The cases of real services as a file of the matrix: their tables in tests/cases say what is answered and expected.

Those tables are the source, for the core is held to them too. `python -m tests.matrix.of_services` writes the file
anew, and test_of_services.py holds the one to the other.
"""

import io
import re
import tomllib
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

TESTS = Path(__file__).resolve().parents[1]
FILE = TESTS / "matrix" / "cases" / "providers.yaml"
GROUPS = ("auth", "completeness", "malformed", "rate_limit", "uncertain", "further")
HEAD = """\
# What real services answer, and what has to follow from it. Made of the tables in tests/cases by of_services.py: change
# those, and make it anew.
"""
PADDING = "{pad 240000}"  # more than goes on its way unread
WIDTH = 118
NEAR = timedelta(days=1)
BRIEF = {"first_byte_timeout": {"first_byte_s": 1}, "total_timeout": {"first_byte_s": 15, "total_s": 2}}
UNSENT = {
    "dns_failed": {"point": "before_connect", "kind": "dns_failure"},
    "connect_refused": {"point": "before_connect", "kind": "refused"},
    "tls_untrusted": {"point": "during_tls", "kind": "bad_certificate"},
}
DECISIONS = {
    "bounded": "retry",
    "after_delay": "wait",
    "after_human": "ask_human",
    "reconcile_first": "reconcile",
    "never": "refuse_or_request_review",
}
READ_BACK = {
    "effect": "read",
    "request": {"method": "GET", "path": "/_committed"},
    "completeness": {
        "items": "json.items",
        "complete_when": "json.more == `false`",
        "examples": {"match": [{"status": 200, "json": {"more": False}}], "no_match": [{"status": 200, "json": {}}]},
    },
}
_EPOCH = re.compile(r"\b1[0-9]{9}\b")
_DATE = re.compile(r"[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT")

Table = dict[str, Any]


def text() -> str:
    """The file."""
    rows: list[Table] = []
    services: Table = {}
    for group in GROUPS:
        for name, case in tomllib.loads((TESTS / "cases" / f"{group}.toml").read_text(encoding="utf-8")).items():
            if "missing" in case:
                continue  # what the broker does not speak
            one = Listed(name, case)
            services[name] = one.service()
            rows.append(one.row())
    told = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # declared as what it is at first
    yaml.width = WIDTH
    yaml.dump({"group": "providers", "services": services, "cases": rows}, told)
    return HEAD + told.getvalue()


class Listed:
    """One case of the tables."""

    def __init__(self, name: str, case: Table) -> None:
        self.name = name
        self.case = case
        self.answer: Table = case["answer"]
        self.fault = str(self.answer.get("fault", ""))
        self.declared = tomllib.loads(case["declares"])
        self.is_write = self.declared["effect"] != "read"
        self.is_repeat = "earlier" in case  # whose answer was lost
        self.is_padded = self.fault == "write_timeout" or "early" in self.answer

    def service(self) -> Table:
        """Of its own, with the case's operation, and one that tells what was made."""
        declared = dict(self.declared)
        if "reconcile" in declared:
            declared["reconcile"] = {**declared["reconcile"], "match": "json.items"}
        if "forgotten" in self.case:
            declared["idempotency"] = {**declared["idempotency"], "window_s": 1}
        host = self.case.get("host", "api.example")
        return {"kind": "http", "base_url": f"https://{host}", "operations": {self.name: declared, "l": READ_BACK}}

    def row(self) -> Table:
        row: Table = {
            "id": self.name,
            "title": self.case["claim"],
            "operation": self.name,
            "service": self.name,
            "request": self._request(),
            "fixture_response": self._answers(),
            "expect": self._expect(),
            "expected_agent_decision": self._decision(),
            "agent": self._agent(),
        }
        fault = self._fault()
        if fault:
            row["fault"] = fault
        if self.fault in BRIEF and not self.is_repeat:
            row["deadline"] = BRIEF[self.fault]
        if self.is_repeat:  # a human lets it go out again
            looks = {"id": "looks", "services": [self.name], "effects": ["read"], "approval": "none"}
            again = {"id": "again", "services": [self.name], "effects": ["write"], "approval": "session"}
            row["rules"] = [looks, {**again, "in_doubt": "ask"}]
            row["approver"] = ["approve_session", "approve"]
        return row

    @property
    def args(self) -> Table:
        args: Table = self.case.get("args", {})
        return {**args, "note": PADDING} if self.is_padded else args

    def _request(self) -> Table:
        if "before" in self.case:
            return {"verb": "collect", "args": self.args}
        return {"args": self.args, "effect": self.declared["effect"]}

    def _answers(self) -> list[Table] | Table:
        usual = {"status": 200, "headers": {"content-type": "application/json"}}
        told = [usual | page for page in self.case.get("before", ())]
        told += [self.answer, *self.case.get("then", ())]
        answers = [self._told(one) for one in told]
        if self.is_repeat:
            answers.insert(0, {"status": 200, "commits": True})
        return answers[0] if len(answers) == 1 else answers

    def _told(self, answer: Table) -> Table:
        told: Table = {"status": answer.get("status", 200)}
        headers = {
            name: [self._timeless(one) for one in value] if isinstance(value, list) else self._timeless(value)
            for name, value in answer.get("headers", {}).items()
            if name != "transfer-encoding"  # how it is framed is the fault's business
        }
        if headers:
            told["headers"] = headers
        if "body_b64" in answer:
            told["body_b64"] = answer["body_b64"]
        elif answer.get("body"):
            told["body"] = self._timeless(answer["body"])
        if self.is_write:
            told["commits"] = self._commits(answer)
        return told

    def _commits(self, answer: Table) -> bool:
        """What such a service has done when it answers so."""
        if "commits" in self.case:
            return bool(self.case["commits"])
        status = answer.get("status")
        return status is None or 200 <= status < 300 or status >= 500

    def _fault(self) -> Table:
        if self.is_repeat:
            return {"point": "after_commit", "kind": "silence", "seconds": 3}
        if self.fault in UNSENT:
            return UNSENT[self.fault]
        if "early" in self.answer:
            return {"point": "during_request_body", "kind": "early_answer"}
        is_chunked = "transfer-encoding" in self.answer.get("headers", {})
        after = "after_commit" if self.is_write else "after_request_sent"
        stalls = {"point": "during_response_body", "kind": "stall", "seconds": 4}
        silent = {"point": after, "kind": "silence", "seconds": 4}
        faults: dict[str, Table] = {
            "connection_lost": {"point": after, "kind": "close"},
            "first_byte_timeout": silent,
            "total_timeout": stalls if "status" in self.answer else silent,
            "write_timeout": {"point": "during_request_body", "kind": "stall", "seconds": 4},
            "truncated": {"point": "during_response_body", "kind": "chunk_cut" if is_chunked else "close"},
        }
        return faults.get(self.fault, {})

    def _expect(self) -> Table:
        told = self.case["expect"]
        expect: Table = {
            key: told[key] for key in ("category", "retry", "retry_after_s", "remote_effect") if key in told
        }
        expect["warnings"] = told["warnings"]
        expect["completeness"] = None
        if told.get("complete") is not None:
            keys = ("complete", "truncated", "reasons", "next_cursor")
            expect["completeness"] = {key: told[key] for key in keys if key in told}
        expect["events"] = ["dispatch.started", "action.result"]
        if not self.fault:
            expect["events"].insert(1, "remote.answered")
        if self.is_write and not self.is_repeat and not self.is_padded and self.fault not in UNSENT:
            is_sent_again = told["retry"] in {"bounded", "after_delay"}
            if not is_sent_again:
                expect["remote"] = {"received": 1, "committed": int(self._commits(self.answer))}
        return expect

    def _decision(self) -> str:
        told = self.case["expect"]
        if told["category"] == "success":
            return "proceed"
        if told["category"] == "authentication_failed" and told["retry"] == "never":
            return "ask_human"
        goes_on = told["category"] == "partial" and told["retry"] == "bounded"
        return "continue_search" if goes_on else DECISIONS[told["retry"]]

    def _agent(self) -> Table:
        told = self.case["expect"]
        category, retry = told["category"], told["retry"]
        agent: Table = {}
        if self.is_repeat:
            agent["uses"] = {"warm_up": {"operation": self.name, "args": self.args}}
        if retry in {"never", "after_human"}:
            agent["permitted"] = [f"act -> {category}"]
        elif retry == "reconcile_first":
            agent["forbidden"] = [f"act -> {category} -> act"]
        return agent

    def _timeless(self, told: str) -> str:
        """Times near the case's own hour as so many seconds from now."""
        if "clock" not in self.case:
            return told
        then = datetime.fromisoformat(self.case["clock"])

        def seconds(kind: str, moment: datetime, as_it_is: str) -> str:
            away = moment - then
            return f"{{{kind} {round(away.total_seconds()):+}}}" if abs(away) < NEAR else as_it_is

        told = _EPOCH.sub(lambda one: seconds("epoch", datetime.fromtimestamp(int(one[0]), tz=UTC), one[0]), told)
        return _DATE.sub(lambda one: seconds("date", parsedate_to_datetime(one[0]), one[0]), told)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
