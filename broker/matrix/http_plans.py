"""What an HTTP far side is told to do for one run, and how it reads a request and spells an answer. Bytes alone."""

import gzip
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

KEY_FIELDS = ("idempotency_key", "client_token", "ClientToken", "idempotencyKey")
MADE_WHERE = frozenset({"after_commit", "during_status_line", "during_response_headers", "during_response_body"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
GAP_BYTES = 50  # that are promised and do not come


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """One answer. `commits` says whether a request that gets it has changed something; None: as one would think."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    commits: bool | None = None
    when: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFault:
    """Where one answer breaks, counted from one, and how."""

    point: str
    kind: str
    seconds: float = 0.0
    on: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPlan:
    """Answers in order, the last one again; where some name a request, those go before."""

    answers: tuple[HttpAnswer, ...]
    fault: HttpFault | None = None
    honours_keys: bool = True
    changes: bool = True  # whether such requests change something at all

    def commits(self, answer: HttpAnswer, method: str, fault: HttpFault | None) -> bool:
        """A change is made where the answer says so, unless it breaks before that."""
        if answer.commits is not None:
            return answer.commits
        comes_so_far = fault is None or fault.point in MADE_WHERE
        return self.changes and method not in SAFE and 200 <= answer.status < 300 and comes_so_far

    def answer(self, given: int, request: str) -> HttpAnswer:
        named = next((one for one in self.answers if one.when is not None and one.when in request), None)
        if named is not None:
            return named
        others = [one for one in self.answers if one.when is None] or [HttpAnswer(status=404)]
        return others[min(given, len(others) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The head of a request. The first segment of the path is the run's name."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def run(self) -> str:
        return run_of(self.target)

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def length(self) -> int:
        told = self.headers.get("content-length", "0")
        return int(told) if told.isdigit() else 0

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "")


def run_of(target: str) -> str:
    return target.partition("?")[0].lstrip("/").partition("/")[0]


def first_line(line: bytes) -> tuple[str, str]:
    """Method and target."""
    method, _, rest = line.decode("latin-1").strip().partition(" ")
    return method, rest.rpartition(" ")[0]


def head(line: bytes, rest: bytes) -> Asked:
    method, target = first_line(line)
    pairs = (one.partition(":") for one in rest.decode("latin-1").split("\r\n") if one)
    return Asked(method=method, target=target, headers={name.strip().lower(): told.strip() for name, _, told in pairs})


def key_of(asked: Asked, body: bytes) -> str | None:
    """Under which key the change is asked for: in a header, in the query, or in the body."""
    in_header = next((told for name, told in asked.headers.items() if name.endswith("idempotency-key")), None)
    given = parse_qs(asked.target.partition("?")[2])
    fields = spoken(body)
    for name in KEY_FIELDS if in_header is None else ():
        found = next(iter(given.get(name, ())), None) or (fields.get(name) if isinstance(fields, dict) else None)
        if isinstance(found, str):
            return found
    return in_header


def spoken(body: bytes) -> Any:
    """The body as JSON; None where it is none."""
    try:
        return json.loads(body) if body else None  # noqa: TID251 - the far side shares no code with the broker
    except ValueError:
        return None


def status_line(answer: HttpAnswer) -> bytes:
    return f"HTTP/1.1 {answer.status} As-Planned\r\n".encode("latin-1")


def answer_bytes(answer: HttpAnswer, kind: str, *, is_head: bool) -> bytes:
    """Head and body; `kind` is how the body falls short, if it does."""
    body = gzip.compress(answer.body)[:-9] if kind == "gzip_cut" else answer.body
    names = {name for name, _ in answer.headers}
    lines = [f"{name}: {told}" for name, told in answer.headers]
    if kind == "gzip_cut":
        lines.append("content-encoding: gzip")
    if kind == "chunk_cut":
        lines.append("transfer-encoding: chunked")
        body = b"%x\r\n" % (len(body) + GAP_BYTES) + body
    elif (
        not names & {"content-length", "transfer-encoding"} and not 100 <= answer.status < 200 and answer.status != 204
    ):
        lines.append(f"content-length: {len(body) + (GAP_BYTES if kind in {'close', 'reset', 'stall'} else 0)}")
    if is_head or answer.status in {204, 304}:
        body = b""
    return status_line(answer) + ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def broken_bytes(answer: HttpAnswer, fault: HttpFault, *, is_head: bool) -> bytes:
    """What is sent of an answer before it breaks; nothing where it breaks before that."""
    match fault.point:
        case "during_status_line":
            return b"NONSENSE 4711\r\n\r\n" if fault.kind == "garbage" else status_line(answer)[:11]
        case "during_response_headers":
            return status_line(answer) + b"content-type: appl"
        case "during_response_body":
            told = answer_bytes(answer, fault.kind, is_head=is_head)
            return told if fault.kind in {"gzip_cut", "chunk_cut"} else told[: len(told) - len(answer.body) // 2]
        case _:
            return answer_bytes(answer, "", is_head=is_head) if fault.kind == "delay" else b""
