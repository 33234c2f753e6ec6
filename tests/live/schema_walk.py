"""Walk over a document with requests that fit its schemas, and with some that do not; tell of answers outside it.

    build/fuzz-venv/bin/python tests/live/schema_walk.py SOCKET DOCUMENT EXAMPLES < KEY

Runs in an environment of its own, for what it uses brings another version of a validator than the daemon has. Prints a
JSON object: how many requests were sent, how many of each status, and what did not hold. With an approver's key (log id
and seed, as JSON) it opens a control session first and signs the statements that it sends: so the sealed reads and what
lies behind a signature are walked over as well.
"""

import base64
import json
import os
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from requests.adapters import HTTPAdapter
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from typing_extensions import override
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from broker.client.approver import ApproverError, ApproverKey
from broker.client.control import ControlClient
from broker.client.places import Places

ANSWER_S = 60
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
LAST = ("/v1/lock", "/v1/freeze", "/v1/vault/readopt")  # what changes what all others would find
BRIEF = 10  # examples of what is slowed down on purpose, or has one form alone
SLOWED = ("/v1/unlock", "/v1/vault/passphrase", "/v1/openapi.json", *LAST)
LEFT_OUT = ("/v1/events", "/v1/audit/checkpoint")  # a stream without end; a signature each


class UnixAdapter(HTTPAdapter):
    """Every request goes to one Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._pool = HTTPConnectionPool("doorward", maxsize=1)
        pool: Any = self._pool
        pool.ConnectionCls = lambda *_, **__: connection_of(path)

    @override
    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Any:
        return self._pool


def connection_of(path: str) -> HTTPConnection:
    class Connection(HTTPConnection):
        @override
        def connect(self) -> None:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(ANSWER_S)
            self.sock.connect(path)

    return Connection("doorward", timeout=ANSWER_S)


class Human:
    """Holds an approver's key: signs what is sent as if it had been asked for."""

    def __init__(self, log_id: str, seed: str) -> None:
        self._key = ApproverKey(log_id=log_id, seed=bytes.fromhex(seed))
        self._client = ControlClient(Places(dict(os.environ)))

    def open_session(self) -> None:
        self._client.open_session(self._key)

    def signed(self, body: Any) -> Any:
        vault: Any = self._client.status()["vault"]
        nonce = self._client._nonce()
        statement = {**body["statement"], "log_id": self._key.log_id, "vault_term": vault["term"], "nonce": nonce}
        try:
            signature = base64.b64encode(self._key.sign_statement(statement)).decode()
        except ApproverError:  # numbers that no statement can hold
            return body
        return {**body, "statement": statement, "signature": signature}


class Walk:
    def __init__(self, session: requests.Session, human: Human | None) -> None:
        self._session = session
        self._human = human
        self.sent = 0
        self.statuses: Counter[int] = Counter()
        self.faults: dict[str, str] = {}

    def over(self, operation: Any, mode: GenerationMode, examples: int) -> None:
        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def one(case: Any) -> None:
            self._ask(case, f"{operation.method.upper()} {operation.path}")

        try:
            one()
        except Unsatisfiable:  # a route that takes nothing can be asked in no wrong way
            return
        except (Exception, BaseExceptionGroup) as fault:  # noqa: BLE001 - the walk goes on; what could not be made is told
            self.faults.setdefault(f"{operation.method} {operation.path} {mode.value}", repr(fault)[:500])

    def _ask(self, case: Any, name: str) -> None:
        if isinstance(case.body, dict) and "wait_s" in known_fields(case):
            case.body = {**case.body, "wait_s": 0}  # nobody is there who would answer
        if self._human is not None and is_statement(case.body):
            case.body = self._human.signed(case.body)
        try:
            response = case.call(base_url="http://doorward", session=self._session)
        except (ValueError, requests.exceptions.InvalidHeader, UnicodeError):
            return  # nothing that a client of HTTP can send
        self.sent += 1
        self.statuses[response.status_code] += 1
        if response.status_code >= 500 and not typed(response):
            self.faults.setdefault(f"{name} {response.status_code}", case.as_curl_command()[:1000])
            return
        try:
            case.validate_response(response, checks=CHECKS)
        except (Exception, BaseExceptionGroup) as fault:  # noqa: BLE001 - told, and the walk goes on
            self.faults.setdefault(f"{name} {response.status_code}", str(fault)[:1500])


def is_statement(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("statement"), dict) and "verb" in body["statement"]


def known_fields(case: Any) -> set[str]:
    for body in case.operation.body:
        return set(resolved(body.definition.get("schema", {})).get("properties", {}))
    return set()


def resolved(schema: Any) -> Any:
    name = schema.get("$ref", "") if isinstance(schema, dict) else ""
    path = Path(os.environ["SCHEMAS"]) / Path(name).name
    return json.loads(path.read_bytes()) if name and path.exists() else schema


def typed(response: Any) -> bool:
    """Whether a 503 is one of ours: with a category, or with a code."""
    try:
        value = response.json()
    except ValueError:
        return False
    return response.status_code == 503 and (
        value.get("category") == "broker_unavailable" or isinstance(value.get("error", {}).get("code"), str)
    )


def main() -> int:
    path, document, examples = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    os.environ["SCHEMAS"] = str(document.parent / "schemas")
    key = sys.stdin.read()
    human = Human(**json.loads(key)) if key else None
    if human is not None:
        human.open_session()
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", UnixAdapter(path))
    operations = [found.ok() for found in schemathesis.openapi.from_path(document).get_all_operations()]
    operations = [one for one in operations if one.path not in LEFT_OUT]
    operations.sort(key=lambda one: (one.path in LAST, one.path, one.method))
    each = max(1, examples // (2 * len(operations)))
    walk = Walk(session, human)
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            walk.over(operation, mode, min(BRIEF, each) if operation.path in SLOWED else each)
    print(json.dumps({"sent": walk.sent, "statuses": walk.statuses, "faults": walk.faults}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
