from broker.cli.output import table


def test_columns_are_aligned_by_what_they_take_on_a_terminal() -> None:
    assert ["Name  N  Last", "日本  1  -", "a     2  yes"] == table(
        ("Name", "N", "Last"), [("日本", 1, None), ("a", 2, True)]
    )


def test_cells_of_others_are_neutralised() -> None:
    assert ["A             B", "x\\u{1b}, y\\n  no"] == table(("A", "B"), [(["x\x1b", "y\n"], False)])
