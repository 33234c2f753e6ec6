"""The version is spelled twice, the same."""

import tomllib
from pathlib import Path

from broker.contract.version import VERSION


def test_the_program_and_its_package_have_one_version() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))

    assert VERSION == project["project"]["version"]
