"""Predicates: what compiles, what is refused and why, and that no answer can make one lie or linger."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract.wire import JsonValue
from broker.core.predicate import (
    MAX_ANSWER_CHARACTERS,
    Predicate,
    PredicateError,
    answer_view,
    argument_names,
    compile_predicate,
    compile_selection,
    holds,
    selected,
)
from broker.core.predicate_traps import ENDING

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=6,
)


def view(**parts: JsonValue) -> dict[str, JsonValue]:
    return {"status": 200, "headers": {}, "json": None, "text": None, "xml": None, **parts}


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("status==`404`", view(status=404), True),
        ("status==`404`", view(), False),
        ("starts_with(headers.\"x-sso\" || '', 'required')", view(headers={"x-sso": "required; url=x"}), True),
        ("starts_with(headers.\"x-sso\" || '', 'required')", view(), False),
        ("!(json.errors==`null`)", view(json={"errors": []}), True),
        ("!contains(text || '', 'fatal')", view(text="all well"), True),
        ("json.items[?state=='open'].id == `[1, 2]`", view(json={"items": [{"state": "open", "id": 1}]}), False),
        (
            "contains(join(',', to_array(headers.link || '')), 'rel=\"next\"')",
            view(headers={"link": ["a", 'rel="next"']}),
            True,
        ),
        ("json.total > `1000`", view(json={"total": 1001}), True),
        ("json.total > `1000`", view(json={}), False),
        ("`true`", view(), True),
        ("json.a == 'it`s'", view(json={"a": "it`s"}), True),
        ("length(json || `[]`) == `2` || status == `204`", view(json=[1, 2]), True),
        ("json | @.a == 'x'", view(json={"a": "x"}), None),
        ("length(sort_by(json || `[]`, &id)) > `0`", view(json=[{"id": 2}, {"id": 1}]), True),
        ("merge(json || `{}`, `{}`) == `{}`", view(), True),
        ("not_null(json.a, json.b) == 'b'", view(json={"b": "b"}), True),
    ],
)
def test_a_predicate_says_whether_an_answer_fits(
    text: str,
    answer: dict[str, JsonValue],
    expected: bool | None,  # noqa: FBT001 - a verdict
) -> None:
    if expected is None:
        with pytest.raises(PredicateError):
            compile_predicate(text)
    else:
        assert expected is holds(compile_predicate(text), answer)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("!json.errors", "write !(...) around the whole"),
        ("!json.a == 'x'", "write !(...) around the whole"),
        ("!json", "no test of presence"),
        ("json.items", "no test of presence"),
        ("`1`", "no test of presence"),
        ("status == `200` && json.id", "no test of presence"),
        ("status == `200` || json.id", "no test of presence"),
        ("json[?draft].id == `[1]`", "no test of presence"),
        ("length(json || `[]`)", "length() answers neither yes nor no"),
        ("length(json.items) > `0`", "length() raises on what is missing; give a default, as in x || ''"),
        ("contains(headers.link, 'x')", "raises on what is missing"),
        ("abs(json.n) > `0`", "as in x || `0`"),
        ("length(keys(json.n)) > `0`", "as in x || `{}`"),
        ("keys(json.n) == `[]`", "as in x || `{}`"),
        ("contains(json.a || json.b, 'x')", "raises on what is missing"),
        ("contains(`null`, 'x')", "raises on what is missing"),
        ("max(json.n) == `1`", "as in x || `[]`"),
        ("satus == `1`", "a predicate sees status, headers, json, text"),
        ("json.a == yaml", "a predicate sees"),
        ('headers."Retry-After" != `null`', "header names are lower-case"),
        ("status == `foo`", "between back-ticks stands JSON"),
        ('status == `{"a": 1, "a": 2}`', "between back-ticks stands JSON"),
        ("nosuch(json) == `1`", "no function nosuch()"),
        ("contains('a') == `true`", "contains() takes 2 arguments"),
        ("type() == 'x'", "type() takes 1 argument"),
        ("type(json, json) == 'x'", "type() takes 1 argument"),
        ("not_null() == 'x'", "not_null() takes 1 argument"),
        ("join(json.s || '', `[]`) == ''", "the separator of join() is written out"),
        ("sort_by(json || `[]`, id) == `[]`", "takes an expression such as &name"),
        ("[status] == `[200]`", "can't be built in a predicate"),
        ("{a: status} == `{}`", "can't be built in a predicate"),
        ("!(json.a > `1`)", "turn the comparison round"),
        ("!(status == `1` || !(json.a <= `1`))", "turn the comparison round"),
        ("status ==", "not JMESPath: look at character"),
        ("status == 'a", "not JMESPath"),
        ("(((", "not JMESPath"),
        ("json[99999999999999999999999999999", "not JMESPath"),
        ("status == `1` status", "not JMESPath"),
        ("$name == json.a", "$name stands for no argument"),
        ("$ == json.a", "stands for no argument"),
        ("x" * 5000, "longer than 4096 characters"),
        (".".join(["json", *("a" for _ in range(3))]) + " == " + "(" * 600 + "`1`" + ")" * 600, "nested too deeply"),
        (" || ".join(["status == `1`"] * 100), "nested too deeply"),
    ],
)
def test_a_trap_is_refused_with_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(PredicateError) as caught:
        compile_predicate(text)

    assert reason in str(caught.value)


def test_an_overlong_text_is_refused_however_it_came() -> None:
    with pytest.raises(PredicateError, match="longer than"):
        Predicate("status == `1`" + " " * 70_000)


@pytest.mark.parametrize(
    "hostile",
    [
        view(text="x" * (MAX_ANSWER_CHARACTERS + 1)),
        view(json=["x" * 600_000] * 4),
        view(json=list(range(200_000))),
        view(json=json.loads("[" * 70 + "]" * 70)),
        view(json=[{"a": "b"}] * 30_000),
        view(json="text, and no list"),
    ],
)
def test_an_answer_over_the_bounds_or_of_another_kind_is_unverified(hostile: dict[str, JsonValue]) -> None:
    counting = compile_predicate("length(json[?a=='x'] || `[]`) == `0` && contains(json || `[]`, 'x') == `false`")

    started = time.thread_time()
    verdict = holds(counting, hostile)

    assert verdict is not True
    assert time.thread_time() - started < 0.5


def test_depth_64_is_still_looked_at() -> None:
    nested: JsonValue = json.loads("[" * 64 + "]" * 64)

    assert holds(compile_predicate("type(json)=='array'"), view(json=nested)) is True


def test_what_raises_is_neither_true_nor_false() -> None:
    predicate = compile_predicate("!starts_with(headers.a || '', 'x')")

    assert holds(predicate, view(headers={"a": ["one", "two"]})) is None


def test_a_predicate_that_selects_answers_neither_yes_nor_no() -> None:
    assert holds(compile_selection("json[?a=='x']"), view(json=[])) is None


def test_a_selection_picks_the_objects_of_the_answer() -> None:
    selection = compile_selection("json[?title==$title && pull_request==`null`]", {"title": "it's `here`"})

    answer = view(
        json=[{"title": "it's `here`", "n": 1}, {"title": "other"}, {"title": "it's `here`", "pull_request": {}}]
    )

    assert ({"title": "it's `here`", "n": 1},) == selected(selection, answer)


def test_a_selection_on_an_answer_without_the_list_can_not_be_told() -> None:
    assert selected(compile_selection("json.items[?a=='x']"), view(json={})) is None


def test_a_bare_presence_test_is_a_trap_within_a_selection_too() -> None:
    with pytest.raises(PredicateError, match="no test of presence"):
        compile_selection("json[?draft]")


@given(JSON)
def test_a_bound_value_is_compared_as_itself_whatever_it_holds(value: JsonValue) -> None:
    bound = compile_predicate("json.given == $given", {"given": value})

    assert holds(bound, view(json={"given": value})) is (value is None or value == value)  # noqa: PLR0124 - says that it holds


@given(st.text())
def test_a_bound_text_can_not_leave_its_literal(value: str) -> None:
    bound = compile_predicate("status == `500` && json.a == $name", {"name": value})

    assert holds(bound, view(json={"a": value})) is False
    assert holds(bound, view(json={"a": value + "x"})) is False


@pytest.mark.parametrize("value", ["` || `true`", "' || 'a'=='a", '" || "', "\\", "`", "\\`", "\\u0060", "$other"])
def test_known_ways_out_of_a_literal_lead_nowhere(value: str) -> None:
    bound = compile_predicate("json.a == $name", {"name": value})

    assert holds(bound, view(json={"a": "innocent"})) is False
    assert holds(bound, view(json={"a": value})) is True


def test_a_dollar_within_quotes_is_text() -> None:
    predicate = compile_predicate("json.a == '$name'", {"name": "x"})

    assert holds(predicate, view(json={"a": "$name"})) is True
    assert frozenset({"b"}) == argument_names('json.a == \'$a\' && json."$c" == $b && json.d == `"$d"`')


@pytest.mark.parametrize("value", [float("inf"), float("nan"), {1, 2}])
def test_a_value_without_a_json_spelling_is_not_bound(value: JsonValue) -> None:
    with pytest.raises(PredicateError, match="no JSON spelling"):
        compile_predicate("json.a == $a", {"a": value})


def test_the_message_of_a_refusal_holds_no_bound_value() -> None:
    with pytest.raises(PredicateError) as caught:
        compile_predicate("json.a ==== $a", {"a": "canary-value"})

    assert "canary-value" not in str(caught.value)


@settings(max_examples=300)
@given(st.text(alphabet="status.json[]?*&|!=<>@`'\"\\(){},:-$a1 ", max_size=30) | st.text(max_size=20))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    try:
        predicate = compile_selection(text)
    except PredicateError:
        return
    selected(predicate, view(json={"a": [1]}))


def test_two_predicates_of_one_text_are_equal() -> None:
    assert compile_predicate("status==`1`") == Predicate("status==`1`")
    assert compile_predicate("status==`1`") != compile_selection("status==`1`")
    assert "status" in repr(compile_predicate("status==`1`"))


def test_a_view_folds_header_names_and_lists_repeated_ones() -> None:
    made = answer_view(status=200, headers=[("Link", "a"), ("LINK", "b"), ("ETag", "c")], json=[1], text="[1]")

    assert {
        "status": 200,
        "headers": {"link": ["a", "b"], "etag": "c"},
        "json": [1],
        "text": "[1]",
        "xml": None,
    } == made


def test_a_command_s_end_is_seen_by_names_of_its_own() -> None:
    lock = compile_predicate("exit_code==`100` && contains(stderr || '', 'lock')", sees=ENDING)

    assert holds(lock, {"exit_code": 100, "stdout": "", "stderr": "no lock"}) is True
    assert holds(lock, {"exit_code": 100, "stdout": "", "stderr": ""}) is False
    with pytest.raises(PredicateError, match="exit_code, stdout, stderr, and nothing of another name"):
        compile_predicate("status==`404`", sees=ENDING)
    with pytest.raises(PredicateError, match="status, headers, json, text, xml, and nothing of another name"):
        compile_predicate("exit_code==`0`")
