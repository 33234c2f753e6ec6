"""A provider of accounts on loopback: lists them page by page, shows one, deletes several, and remembers it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

PAGE = 2
POLICY = """
version = 1

[[rules]]
id = "account-read"
services = ["cloud"]
effects = ["read"]
approval = "none"

[[rules]]
id = "account-delete"
services = ["cloud"]
operations = ["accounts.delete"]
approval = "per_call"
reason = "each target needs proof"

[rules.evidence]
from = "accounts.list"
args = {{ project = "{{project}}" }}
claim = "present"
covers = "{{names}}"
id = "name"
otherwise = "ask"

[[rules]]
id = "account-create"
services = ["cloud"]
operations = ["accounts.create"]
approval = "none"

[rules.evidence]
from = "accounts.list"
args = {{ project = "{{project}}" }}
claim = "absent"
covers = "{{name}}"
id = "name"

[[rules]]
id = "account-drop"
services = ["cloud"]
operations = ["accounts.drop"]
approval = "none"

[rules.precheck]
operation = "accounts.get"
args = {{ project = "{{project}}", name = "{{name}}" }}
expect = "json.state=='idle'"

[services.cloud]
kind = "http"
base_url = "{origin}"
credential = "cloud-ops"

[services.cloud.operations."accounts.list"]
request = {{ method = "GET", path = "/v1/{{project}}/accounts", query = ["after"] }}
effect = "read"
pagination = {{ kind = "body_token", token = "json.next", param = "after", stability = "snapshot" }}
completeness = {{ items = "json.accounts", id = "name" }}

[services.cloud.operations."accounts.get"]
request = {{ method = "GET", path = "/v1/{{project}}/accounts/{{name}}" }}
effect = "read"

[services.cloud.operations."accounts.delete"]
request = {{ method = "POST", path = "/v1/{{project}}/accounts:delete", body = ["names"], required = ["names"] }}
effect = "write"
destructive = true
targets = ["names"]
title = "{{project}}"

[services.cloud.operations."accounts.create"]
request = {{ method = "POST", path = "/v1/{{project}}/accounts", body = ["name"], required = ["name"] }}
effect = "write"
targets = ["name"]

[services.cloud.operations."accounts.drop"]
request = {{ method = "DELETE", path = "/v1/{{project}}/accounts/{{name}}" }}
effect = "write"
destructive = true
"""


class Accounts:
    """What there is, and every request that came, in order."""

    def __init__(self) -> None:
        self.names = ["ci-legacy-2", "ci-legacy-5", "svc-build-7"]
        self.busy: set[str] = set()
        self.requests: list[str] = []
        self.port = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def changes(self) -> list[str]:
        return [one for one in self.requests if not one.startswith("GET ")]

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        url = urlsplit(target)
        last = url.path.rpartition("/")[2]
        if method == "GET" and last == "accounts":
            start = int(parse_qs(url.query).get("after", ["0"])[0])
            told: dict[str, object] = {"accounts": [{"name": name} for name in self.names[start : start + PAGE]]}
            return 200, told | ({"next": str(start + PAGE)} if start + PAGE < len(self.names) else {})
        if method == "GET":
            return 200, {"name": last, "state": "busy" if last in self.busy else "idle"}
        if last == "accounts:delete":
            gone = json.loads(body)["names"]
            self.names = [name for name in self.names if name not in gone]
            return 200, {"deleted": gone}
        if method == "POST":
            self.names.append(json.loads(body)["name"])
            return 201, {"name": last}
        self.names = [name for name in self.names if name != last]
        return 200, {"deleted": [last]}


@contextmanager
def serving() -> Iterator[Accounts]:
    accounts = Accounts()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            accounts.requests.append(f"{self.command} {self.path} {body.decode()}".strip())
            status, value = accounts.answer(self.command, self.path, body)
            told = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_GET = _answer  # noqa: N815 - the names that the library calls
        do_POST = _answer  # noqa: N815
        do_DELETE = _answer  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    accounts.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield accounts
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
