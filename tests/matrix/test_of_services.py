"""The file of real services' cases is what their tables say, and has every one of them."""

import tomllib

from broker.matrix.cases import load
from tests.matrix.of_services import FILE, GROUPS, TESTS, text

UNSPOKEN = {"unc-012"}  # HTTP/2's GOAWAY


def test_the_file_is_what_the_tables_say() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run `python -m tests.matrix.of_services`"


def test_every_case_of_the_tables_is_in_it() -> None:
    tables = [tomllib.loads((TESTS / "cases" / f"{group}.toml").read_text(encoding="utf-8")) for group in GROUPS]
    names = [name for table in tables for name in table if name not in UNSPOKEN]

    assert sorted(names) == sorted(one.id for one in load([FILE]))
    assert len(names) >= 164
