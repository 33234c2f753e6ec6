"""Lines of JSON-RPC over this process's pipes: parsed strictly, bounded, and refused apart for what is wrong.

What is no JSON is answered with -32700 and what is no message with -32600, by this module: the protocol's own code
never sees it. Standard output belongs to the protocol alone; whatever else prints ends on standard error.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from broker.contract.wire import JsonValue, WireError, dump, parse_json

LINE_MAX_BYTES = 4 << 20
PARSE_ERROR, INVALID_REQUEST = -32700, -32600

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def pipes() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """The two directions, until the agent closes our input."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # a stray print is no message
    incoming_in, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_out = anyio.create_memory_object_stream[SessionMessage](0)
    turn = anyio.Lock()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, source, incoming_in, sink, turn)
        tasks.start_soon(_write, outgoing_out, sink, turn)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


async def _read(
    source: BinaryIO, into: MemoryObjectSendStream[SessionMessage | Exception], sink: BinaryIO, turn: anyio.Lock
) -> None:
    async with into:
        while line := await anyio.to_thread.run_sync(_line, source, abandon_on_cancel=True):
            if not line.strip():
                continue
            message = understood(line)
            if isinstance(message, SessionMessage):
                await into.send(message)
            else:
                await _put(sink, message, turn)


def understood(line: bytes) -> SessionMessage | dict[str, JsonValue]:
    """The message of a line, or the error to answer it with."""
    if len(line) > LINE_MAX_BYTES:
        return _error(PARSE_ERROR, f"A message may have at most {LINE_MAX_BYTES} bytes.", None)
    try:
        value = parse_json(line, max_bytes=LINE_MAX_BYTES)
    except WireError as fault:
        return _error(PARSE_ERROR, f"This line is no JSON: {fault}.", None)
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(value, by_name=False))
    except ValidationError:
        return _error(INVALID_REQUEST, "This is no message of JSON-RPC 2.0.", _id_of(value))


def _id_of(value: JsonValue) -> JsonValue:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _error(code: int, message: str, name: JsonValue) -> dict[str, JsonValue]:
    return {"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message}}


def _line(source: BinaryIO) -> bytes:
    """One line; of one that is too long no more than shows that it is."""
    line = source.readline(LINE_MAX_BYTES + 1)
    end = line
    while len(line) > LINE_MAX_BYTES and end and not end.endswith(b"\n"):
        end = source.readline(LINE_MAX_BYTES)
    return line


async def _write(messages: MemoryObjectReceiveStream[SessionMessage], sink: BinaryIO, turn: anyio.Lock) -> None:
    async with messages:
        async for message in messages:
            spelled = message.message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            await _put(sink, spelled, turn)


async def _put(sink: BinaryIO, message: dict[str, JsonValue], turn: anyio.Lock) -> None:
    spelled = dump(message) + b"\n"
    async with turn:
        try:
            await anyio.to_thread.run_sync(_all_of, sink, spelled)
        except BrokenPipeError:
            sys.exit(0)  # nobody reads any more


def _all_of(sink: BinaryIO, spelled: bytes) -> None:
    left = memoryview(spelled)
    while left:
        left = left[sink.write(left) :]
