"""Known damage as JSON and back; whatever else is refused."""

import pytest

from broker.contract.wire import JsonObject, JsonValue
from broker.core.damage import KnownDamage

WHOLE: JsonObject = {
    "verdict": "GAP",
    "segment": "00000002.seg",
    "offset": 0,
    "seq": 9,
    "files": [[3, 100], [4, 0]],
    "sha256": "a" * 64,
    "resumed": 4,
    "at_ms": 1,
}
NOWHERE: JsonObject = {**WHOLE, "segment": None, "offset": None, "seq": None, "files": []}


@pytest.mark.parametrize("value", [WHOLE, NOWHERE])
def test_it_reads_what_it_writes(value: JsonObject) -> None:
    assert value == KnownDamage.from_json(value).to_json()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("verdict", 1),
        ("segment", 1),
        ("offset", "0"),
        ("seq", -1),
        ("files", None),
        ("files", [[1]]),
        ("files", [1]),
        ("files", [[1, True]]),
        ("sha256", None),
        ("resumed", None),
        ("more", 1),
    ],
)
def test_anything_else_is_refused(name: str, value: JsonValue) -> None:
    with pytest.raises(ValueError, match=r"form|exactly"):
        KnownDamage.from_json({**WHOLE, name: value})
