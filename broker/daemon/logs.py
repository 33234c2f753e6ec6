"""The daemon's own log: JSON lines of allow-listed fields, on standard error.

What a request, an answer or a credential holds is in none of the fields. The audit log, not this one, is the record.
"""

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime

from typing_extensions import override

FIELDS = frozenset({"route", "correlation_id", "session_id", "pid", "seq", "state", "term", "path", "signal", "count"})
FRAMES_MAX = 12
MESSAGE_MAX = 200


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, allow-listed extras, and where an exception came from."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if record.name.startswith("doorward") else _bare(record.msg),
        }
        line |= {name: value for name, value in record.__dict__.items() if name in FIELDS}
        if record.exc_info and record.exc_info[1] is not None:
            line |= _fault(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True, default=str)


def _bare(message: object) -> str:
    """What a library says, without what it says it of: no arguments, and no lines below the first."""
    return str(message).partition("\n")[0][:MESSAGE_MAX]


def quiet_loop(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """The event loop's own complaints, without the objects that they are about."""
    error = context.get("exception")
    logging.getLogger("doorward.loop").error(
        "%s", _bare(context.get("message")), exc_info=error if isinstance(error, BaseException) else None
    )


def _fault(error: BaseException) -> dict[str, object]:
    """The type and the places of an exception; its text may quote a caller's data and stays out."""
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 3)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return {"error": type(error).__name__, "where": places[-FRAMES_MAX:]}


def set_up(level: str = "INFO") -> None:
    """Send everything to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("aiohttp").setLevel("ERROR")
    logging.getLogger("asyncio").setLevel("ERROR")
