import ast
import inspect
from pathlib import Path

import pytest

import broker
from broker.core import _seal, gate
from broker.core._seal import SEAL, Seal


def test_the_seal_holds_nothing_and_takes_nothing() -> None:
    with pytest.raises(AttributeError):
        SEAL.content = 1  # type: ignore[attr-defined]  # it has no such attribute


def test_nobody_derives_a_seal() -> None:
    assert Seal.__final__  # type: ignore[attr-defined]  # set by typing.final


def test_the_gate_alone_imports_the_seal() -> None:
    importing = [
        path.relative_to(Path(broker.__file__).parent).as_posix()
        for path in Path(broker.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and node.module == _seal.__name__)
        or (isinstance(node, ast.Import) and any(name.name == _seal.__name__ for name in node.names))
        or (isinstance(node, ast.ImportFrom) and any(name.name == "_seal" for name in node.names))
    ]

    assert ["core/gate.py"] == importing


def test_the_gate_sets_the_seal_in_one_place() -> None:
    assert 1 == inspect.getsource(gate).count("seal=SEAL")
