import json

import pytest

from broker.cli.output import show, table


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
