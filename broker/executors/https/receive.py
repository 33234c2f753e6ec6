"""What comes back: the head, and the body as it is kept, or handed on while it comes.

A body is handed on where somebody listens and the status is of a success; any other is kept within its cap. It is read
no faster than it is taken. Where nobody listens any more a read is given up, and a write is read to its end.
"""

import asyncio

from aiohttp import ClientResponse, hdrs

from broker.core.outcome import Fault, Phase
from broker.executors.https.attempt import Attempt
from broker.executors.https.content import Content, Decoder
from broker.executors.https.faults import ContentFaultError
from broker.ports import AnswerSink

SWITCHING_PROTOCOLS = 101


async def receive(
    response: ClientResponse, attempt: Attempt, *, cap_bytes: int, answer: AnswerSink | None, stop_unheard: bool
) -> None:
    """Read the answer into the attempt. Raises ContentFaultError where it can't be used, or nobody wants it."""
    attempt.answered(response.status, tuple(_header(name, value) for name, value in response.raw_headers))
    headers = response.headers
    if response.status == SWITCHING_PROTOCOLS:  # we asked for no upgrade, so what follows is not HTTP
        raise ContentFaultError(Fault.FRAMING)
    attempt.body_provable = _has_no_body(response) or _is_chunked(response) or hdrs.CONTENT_LENGTH in headers
    coding = ",".join(headers.getall(hdrs.CONTENT_ENCODING, ()))
    _end_with_connection(response)
    if answer is not None and 200 <= response.status < 300:
        await _hand_on(response, attempt, Decoder(coding), cap_bytes, answer, stop_unheard=stop_unheard)
    else:
        await _keep(response, attempt, Content(coding=coding, cap_bytes=cap_bytes))
    attempt.body_complete = True
    attempt.reach(Phase.RESPONSE_COMPLETE)


async def _keep(response: ClientResponse, attempt: Attempt, content: Content) -> None:
    try:
        while chunk := await response.content.readany():
            content.feed(chunk)
        content.finish()
    finally:
        attempt.body = content.body


async def _hand_on(
    response: ClientResponse,
    attempt: Attempt,
    decoder: Decoder,
    cap_bytes: int,
    answer: AnswerSink,
    *,
    stop_unheard: bool,
) -> None:
    kept: list[bytes] = []
    kept_bytes = 0
    attempt.handed_on_bytes = 0
    is_heard = await answer.head(response.status, attempt.headers, attempt.derived)
    while chunk := await response.content.readany():
        for piece in decoder.pieces(chunk):
            attempt.handed_on_bytes += len(piece)
            if kept_bytes <= cap_bytes:
                kept.append(piece)
                kept_bytes += len(piece)
            is_heard = await answer.body(piece)  # also where nobody listens: all of it is looked through
            if stop_unheard and not is_heard:
                raise ContentFaultError(Fault.TRUNCATED)
    decoder.finish()
    attempt.body = b"".join(kept) if kept_bytes <= cap_bytes else b""


def _end_with_connection(response: ClientResponse) -> None:
    """Wake the reader when the connection closes: after broken chunks the library leaves it waiting for ever."""
    connection = response.connection
    closed = None if connection is None or connection.protocol is None else connection.protocol.closed
    if closed is None:
        return

    def wake(ended: asyncio.Future[None]) -> None:
        if not ended.cancelled():
            ended.exception()  # it was looked at; what it says is known already
        if not response.content.is_eof() and response.content.exception() is None:
            response.content.set_exception(ContentFaultError(Fault.FRAMING))

    closed.add_done_callback(wake)


def _is_chunked(response: ClientResponse) -> bool:
    """Whether chunks delimit the body. Raises ContentFaultError on a transfer coding, for we ask for none.

    Without chunks such a body is read to the connection's end, and what was coded would pass for what was meant.
    """
    values = response.headers.getall(hdrs.TRANSFER_ENCODING, ())
    named = {name for value in values for part in value.split(",") if (name := part.strip().lower())}
    if named <= {"identity"}:
        return False
    if named != {"chunked"}:
        raise ContentFaultError(Fault.FRAMING)
    return True


def _has_no_body(response: ClientResponse) -> bool:
    return response.method == hdrs.METH_HEAD or response.status in {204, 304}


def _header(name: bytes, value: bytes) -> tuple[str, str]:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = value.decode("latin-1")
    return name.decode("latin-1").lower(), text
