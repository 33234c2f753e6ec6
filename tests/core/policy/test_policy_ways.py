"""Ways: each set of patterns that fit a path together has an example, and it is said where some may be missing."""

from hypothesis import given
from hypothesis import strategies as st

from broker.core.policy import ways as ways_module
from broker.core.policy.match import path_fits
from broker.core.policy.ways import FRESH, FRESH_OPTION, Shape, explored
from broker.core.ssh.commands import words_fit

ANY = Shape(tokens=("**",))


def ways(*patterns: str, subject: str = "**", folded: bool = False) -> set[str]:
    shapes = frozenset(Shape(tokens=tuple(text.split("/")), folded=folded) for text in patterns)
    found = explored(Shape(tokens=tuple(subject.split("/"))), shapes)
    assert found.whole
    return {"/".join(way).replace(FRESH, "?") for way in found.ways}


def test_where_two_patterns_meet_is_found_as_well_as_where_each_stands_alone() -> None:
    assert {"?/?/?", "?/b", "a/?", "a/b"} == ways("a/*", "*/b")


def test_a_pattern_for_any_number_is_told_from_the_path_that_it_begins_with() -> None:
    assert {"?/?/?", "a", "a/?"} == ways("a", "a/**")


def test_only_paths_of_the_subject_are_examples() -> None:
    assert {"a/?", "a/b"} == ways("a/b", "c/**", subject="a/*")
    assert {"a"} == ways("a/b", subject="a")


def test_what_is_compared_without_regard_to_case_is_told_from_what_is_not() -> None:
    shapes = frozenset({Shape(tokens=("admin",), folded=True), Shape(tokens=("admin",))})

    assert {(FRESH, FRESH), ("admin",), ("ADMIN",)} == set(explored(ANY, shapes).ways)


def test_the_first_way_is_one_that_no_pattern_names() -> None:
    assert FRESH == explored(ANY, frozenset({Shape(tokens=("a",))})).ways[0][0]
    assert ("run", FRESH_OPTION, FRESH) == explored(Shape(tokens=("run", "-*", "*"), options=False), frozenset()).ways[
        0
    ]


def test_words_that_begin_with_a_dash_are_told_apart() -> None:
    shapes = frozenset({Shape(tokens=("ls", "*"), options=False), Shape(tokens=("ls", "-l"))})

    assert {("ls", FRESH), ("ls", "-l")} == {way for way in explored(ANY, shapes).ways if way[0] == "ls"}
    declared = explored(Shape(tokens=("ls", "*"), options=False), shapes)
    assert (("ls", FRESH),) == declared.ways


def test_what_takes_too_long_is_said_not_to_be_whole() -> None:
    shapes = frozenset(Shape(tokens=("**", chr(97 + number), "**")) for number in range(26))
    found = explored(ANY, shapes)

    assert not found.whole
    assert ways_module.WAYS_MAX >= len(found.ways) - 1


PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=4).map(tuple)
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=5).map(tuple)


@given(PATTERNS, st.frozensets(PATTERNS, max_size=4), PATHS)
def test_no_set_of_patterns_that_fits_a_path_is_without_an_example(
    subject: tuple[str, ...], patterns: frozenset[tuple[str, ...]], path: tuple[str, ...]
) -> None:
    found = explored(Shape(tokens=subject), frozenset(Shape(tokens=pattern) for pattern in patterns))
    fitting = {frozenset(one for one in patterns if path_fits(one, way)) for way in found.ways}

    assert found.whole
    assert all(path_fits(subject, way) for way in found.ways)
    if path_fits(subject, path):
        assert frozenset(one for one in patterns if path_fits(one, path)) in fitting


WORDS = st.lists(st.sampled_from(["a", "-b", "*"]), min_size=1, max_size=3).map(tuple)
COMMANDS = st.lists(st.sampled_from(["a", "-b", "c", "-d"]), min_size=1, max_size=4).map(tuple)


@given(st.frozensets(st.tuples(WORDS, st.booleans(), st.booleans()), max_size=3), COMMANDS)
def test_no_set_of_command_patterns_is_without_an_example(
    drawn: frozenset[tuple[tuple[str, ...], bool, bool]], command: tuple[str, ...]
) -> None:
    shapes = frozenset(
        Shape(tokens=(*words, "**") if goes_on else words, options=options) for words, goes_on, options in drawn
    )

    def fitting(words: tuple[str, ...]) -> frozenset[Shape]:
        return frozenset(shape for shape in shapes if words_fit(shape.tokens, words, options=shape.options))

    assert fitting(command) in {fitting(way) for way in explored(ANY, shapes).ways}
