import json

import pytest

from broker.client.envelope_lines import lines
from broker.contract.wire import JsonValue
from tests.fakes.envelopes import ID, answer, envelope


def test_a_success_reads_so() -> None:
    assert [
        "+ success (ok); retry: never; remote effect: none",
        "The answer is whole.",
        f"id: {ID}",
        "HTTP 200 application/json, 15 bytes",
        "",
        '{\n  "login": "ann"\n}',
    ] == lines(envelope(http=answer(body_json={"login": "ann"})), terminal=True)


def test_what_is_missing_comes_before_what_is_there() -> None:
    completeness: dict[str, JsonValue] = {
        "complete": False,
        "truncated": True,
        "returned": 842,
        "total": None,
        "incomplete_reasons": [
            {"code": "TIME_BUDGET_EXCEEDED", "message": "Stopped.", "limit": 10, "unit": "s", "by": "broker"},
            {"code": "MORE_PAGES_AVAILABLE", "message": "More.", "limit": None, "unit": None, "by": "provider"},
        ],
    }
    partial = envelope(
        "partial",
        code="incomplete",
        retry="bounded",
        completeness=completeness,
        http=answer(body_json=[1]),
        next={"action": "continue", "command": "doorward collect x"},
        warnings=[{"code": "STALE_INDEX", "message": "Old."}],
    )

    assert [
        "~ partial (incomplete), INCOMPLETE; retry: bounded; remote effect: none",
        "! TIME_BUDGET_EXCEEDED: Stopped. (by the broker, limit 10 s)",
        "! MORE_PAGES_AVAILABLE: More. (by the provider)",
        "! seen: 842 of an unknown number",
        "The answer is whole.",
        "! STALE_INDEX: Old.",
        "next: doorward collect x",
        f"id: {ID}",
        "HTTP 200 application/json, 15 bytes",
        "",
        "[\n  1\n]",
    ] == lines(partial, terminal=False)


def test_an_unknown_outcome_is_marked_and_names_the_way_out() -> None:
    unknown = envelope(
        "outcome_unknown",
        code="first_byte_timeout",
        remote_effect="unknown",
        retry="reconcile_first",
        message="It may exist.",
        next={"action": "reconcile", "command": f"doorward reconcile {ID}"},
        previous_correlation_id=ID,
    )

    assert [
        "? outcome_unknown (first_byte_timeout); retry: reconcile_first; remote effect: unknown",
        "It may exist.",
        f"next: doorward reconcile {ID}",
        f"id: {ID}",
        f"about: {ID}",
    ] == lines(unknown, terminal=True)


def test_a_delay_is_told() -> None:
    limited = envelope("rate_limited", code="too_many", retry="after_delay", retry_after_s=30)

    assert (
        "x rate_limited (too_many); retry: after_delay (30 s); remote effect: none" == lines(limited, terminal=True)[0]
    )


def test_a_complete_list_says_so() -> None:
    whole = envelope(completeness={"complete": True, "returned": 3, "incomplete_reasons": []})

    assert "+ success (ok), complete; retry: never; remote effect: none" == lines(whole, terminal=True)[0]


@pytest.mark.parametrize(
    ("body", "terminal", "shown"),
    [
        ({"body": "a\x1b[2J\nb"}, True, "a\\u{1b}[2J\nb"),
        ({"body": "a\x1b[2J\nb"}, False, "a\x1b[2J\nb"),
        ({"body_b64": "AAEC"}, True, "AAEC"),
        ({"body_json": {"a": "\u202e\x1b日"}}, False, '{\n  "a": "\\u202e\\u001b日"\n}'),
    ],
)
def test_bodies_are_harmless_on_a_terminal_and_whole_in_a_pipe(
    *,
    body: dict[str, JsonValue],
    terminal: bool,
    shown: str,
) -> None:
    assert shown == lines(envelope(http=answer(**body)), terminal=terminal)[-1]


def test_a_json_body_stays_the_same_document() -> None:
    value: JsonValue = {"a": "\u202e", "b": [1, 2.5, None, True], "\u200b": {}}

    assert value == json.loads(lines(envelope(http=answer(body_json=value)), terminal=True)[-1])


def test_an_answer_without_a_usable_body_shows_its_status_alone() -> None:
    assert "HTTP 200 application/json, 15 bytes" == lines(envelope(http=answer()), terminal=True)[-1]


def test_a_transfer_is_told_by_size_and_digest_and_not_as_a_command_without_a_status() -> None:
    left: dict[str, JsonValue] = {"exit_status": None, "exit_signal": None, "stdout_bytes": 0, "stderr_bytes": 0}
    moved: JsonValue = {"replaced": "yes", "size": 6, "sha256": "ab"}
    broken: JsonValue = {"replaced": "no", "size": None, "sha256": None}

    assert "SSH file: 6 bytes, sha256 ab" == lines(envelope(ssh={**left, "transfer": moved}), terminal=True)[-1]
    assert "SSH" not in "".join(lines(envelope(ssh={**left, "transfer": broken}), terminal=True))
    assert "SSH no status, 0 bytes out, 0 err" == lines(envelope(ssh=left), terminal=True)[-1]


def test_no_field_of_an_envelope_reaches_the_terminal_raw() -> None:
    hostile = "x\n\x1b]0;title\x07\u202e"
    spoiled = envelope(
        hostile,
        code=hostile,
        retry=hostile,
        remote_effect=hostile,
        message=hostile,
        correlation_id=hostile,
        previous_correlation_id=hostile,
        next={"command": hostile},
        warnings=[{"code": hostile, "message": hostile}],
        completeness={
            "complete": False,
            "returned": hostile,
            "total": hostile,
            "incomplete_reasons": [
                {"code": hostile, "message": hostile, "limit": hostile, "unit": hostile, "by": hostile}
            ],
        },
        http=answer(status=hostile, media_type=hostile, body_bytes=hostile, body_b64=hostile),
    )

    for line in lines(spoiled, terminal=True):
        assert line.isprintable()
        assert "\u202e" not in line
