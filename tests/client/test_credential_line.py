"""The line that adds a credential: the policy's words alone, as a shell takes them."""

import shlex

import pytest

from broker.client.credential_line import command, is_want, origin_of, origins_of


@pytest.mark.parametrize(
    ("place", "origin"),
    [
        ("https://api.github.com/v3", "https://api.github.com"),
        ("https://api.github.com:8443/a/b", "https://api.github.com:8443"),
        ("ssh://deploy@web-1.example:22", "ssh://deploy@web-1.example:22"),
        ("https://[half", "https://[half"),
    ],
)
def test_a_credential_is_bound_to_the_origin_of_its_service(place: str, origin: str) -> None:
    assert origin == origin_of(place)


def test_two_places_of_one_origin_are_named_once() -> None:
    assert ("https://a.example", "https://b.example") == origins_of(
        ["https://a.example/x", "https://b.example", "https://a.example/y"]
    )


def test_the_line_is_what_a_shell_takes_for_these_words() -> None:
    line = command("a b", ["https://a.example", "https://b.example"], is_ssh=False)

    wanted = ["doorward", "credential", "add", "a b", "--kind", "bearer"]
    assert [*wanted, "--origin", "https://a.example", "--origin", "https://b.example"] == shlex.split(line)
    assert "--kind ssh-key" in command("key", [], is_ssh=True)


def test_nothing_in_it_acts_on_a_terminal() -> None:
    assert "\x1b" not in command("a\x1b[2J", [], is_ssh=False)


@pytest.mark.parametrize(("name", "expected"), [("cr_1", True), ("ap_1", False), ("", False), (None, False)])
def test_wants_are_known_by_their_ids(name: str | None, expected: bool) -> None:  # noqa: FBT001 - of a table
    assert expected is is_want(name)
