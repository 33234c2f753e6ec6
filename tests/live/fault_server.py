"""A far side that answers, changes and fails as it is told, and writes down itself what came and what it did.

Raw asyncio streams and the standard library alone: nothing of the broker is in it, so that its log can be held against
the broker's. A plan names for each case what is answered, in order, and what each answer does to the case's state.
Usable alone: `python fault_server.py PLAN.json LOG.jsonl`. Requests of a case come below `/NAME`; `/NAME/read-back`
tells what was committed.
"""

import asyncio
import base64
import json
import socket
import ssl
import struct
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

HEAD_BYTES = 65_536
PIECE_BYTES = 65_536
HOLD_S = 30.0
HALF_BYTES = 1000
READ_BACK = "/read-back"
KEY_PARAMS = ("ClientToken", "idempotency_key", "client_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One answer, and in `fault` where it breaks.

    none; close, reset, silence: after the request; never_read: the body is not taken; early: an answer ahead of the
    body; short: less than the length; chunk_cut; stall: a head and no more.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body_b64: str = ""
    fault: str = "none"
    commits: bool = False  # whether a request that gets this changes something

    @property
    def body(self) -> bytes:
        return base64.b64decode(self.body_b64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What the server saw or did. `what`: received | committed | repeated | answered | broke."""

    case: str
    what: str
    method: str
    target: str
    status: int | None = None
    key: str | None = None  # under which the change was asked for
    credential: str | None = None
    body_bytes: int = 0


@dataclass(slots=True)
class _Case:
    answers: tuple[Scripted, ...]
    given: int = 0
    keys: set[str] = field(default_factory=set)
    committed: int = 0

    def next(self) -> Scripted:
        """The last one again, once all were given."""
        answer = self.answers[min(self.given, len(self.answers) - 1)]
        self.given += 1
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    case: str
    method: str
    target: str
    headers: dict[str, str]

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", "0"))


class FaultServer:
    """Runs in a thread of its own; its log may be read at any time."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, narrow: bool = False) -> None:
        """`narrow`: little of an upload goes on its way unread, so that one that is not taken has to wait."""
        self._cases: dict[str, _Case] = {}
        self._log: list[Logged] = []
        self._tls = tls
        self._narrow = narrow
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(HOLD_S):
            raise TimeoutError("the fault server did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HOLD_S)

    @property
    def origin(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def plan(self, case: str, answers: tuple[Scripted, ...]) -> None:
        self._cases[case] = _Case(answers=answers)

    def log(self, case: str | None = None) -> tuple[Logged, ...]:
        return tuple(one for one in self._log if case in {None, one.case})

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        endpoint = socket.create_server(("127.0.0.1", 0), backlog=100)
        if self._narrow:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        ahead = 1024 if self._narrow else HEAD_BYTES
        server = await asyncio.start_server(self._talk, sock=endpoint, ssl=self._tls, limit=ahead)
        self.port = endpoint.getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection goes on."""
        asked = _parsed(await reader.readuntil(b"\r\n\r\n"))
        case = self._cases.get(asked.case)
        if case is None:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return True
        if asked.target.partition("?")[0].endswith(READ_BACK):
            await self._read_back(case, writer)
            return True
        answer = case.next()
        body = await _body(reader, asked, answer)
        key = _key_of(asked, body)
        self._note(asked, "received", key=key, body=body)
        self._commit(case, asked, answer, key)
        return await self._answer(asked, answer, writer)

    def _commit(self, case: _Case, asked: _Asked, answer: Scripted, key: str | None) -> None:
        """A change is made once for each key, as a service that honours keys would."""
        if not answer.commits:
            return
        if key is not None and key in case.keys:
            self._note(asked, "repeated", key=key)
            return
        if key is not None:
            case.keys.add(key)
        case.committed += 1
        self._note(asked, "committed", key=key)

    async def _read_back(self, case: _Case, writer: asyncio.StreamWriter) -> None:
        told = json.dumps([{"id": number} for number in range(case.committed)]).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(told)
        writer.write(head + told)
        await writer.drain()

    async def _answer(self, asked: _Asked, answer: Scripted, writer: asyncio.StreamWriter) -> bool:
        if answer.fault in {"close", "reset"}:
            self._note(asked, "broke")
            if answer.fault == "reset":
                _abort(writer)
            return False
        if answer.fault in {"silence", "never_read"}:
            self._note(asked, "broke")
            await asyncio.sleep(HOLD_S)
            return False
        # Before it is sent: whoever has the answer may look into the log at once.
        self._note(asked, "answered" if answer.fault in {"none", "early"} else "broke", status=answer.status)
        writer.write(_head(answer) + _sent_body(asked, answer))
        await writer.drain()
        if answer.fault in {"stall", "early"}:
            await asyncio.sleep(HOLD_S)
        return answer.fault == "none" and ("connection", "close") not in answer.headers

    def _note(
        self, asked: _Asked, what: str, *, status: int | None = None, key: str | None = None, body: bytes = b""
    ) -> None:
        self._log.append(
            Logged(
                case=asked.case,
                what=what,
                method=asked.method,
                target=asked.target,
                status=status,
                key=key,
                credential=asked.headers.get("authorization"),
                body_bytes=len(body),
            )
        )


def _parsed(head: bytes) -> _Asked:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return _Asked(case=target[1:].partition("?")[0].partition("/")[0], method=method, target=target, headers=headers)


async def _body(reader: asyncio.StreamReader, asked: _Asked, answer: Scripted) -> bytes:
    if answer.fault == "never_read":
        return b""
    if answer.fault == "early":
        return await reader.readexactly(min(asked.length, HALF_BYTES))
    return await reader.readexactly(asked.length)


def _key_of(asked: _Asked, body: bytes) -> str | None:
    told = next((value for name, value in asked.headers.items() if name.endswith("idempotency-key")), None)
    given = parse_qs(asked.target.partition("?")[2])
    try:
        fields: Any = json.loads(body) if body else {}
    except ValueError:
        fields = {}
    for name in KEY_PARAMS:
        told = told or next(iter(given.get(name, ())), None)
        told = told or (fields.get(name) if isinstance(fields, dict) else None)
    return told


def _head(answer: Scripted) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} Scripted"]
    lines += [f"{name}: {value}" for name, value in answer.headers if name != "transfer-encoding"]
    if answer.fault == "chunk_cut":
        lines.append("transfer-encoding: chunked")
    elif answer.fault in {"short", "stall"}:
        lines.append(f"content-length: {len(answer.body) + 50}")
    elif answer.status != 204:
        lines.append(f"content-length: {len(answer.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _sent_body(asked: _Asked, answer: Scripted) -> bytes:
    if asked.method == "HEAD" or answer.status == 204:
        return b""
    if answer.fault == "chunk_cut":
        return b"%x\r\n" % (len(answer.body) + 50) + answer.body
    return b"" if answer.fault == "stall" else answer.body


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset, as a host that died and came back does."""
    endpoint = writer.get_extra_info("socket")
    if endpoint is not None:
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _alone(plan: Path, log: Path) -> None:
    """Serve a plan until standard input ends, then write the log."""
    with FaultServer() as server:
        for case, answers in json.loads(plan.read_text(encoding="utf-8")).items():
            given = [{**one, "headers": tuple(map(tuple, one.get("headers", ())))} for one in answers]
            server.plan(case, tuple(Scripted(**one) for one in given))
        print(server.origin, flush=True)
        sys.stdin.read()
        lines = [json.dumps(asdict(one)) for one in server.log()]
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    _alone(Path(sys.argv[1]), Path(sys.argv[2]))
