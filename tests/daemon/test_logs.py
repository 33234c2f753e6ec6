"""The daemon's own log: JSON lines, fields from a list, no text of anybody else's."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from broker.daemon import logs
from broker.daemon.logs import FIELDS, JsonLines, quiet_loop, set_up


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    logger = logging.getLogger("doorward.test")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel("DEBUG")
    yield logger
    logger.removeHandler(handler)


def lines(logger: logging.Logger) -> list[Any]:
    handler = logger.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    return [json.loads(line) for line in handler.stream.getvalue().splitlines()]


def test_a_line_holds_its_message_and_fields_from_the_list_alone(log: logging.Logger) -> None:
    log.warning("an action %s", "ended", extra={"correlation_id": "op_1", "token": "canary", "count": 2})

    (line,) = lines(log)
    assert {"at", "level", "logger", "message", "correlation_id", "count"} == set(line)
    assert ("warning", "an action ended", 2) == (line["level"], line["message"], line["count"])
    assert {"token", "body", "url"}.isdisjoint(FIELDS)


def test_of_an_exception_its_kind_and_places_are_told_and_never_its_words(log: logging.Logger) -> None:
    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise ValueError("canary-of-a-caller")

    try:
        deep(30)
    except ValueError:
        log.exception("it failed")

    (line,) = lines(log)
    assert "ValueError" == line["error"]
    assert logs.FRAMES_MAX == len(line["where"])
    assert line["where"][-1].endswith(" deep")
    assert "canary" not in json.dumps(line)


def test_of_what_a_library_says_neither_arguments_nor_details_are_told() -> None:
    record = logging.LogRecord("aiohttp", 40, "x", 1, "it broke: %s\ncanary-detail", ("canary-argument",), None)
    told = JsonLines().format(record)

    assert "it broke: %s" == json.loads(told)["message"]
    assert "canary" not in told
    assert 200 == len(
        json.loads(JsonLines().format(logging.LogRecord("x", 40, "x", 1, "y" * 999, (), None)))["message"]
    )


def test_the_loops_own_complaints_name_no_objects(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    quiet_loop(loop, {"message": "lost\ncanary", "exception": KeyError("canary"), "future": "canary"})
    quiet_loop(loop, {"message": "odd", "exception": None})
    loop.close()

    assert ["lost", "odd"] == [record.getMessage() for record in caplog.records]
    assert "canary" not in JsonLines().format(caplog.records[0])


def test_everything_goes_to_standard_error_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        set_up("WARNING")
        logging.getLogger("doorward.daemon").info("not told")
        logging.getLogger("doorward.daemon").warning("told")
    finally:
        root.handlers[:] = before
        root.setLevel(level)

    assert ["told"] == [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
