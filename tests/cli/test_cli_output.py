import fcntl
import json
import os
import struct
import termios

import pytest

from broker.cli.output import folded, on, show, table


def test_columns_are_aligned_by_what_they_take_on_a_terminal() -> None:
    assert ["Name  N  Last", "日本  1  -", "a     2  yes"] == table(
        ("Name", "N", "Last"), [("日本", 1, None), ("a", 2, True)]
    )


def test_cells_of_others_are_neutralised() -> None:
    assert ["A             B", "x\\u{1b}, y\\n  no"] == table(("A", "B"), [(["x\x1b", "y\n"], False)])


def test_file_names_that_are_no_utf8_are_spelled_out_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    name = b"/home/\xff.kept".decode("utf-8", "surrogateescape")
    show({"kept": [{"target": name}], "size": 3, "none": None}, [], as_json=True)
    assert {"kept": [{"target": "/home/\\udcff.kept"}], "size": 3, "none": None} == json.loads(capsys.readouterr().out)


def test_what_goes_on_after_a_fold_stands_deeper_and_no_word_is_broken() -> None:
    lines = ["! loosens: any READ shop orders.list", "  added: shop.toml", "short", "sha256:" + "0" * 40]
    told = ["! loosens: any READ", "    shop orders.list", "  added: shop.toml", "short", "sha256:" + "0" * 40]

    assert told == folded(lines, 20)


def test_only_a_terminal_has_lines_folded() -> None:
    reading, writing = os.pipe()
    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 10, 0, 0))
    with os.fdopen(writing, "w") as pipe, os.fdopen(terminal, "w") as screen:
        told = on(pipe, ["one two three"]), on(screen, ["one two three"])
    os.close(reading)
    os.close(controller)

    assert ("one two three", "one two\n    three") == told
