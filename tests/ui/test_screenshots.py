"""The pictures in the documentation show what the interface draws today."""

from xml.etree import ElementTree as ET

import pytest

from tests.ui.screenshots import FOLDER, PICTURES

pytestmark = pytest.mark.usefixtures("in_utc")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_the_interface_draws_it(name: str) -> None:
    """If not: `python -m tests.ui.screenshots`, and look at it."""
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == PICTURES[name]()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_well_formed_and_loads_nothing_from_elsewhere(name: str) -> None:
    tree = ET.fromstring(PICTURES[name]())  # noqa: S314 - our own text
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    words = " ".join(element.text or "" for element in tree.iter())

    assert {"svg", "rect", "g", "text", "line"} == tags
    assert not {key for element in tree.iter() for key in element.attrib if "href" in key or key.startswith("on")}
    assert "INCOMPLETE:" in words
