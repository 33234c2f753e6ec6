"""XML becomes a plain tree, or nothing."""

import pytest

from broker.core.xml_tree import MAX_CHARACTERS, MAX_DEPTH, MAX_ELEMENTS, XmlError, tree_of


def test_a_document_becomes_a_tree_of_names() -> None:
    text = '<?xml version="1.0"?>\n\n<E xmlns="urn:x" a="1"><Code>Slow</Code><x/><x>t</x><x>u</x>tail &amp; </E>'

    assert {"E": {"@a": "1", "Code": "Slow", "x": ["", "t", "u"], "#text": "tail & "}} == tree_of(text)
    assert {"m": {"status": "HTTP/1.1 423 Locked"}} == tree_of(
        "<m><D:status xmlns:D='DAV:'>HTTP/1.1 423 Locked</D:status></m>"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "<a>",
        '<?xml version="1.0"?>   ',
        "<a/><b/>",
        "<a>&e;</a>",
        "<a \ud800/>",
        "<a>" * (MAX_DEPTH + 1) + "</a>" * (MAX_DEPTH + 1),
        f"<a>{'<b/>' * MAX_ELEMENTS}</a>",
        f"<a>{'x' * MAX_CHARACTERS}</a>",
    ],
)
def test_what_is_no_document_or_beyond_the_bounds_has_no_tree(text: str) -> None:
    with pytest.raises(XmlError):
        tree_of(text)


@pytest.mark.parametrize(
    "declared",
    [
        "<!DOCTYPE a>",
        '<!DOCTYPE a [<!ENTITY e "x">]>',
        '<!DOCTYPE a [<!ENTITY a0 "x"><!ENTITY a1 "&a0;&a0;&a0;">]>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://192.0.2.1/x.dtd"> %p;]>',
    ],
)
def test_a_document_type_is_never_read(declared: str) -> None:
    with pytest.raises(XmlError, match="declares a document type"):
        tree_of(f"{declared}<a>&e;</a>")


def test_the_encoding_is_ours_and_not_the_documents() -> None:
    assert {"a": "é"} == tree_of('<?xml version="1.0" encoding="utf-16"?><a>é</a>')
