import pytest

from broker.contract.wire import JsonValue
from broker.core.placeholders import Unfilled, filled, whole_name

ARGS: dict[str, JsonValue] = {"owner": "acme", "ids": [1, 2], "meta": {"id": 7}, "none": None}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{owner}", "acme"),
        ("{ids}", [1, 2]),
        ("{meta.id}", 7),
        ("x-{owner}-{meta.id}", "x-acme-7"),
        ("{ids} of {owner}", "[1,2] of acme"),
        ({"a": "{owner}", "b": [True, "{meta.id}"]}, {"a": "acme", "b": [True, 7]}),
        (7, 7),
        ("no placeholder {", "no placeholder {"),
    ],
)
def test_placeholders_stand_for_arguments(template: JsonValue, value: JsonValue) -> None:
    assert value == filled(template, ARGS)


@pytest.mark.parametrize("template", ["{nobody}", "x {nobody}", "{meta.no}", "{owner.id}", "{none}", ["{nobody}"]])
def test_what_the_request_has_not_is_not_filled(template: JsonValue) -> None:
    with pytest.raises(Unfilled):
        filled(template, ARGS)


def test_a_placeholder_alone_names_its_argument() -> None:
    assert ["names", "a.b", None, None] == [whole_name(text) for text in ("{names}", "{a.b}", "x{names}", "names")]
