"""Path templates: what they accept, what fits them, and that arguments stay in their segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.policy.template import TemplateError, arguments_in, path_with, template_of
from broker.core.urls import UrlError, canonical_url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a/b", "begins with a slash"),
        ("", "begins with a slash"),
        ("/a/{x}.json", "fills a whole segment"),
        ("/a/{X}", "fills a whole segment"),
        ("/a/{x", "fills a whole segment"),
        ("/{x...}/a", "stands at the end alone"),
        ("/{x}/{x}", "stands twice"),
        ("/a//b", "plain ASCII"),
        ("/a b", "plain ASCII"),
        ("/a?b", "plain ASCII"),
        ("/a*", "plain ASCII"),
        ("/a%20", "plain ASCII"),
        ("/\u00e9", "plain ASCII"),
        ("/a/../b", "dot segment"),
        ("/%2e", "hides"),
    ],
)
def test_a_template_that_could_mean_two_things_is_refused(text: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        template_of(text)

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("template", "path", "found"),
    [
        ("/", "/", {}),
        ("/", "/a", None),
        ("/a/{x}", "/a/b%20c", {"x": "b c"}),
        ("/a/{x}", "/a", None),
        ("/a/{x}", "/a/b/c", None),
        ("/a/{x}", "/b/c", None),
        ("/a/{x}", "/a/b/", None),
        ("/a/{x}/", "/a/b/", {"x": "b"}),
        ("/a/{x}/", "/a/b", None),
        ("/a/{x...}", "/a/b/c%20d", {"x": "b/c d"}),
        ("/a/{x...}", "/a", None),
        ("/{x...}", "/a", {"x": "a"}),
    ],
)
def test_a_path_fits_a_template_or_it_does_not(template: str, path: str, found: dict[str, str] | None) -> None:
    assert found == arguments_in(template_of(template), path)


def test_more_literals_and_earlier_ones_rank_first() -> None:
    texts = ["/a/b/c", "/a/b/{x}", "/a/{x}/c", "/{x}/b/c", "/a/{x}/{y}", "/a/{x...}", "/{x}"]

    assert sorted(texts, key=lambda text: template_of(text).rank) == texts


def test_two_templates_that_the_same_paths_fit_have_one_shape() -> None:
    assert template_of("/a/{x}").shape == template_of("/a/{y}").shape
    assert template_of("/a/{x}").shape != template_of("/a/{x...}").shape
    assert template_of("/a/{x}").shape != template_of("/a/{x}/").shape
    assert template_of("/a/b").shape != template_of("/a/{b}").shape


def test_a_template_reads_as_a_pattern_of_rules() -> None:
    assert ("a", "*", "b", "*", "**") == template_of("/a/{x}/b/{y...}").pattern


@given(st.text(max_size=8), st.text(max_size=12))
def test_what_arguments_spell_is_read_back_as_the_same_arguments(one: str, rest: str) -> None:
    template = template_of("/a/{one}/b/{rest...}")
    try:
        path = path_with(template, {"one": one, "rest": rest})
        canonical = canonical_url(f"https://h{path}").path
    except (TemplateError, UrlError):
        return
    assert {"one": one, "rest": rest} == arguments_in(template, canonical)
