"""Matching: each matcher by itself, paths segment by segment, and where two patterns meet."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import ApprovalRule, Effect
from broker.core.policy.match import (
    GLOBS_MAX,
    Facts,
    facts_of,
    first_mismatch,
    fits,
    globs_meet,
    may_match,
    path_fits,
    pattern_segments,
)
from broker.core.policy.model import Rule
from broker.core.policy.place import Place
from broker.core.resolve import HttpAsk, resolve
from tests.fakes.policies import SHOP, policy_of

FACTS = Facts(
    agent="claude-code",
    service="github",
    operation="issues.list",
    effect=Effect.READ,
    destructive=False,
    method="GET",
    host="api.github.com",
    segments=("repos", "Acme", "site"),
)


def rule(**parts: object) -> Rule:
    made = Rule(id="r", approval=ApprovalRule.SESSION, place=Place(file="p.toml", line=1))
    return replace(made, **parts)  # type: ignore[arg-type]  # parts of a rule, by name


def test_a_rule_about_paths_fits_nothing_that_has_none() -> None:
    assert "paths" == first_mismatch(rule(paths=("/**",)), replace(FACTS, segments=None))
    assert first_mismatch(rule(), replace(FACTS, segments=None)) is None


@pytest.mark.parametrize(
    ("parts", "failed"),
    [
        ({}, None),
        ({"agents": ("codex", "claude-*")}, None),
        ({"agents": ("codex",)}, "agents"),
        ({"services": ("git*",)}, None),
        ({"services": ("gitlab",)}, "services"),
        ({"operations": ("issues.*",)}, None),
        ({"operations": ("github.issues.list",)}, None),
        ({"operations": ("pulls.list",)}, "operations"),
        ({"effects": (Effect.WRITE, Effect.READ)}, None),
        ({"effects": (Effect.WRITE,)}, "effects"),
        ({"destructive": False}, None),
        ({"destructive": True}, "destructive"),
        ({"methods": ("GET",)}, None),
        ({"methods": ("HEAD",)}, "methods"),
        ({"paths": ("/x", "/repos/*/site")}, None),
        ({"paths": ("/repos/acme/**",)}, "paths"),
        ({"hosts": ("*.github.com",)}, None),
        ({"hosts": ("github.com",)}, "hosts"),
        ({"agents": ("x",), "hosts": ("x",)}, "agents"),
    ],
)
def test_all_matchers_have_to_hold_and_the_first_that_fails_is_named(
    parts: dict[str, object], failed: str | None
) -> None:
    assert failed == first_mismatch(rule(**parts), FACTS)


@pytest.mark.parametrize("approval", [ApprovalRule.DENY, ApprovalRule.PER_CALL])
def test_what_restrains_is_no_way_round_by_case(approval: ApprovalRule) -> None:
    assert first_mismatch(rule(approval=approval, paths=("/Repos/ACME/**",)), FACTS) is None


@pytest.mark.parametrize("approval", [ApprovalRule.NONE, ApprovalRule.SESSION])
def test_what_opens_is_matched_to_the_letter(approval: ApprovalRule) -> None:
    assert "paths" == first_mismatch(rule(approval=approval, paths=("/Repos/ACME/**",)), FACTS)


def test_running_something_counts_as_a_write() -> None:
    runs = replace(FACTS, effect=Effect.EXEC)

    assert first_mismatch(rule(effects=(Effect.WRITE,)), runs) is None
    assert first_mismatch(rule(effects=(Effect.EXEC,)), runs) is None
    assert "effects" == first_mismatch(rule(effects=(Effect.READ,)), runs)
    assert "effects" == first_mismatch(rule(effects=(Effect.EXEC,)), replace(FACTS, effect=Effect.WRITE))


def test_a_rule_may_match_where_only_the_path_is_open() -> None:
    assert may_match(rule(paths=("/elsewhere",)), FACTS)
    assert not may_match(rule(methods=("POST",), paths=("/repos/**",)), FACTS)


def test_facts_are_of_the_frozen_request_below_its_base_url() -> None:
    frozen = resolve(policy_of(SHOP), HttpAsk(service="shop", method="GET", path="/a%20b/c/"))

    facts = facts_of("codex", frozen)  # type: ignore[arg-type]  # it resolves

    assert ("codex", "shop", "GET", ("a b", "c")) == (facts.agent, facts.service, facts.operation, facts.segments)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/", "/", True),
        ("/", "/a", False),
        ("/a", "/a", True),
        ("/a", "/a/", True),
        ("/a", "/b", False),
        ("/a", "/a/b", False),
        ("/*", "/a", True),
        ("/*", "/", False),
        ("/*", "/a/b", False),
        ("/**", "/", True),
        ("/**", "/a/b/c", True),
        ("/a/**", "/a", True),
        ("/a/**", "/b", False),
        ("/a/**/z", "/a/z", True),
        ("/a/**/z", "/a/b/c/z", True),
        ("/a/**/z", "/a/z/b", False),
        ("/**/b/**/d", "/a/b/c/b/d", True),
        ("/**/b/*", "/b/b", True),
        ("/a/*/**", "/a", False),
    ],
)
def test_a_path_pattern_is_matched_by_segment(pattern: str, path: str, expected: bool) -> None:  # noqa: FBT001 - a verdict
    segments = tuple(part for part in path.split("/") if part)

    assert expected == path_fits(pattern_segments(pattern), segments)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("/usr/bin/a", "/usr/bin/a", True),
        ("/usr/bin/a", "/usr/bin/b", False),
        ("*/a", "/usr/*", True),
        ("*/a", "/usr/b", False),
        ("*", "", True),
        ("", "", True),
        ("a", "", False),
        ("a*b", "ab", True),
        ("a*b", "a*c", False),
        ("*x*", "*y*", True),
        ("a*", "b*", False),
        ("*a", "a*", True),
        ("**", "a", True),
    ],
)
def test_two_patterns_meet_where_some_text_fits_both(one: str, other: str, meet: bool) -> None:  # noqa: FBT001 - a verdict
    assert meet == globs_meet(one, other) == globs_meet(other, one)


GLOBS = st.text(alphabet="ab*", max_size=5)
SPELLED = st.text(alphabet="ab", max_size=5)


@given(GLOBS, GLOBS, SPELLED)
def test_patterns_that_fit_one_text_are_said_to_meet(one: str, other: str, text: str) -> None:
    if fits(one, text) and fits(other, text):
        assert globs_meet(one, other)


def test_patterns_that_are_too_long_to_tell_are_said_to_meet() -> None:
    assert globs_meet("a" * GLOBS_MAX, "bb")
