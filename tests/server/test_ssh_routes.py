"""The SSH routes as an agent meets them: shapes, faults, frames in both directions, and who hangs up."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from broker.contract.frames import DATA, END, HEAD, MAX_DATA_BYTES, MEDIA, PREFIX_BYTES, pack, split_data, unpack_prefix
from broker.contract.wire import JsonObject
from broker.core.ssh.frozen import MAX_TRANSFER_BYTES
from broker.core.ssh.resolve import PutAsk, SshAsk
from broker.steps import Received
from tests.fakes.faces import AgentFace, ScriptedEngine, Told, Wire, fine

ROUTES = ("/v1/ssh", "/v1/ssh/stream", "/v1/ssh/put", "/v1/ssh/get")
FRAMED = {"content-type": MEDIA}
ASKED = {"host": "web-1", "command": "uptime"}
PUT = {"host": "web-1", "path": "/srv/a"}


class TalkingEngine(ScriptedEngine):
    """Hands on output before it ends."""

    pieces: tuple[tuple[str, bytes], ...] = ()
    heard_out = True
    ended = False

    @override
    async def perform(self, action: Received) -> JsonObject:
        self.actions.append(action)
        assert action.frames is not None
        for stream, octets in self.pieces:
            try:
                await action.frames(stream, octets)
            except ConnectionError:
                self.heard_out = False
        self.ended = True
        return fine(action.correlation_id)


def told_of(answer: Told) -> tuple[int, str, str]:
    return answer.status, answer.value["category"], answer.value["code"]


def ask_of(face: AgentFace) -> SshAsk:
    (action,) = face.engine.actions
    assert isinstance(action.ask, SshAsk)
    return action.ask


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"{", 400, "unreadable"),
        (b'{"host":"a","host":"b"}', 400, "unreadable"),
        (b"{}", 422, "schema"),
        (b'{"host":"web-1","odd":1}', 422, "schema"),
        (b'{"host":7,"path":"/a","command":"x"}', 422, "schema"),
        (b" " * ((1 << 20) + 1), 413, "body_too_large"),
    ],
)
async def test_what_can_not_be_taken_is_said_with_an_envelope(
    tmp_path: Path, path: str, raw: bytes, status: int, code: str
) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", path, raw=raw)

        assert (status, "invalid_request", code) == told_of(answer)
        assert ["none", "never"] == [answer.value["remote_effect"], answer.value["retry"]]


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/v1/ssh", {**ASKED, "stdin_b64": "%"}),
        ("/v1/ssh", {**ASKED, "deadline": {"total_s": 0}}),
        ("/v1/ssh/stream", {**ASKED, "pty": "yes"}),
        ("/v1/ssh/put", {**PUT, "content": "x", "mode": "rwx"}),
        ("/v1/ssh/get", {"host": "web-1"}),
    ],
)
async def test_a_fault_of_the_shape_is_told_and_nothing_begins(
    tmp_path: Path, path: str, document: dict[str, Any]
) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", path, document)

        assert (422, "invalid_request", "schema") == told_of(answer)
        assert all(not isinstance(action.ask, SshAsk) for action in face.engine.actions)


async def test_a_command_is_performed_and_answered_with_its_envelope(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", "/v1/ssh", {**ASKED, "request_id": "r1", "reason": "to see"})

        assert (200, "policy_denied", "no_rule") == told_of(answer)
        assert SshAsk(host="web-1", command=b"uptime") == ask_of(face)
        (action,) = face.engine.actions
        assert ("r1", "to see", None) == (action.request_id, action.says, action.frames)


async def test_files_are_put_and_got_in_documents(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        await face.ask("POST", "/v1/ssh/put", {**PUT, "content": "one\n", "mode": "0640"})
        await face.ask("POST", "/v1/ssh/get", PUT)

        put, got = (action.ask for action in face.engine.actions)
        assert SshAsk(host="web-1", put=PutAsk(path="/srv/a", content=b"one\n", mode=0o640)) == put
        assert SshAsk(host="web-1", get="/srv/a") == got


async def frames_of(wire: Wire) -> list[tuple[bytes, bytes]]:
    """The frames of a chunked answer."""
    head = await wire.reader.readuntil(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower(), head
    assert MEDIA.encode() in head
    octets = b""
    while size := int(await wire.reader.readline(), 16):
        octets += await wire.reader.readexactly(size)
        await wire.reader.readexactly(2)
    return list(unpacked(octets))


def unpacked(octets: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(octets):
        kind, length = unpack_prefix(octets[at : at + PREFIX_BYTES])
        at += PREFIX_BYTES + length
        yield kind, octets[at - length : at]


def talking(directory: Path, *pieces: tuple[str, bytes]) -> tuple[AgentFace, TalkingEngine]:
    face = AgentFace(directory)
    face.engine = engine = TalkingEngine(face.runs)
    engine.pieces = pieces
    return face, engine


@pytest.mark.parametrize(
    ("path", "document", "headers"), [("/v1/ssh/stream", ASKED, {}), ("/v1/ssh/get", PUT, {"accept": MEDIA})]
)
async def test_output_comes_in_frames_between_an_id_and_the_envelope(
    tmp_path: Path, path: str, document: dict[str, Any], headers: dict[str, str]
) -> None:
    large = b"c" * (MAX_DATA_BYTES + 1)
    face, engine = talking(tmp_path, ("stdout", b"a\xff"), ("stderr", b"b"), ("stdout", large))
    async with face:
        wire = await face.wire()
        wire.ask("POST", path, document, headers=headers)
        async with asyncio.timeout(60):
            (first, head), *between, (last, end) = await frames_of(wire)

    (action,) = engine.actions
    assert (HEAD, {"correlation_id": action.correlation_id}) == (first, json.loads(head))
    assert (END, action.correlation_id) == (last, json.loads(end)["correlation_id"])
    assert {DATA} == {kind for kind, _ in between}
    told = [split_data(payload) for _, payload in between]
    assert [("stdout", b"a\xff"), ("stderr", b"b")] == told[:2]
    assert large == b"".join(piece for _, piece in told[2:])
    assert all(len(payload) <= MAX_DATA_BYTES + 1 for _, payload in between)


async def test_a_file_that_is_asked_for_in_frames_may_be_large(tmp_path: Path) -> None:
    face, engine = talking(tmp_path)
    async with face:
        wire = await face.wire()
        wire.ask("POST", "/v1/ssh/get", PUT, headers={"accept": MEDIA})
        async with asyncio.timeout(60):
            await frames_of(wire)

    assert [SshAsk(host="web-1", get="/srv/a", takes_large=True)] == [action.ask for action in engine.actions]


async def test_who_hangs_up_hears_no_more_and_the_action_goes_on_to_its_end(tmp_path: Path) -> None:
    face, engine = talking(tmp_path, *[("stdout", b"x" * 65_536)] * 64)
    async with face:
        wire = await face.wire()
        wire.ask("POST", "/v1/ssh/stream", ASKED)
        await wire.reader.readuntil(b"\r\n\r\n")
        wire.hang_up()
        await face.until(lambda: engine.ended)

    assert not engine.heard_out


async def test_an_unreadable_request_for_frames_is_an_envelope_and_no_frames(tmp_path: Path) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", "/v1/ssh/stream", raw=b"{", headers={"accept": MEDIA})

        assert (400, "invalid_request", "unreadable") == told_of(answer)


async def test_a_file_comes_in_frames_of_any_size(tmp_path: Path) -> None:
    raw = pack(HEAD, json.dumps(PUT).encode()) + pack(DATA, b"a\xff") + pack(DATA, b"b" * MAX_DATA_BYTES)
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", "/v1/ssh/put", raw=raw, headers=FRAMED)

        assert 200 == answer.status
        assert PutAsk(path="/srv/a", content=b"a\xff" + b"b" * MAX_DATA_BYTES) == ask_of(face).put


UPLOADS = {
    "data before the head": pack(DATA, b"x") + pack(HEAD, json.dumps(PUT).encode()),
    "two heads": pack(HEAD, json.dumps(PUT).encode()) * 2,
    "an end": pack(HEAD, json.dumps(PUT).encode()) + pack(END, b"{}"),
    "another kind": pack(HEAD, json.dumps(PUT).encode()) + b"X\0\0\0\1x",
    "half a prefix": pack(HEAD, json.dumps(PUT).encode()) + b"D\0",
    "half a frame": pack(HEAD, json.dumps(PUT).encode()) + pack(DATA, b"abc")[:-1],
    "a long frame": pack(HEAD, json.dumps(PUT).encode()) + pack(DATA, b"x" * (MAX_DATA_BYTES + 1)),
    "a long head": pack(HEAD, b" " * 65_537),
    "no json": pack(HEAD, b"{"),
}


@pytest.mark.parametrize("upload", UPLOADS)
async def test_an_upload_that_is_not_made_of_whole_frames_is_refused(tmp_path: Path, upload: str) -> None:
    async with AgentFace(tmp_path) as face:
        answer = await face.ask("POST", "/v1/ssh/put", raw=UPLOADS[upload], headers=FRAMED)

        assert (400, "invalid_request", "unreadable") == told_of(answer)
        assert all(not isinstance(action.ask, SshAsk) for action in face.engine.actions)


async def test_an_upload_over_the_limit_is_refused_and_a_head_of_another_shape_too(tmp_path: Path) -> None:
    head = pack(HEAD, json.dumps(PUT).encode())
    whole, rest = divmod(MAX_TRANSFER_BYTES + 1, MAX_DATA_BYTES)
    async with AgentFace(tmp_path) as face:
        raw = head + pack(DATA, bytes(MAX_DATA_BYTES)) * whole + pack(DATA, bytes(rest))
        assert (413, "invalid_request", "body_too_large") == told_of(
            await face.ask("POST", "/v1/ssh/put", raw=raw, headers=FRAMED)
        )
        odd = pack(HEAD, json.dumps({**PUT, "odd": 1}).encode()) + pack(DATA, b"x")
        assert (422, "invalid_request", "schema") == told_of(
            await face.ask("POST", "/v1/ssh/put", raw=odd, headers=FRAMED)
        )
