"""HTTP far sides that answer, change and break as they are told, and write down themselves what came and what they did.

Raw asyncio streams in a thread of their own: plain, TLS, and TLS that no client may accept; a port where nobody
listens and one where nobody answers. A run is told by the first segment of the path; `/RUN/_committed` lists what it
changed. Shares nothing with the broker's client, so that its log can be held against the broker's.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from broker.matrix.certificates import ADDRESS, Authority
from broker.matrix.http_plans import (
    Asked,
    HttpAnswer,
    HttpFault,
    HttpPlan,
    answer_bytes,
    broken_bytes,
    first_line,
    head,
    key_of,
    run_of,
    spoken,
)
from broker.matrix.records import Seen

HOLD_S = 40.0  # that a stalled connection is held, unless the fault says how long
START_S = 30.0
READ_BYTES = 1 << 20
NARROW_BYTES = 4096
COMMITTED = "/_committed"
NO_NAME = "no-such-host.invalid"
_BROKEN = (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError, ValueError)


@dataclass(slots=True)
class _Run:
    plan: HttpPlan
    given: int = 0
    keys: set[str] = field(default_factory=set)
    changes: list[dict[str, Any]] = field(default_factory=list)


class HttpFaults:
    """All HTTP far sides. Its log may be read at any time, from any thread."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._log: list[Seen] = []
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="http far sides", daemon=True)
        self._origins: dict[str, str] = {}
        self._held: list[socket.socket] = []
        self._trusted = Authority("the matrix's own CA")
        self._stranger = Authority("a CA that nobody trusts")
        self.ca_pem = self._trusted.pem

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_S):
            raise TimeoutError("the HTTP far sides did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(START_S)
        for held in self._held:
            held.close()
        self._held.clear()

    @property
    def origins(self) -> Mapping[str, str]:
        """By what goes wrong there: plain, narrow, tls, the faults of a certificate, refused, timeout, dns_failure."""
        return self._origins

    def origin(self, fault: HttpFault | None, *, tls: bool = False) -> str:
        """Where a run has to go for its fault to come about."""
        if fault is not None and fault.kind in self._origins and fault.point in _PLACES:
            return self._origins[fault.kind]
        if fault is not None and fault.point == "during_request_body":
            return self._origins["narrow"]
        return self._origins["tls" if tls else "plain"]

    def arm(self, run: str, plan: HttpPlan) -> None:
        self._runs[run] = _Run(plan=plan)

    def events(self, run: str | None = None) -> tuple[Seen, ...]:
        return tuple(one for one in self._log if run in {None, one.case})

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        contexts = {
            "tls": self._trusted.server(),
            "bad_certificate": self._stranger.server(),
            "wrong_name": self._trusted.server(is_named=False),
            "expired": self._trusted.server(is_expired=True),
        }
        servers = [await self._listen("plain"), await self._listen("narrow", is_narrow=True)]
        servers += [await self._listen(name, context) for name, context in contexts.items()]
        self._origins["dns_failure"] = f"https://{NO_NAME}"
        self._origins["refused"] = self._held_port(listens=False)
        self._origins["timeout"] = self._held_port(listens=True)
        self._ready.set()
        await self._stop.wait()
        for server in servers:
            server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _listen(self, name: str, tls: ssl.SSLContext | None = None, *, is_narrow: bool = False) -> asyncio.Server:
        """`is_narrow`: little of an upload goes on its way unread, so that one that is not taken has to wait."""
        endpoint = socket.create_server((ADDRESS, 0), backlog=200)
        if is_narrow:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        self._origins[name] = f"http{'' if tls is None else 's'}://{ADDRESS}:{endpoint.getsockname()[1]}"
        limit = 1024 if is_narrow else READ_BYTES
        return await asyncio.start_server(self._talk, sock=endpoint, ssl=tls, limit=limit)

    def _held_port(self, *, listens: bool) -> str:
        """A port that is ours, and where nobody listens; or where the queue is full and nobody answers."""
        endpoint = socket.socket()
        endpoint.bind((ADDRESS, 0))
        self._held.append(endpoint)
        where = endpoint.getsockname()
        if listens:
            endpoint.listen(0)
            for _ in range(4):  # the kernel takes one or two beyond the queue
                filler = socket.socket()
                filler.setblocking(False)  # noqa: FBT003 - the socket module's own spelling
                filler.connect_ex(where)
                self._held.append(filler)
        return f"http://{ADDRESS}:{where[1]}"

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0
        try:
            while await self._one(reader, writer, served):
                served += 1
        except (*_BROKEN, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, served: int) -> bool:
        """One request; whether the connection goes on. `served`: how many came on it before."""
        line = await reader.readuntil(b"\r\n")
        _, target = first_line(line)
        run = self._runs.get(run_of(target))
        if run is None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
            return False
        fault = run.plan.fault
        is_due = fault is not None and fault.on == run.given + 1
        if fault is not None and is_due and fault.point == "during_headers":
            run.given += 1
            self._note(Asked(method=first_line(line)[0], target=target, headers={}), "broke")
            return _break(writer, fault.kind)
        asked = head(line, await _headers(reader))
        if asked.path.endswith(COMMITTED):
            return await self._tell(run, asked, writer)
        if fault is not None and fault.point == "on_reused_connection":
            is_due = served > 0
        return await self._handle(run, asked, fault if is_due else None, (reader, writer))

    async def _handle(
        self,
        run: _Run,
        asked: Asked,
        fault: HttpFault | None,
        ends: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> bool:
        reader, writer = ends
        if fault is not None and fault.point == "during_request_body":
            return await self._break_upload(run, asked, fault, ends)
        body = await _body(reader, asked)
        answer = run.plan.answer(run.given, f"{asked.method} {asked.target} {body.decode('latin-1')}")
        run.given += 1
        key = key_of(asked, body)
        self._note(asked, "received", key=key)
        if run.plan.commits(answer, asked.method, fault):
            self._commit(run, asked, body, key)
        if fault is None:
            self._note(asked, "answered", status=answer.status)  # before anybody can have read it
            writer.write(answer_bytes(answer, "", is_head=asked.method == "HEAD"))
            await writer.drain()
            return ("connection", "close") not in answer.headers and asked.headers.get("connection") != "close"
        return await self._break_answer(asked, answer, fault, writer)

    async def _break_upload(
        self,
        run: _Run,
        asked: Asked,
        fault: HttpFault,
        ends: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> bool:
        reader, writer = ends
        answer = run.plan.answer(run.given, f"{asked.method} {asked.target}")
        run.given += 1
        if fault.kind == "early_answer":
            self._note(asked, "answered", status=answer.status)
            writer.write(answer_bytes(answer, "", is_head=False))
            await writer.drain()
            await asyncio.sleep(fault.seconds or 1.0)  # it is to be read before the connection goes
            return _break(writer, "close")
        if fault.kind == "stall":
            self._note(asked, "broke")
            await asyncio.sleep(fault.seconds or HOLD_S)
            return False
        await reader.read(1)
        self._note(asked, "broke")
        return _break(writer, fault.kind)

    async def _break_answer(
        self, asked: Asked, answer: HttpAnswer, fault: HttpFault, writer: asyncio.StreamWriter
    ) -> bool:
        if fault.point == "after_commit" and fault.kind == "delay":
            await asyncio.sleep(fault.seconds or HOLD_S)
        is_told = fault.kind == "delay" or fault.point in {"during_response_headers", "during_response_body"}
        self._note(asked, "answered" if fault.kind == "delay" else "broke", status=answer.status if is_told else None)
        writer.write(broken_bytes(answer, fault, is_head=asked.method == "HEAD"))
        await writer.drain()
        if fault.kind in {"stall", "silence"}:
            await asyncio.sleep(fault.seconds or HOLD_S)
        if fault.kind == "reset":
            await asyncio.sleep(0.05)  # what was sent is to arrive before the reset overtakes it
        return _break(writer, fault.kind)

    def _commit(self, run: _Run, asked: Asked, body: bytes, key: str | None) -> None:
        """A change is made once for each key, where keys are honoured."""
        if key is not None and run.plan.honours_keys and key in run.keys:
            self._note(asked, "repeated", key=key)
            return
        if key is not None:
            run.keys.add(key)
        told = spoken(body)
        path = asked.path.removeprefix(f"/{asked.run}")
        change = {"method": asked.method, "path": path, "segments": path.split("/")[1:], "key": key, "body": told}
        own = told if isinstance(told, dict) else {}
        run.changes.append({"id": len(run.changes), **change, **own})
        self._note(asked, "committed", key=key)

    async def _tell(self, run: _Run, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self._note(asked, "looked_up", status=200)
        body = json.dumps({"items": run.changes, "count": len(run.changes), "more": False}).encode()
        told = HttpAnswer(headers=(("content-type", "application/json"),), body=body)
        writer.write(answer_bytes(told, "", is_head=False))
        await writer.drain()
        return True

    def _note(self, asked: Asked, what: str, *, status: int | None = None, key: str | None = None) -> None:
        self._log.append(
            Seen(
                case=asked.run,
                what=what,
                detail=f"{asked.method} {asked.target}",
                status=status,
                key=key,
                credential=asked.headers.get("authorization"),
            )
        )


_PLACES = frozenset({"before_connect", "during_connect", "during_tls"})


async def _headers(reader: asyncio.StreamReader) -> bytes:
    lines = []
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        lines.append(line)
    return b"".join(lines)


async def _body(reader: asyncio.StreamReader, asked: Asked) -> bytes:
    if not asked.is_chunked:
        return await reader.readexactly(asked.length)
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readuntil(b"\r\n")
    await reader.readuntil(b"\r\n")
    return b"".join(pieces)


def _break(writer: asyncio.StreamWriter, kind: str) -> bool:
    """End the connection: with a reset, as a host that died and came back does, or by closing it."""
    if kind == "reset":
        endpoint = writer.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    return False
