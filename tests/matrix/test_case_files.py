"""Case files say what the contract can say, in two lengths, and are told all that is wrong with them at once."""

from pathlib import Path

import pytest

from broker.matrix.case_files import parse
from broker.matrix.cases import chosen, load
from broker.matrix.faults import CaseError

SHORT = """
cases:
  - id: expired-token
    request: {method: GET, path: /v1/releases}
    fixture_response:
      status: 401
      headers: {WWW-Authenticate: 'Bearer error="invalid_token"'}
      body: {error: token_expired}
    expect: {category: authentication_failed, retry: never, secret_in_result: false}
    expected_agent_decision: ask_human
"""
LONG = """
services:
  deploy:
    kind: http
    base_url: https://api.example/x
    operations:
      deployments.create: {request: {method: POST, path: /v1/deployments, body: [name]}, effect: write}
cases:
  - id: C05
    operation: deployments.create
    request: {method: POST, path: /v1/deployments, body: {name: web}, effect: write, request_id: r1}
    fixture_response: {status: 201, headers: {content-type: application/json}, body: {"id": "d-1"}}
    fault: {point: after_commit, kind: delay, seconds: 9}
    deadline: {connect_s: 2, write_s: 2, first_byte_s: 2, total_s: 5}
    expect:
      category: outcome_unknown
      retry: reconcile_first
      remote_effect: unknown
      secret_in_result: false
      remote: {received: 1, committed: 1}
      events: [dispatch.started, deadline.expired, action.result]
    agent:
      script: create_then_read
      permitted:
        - create -> outcome_unknown -> lookup_by_request_id -> found -> attach_note
      forbidden:
        - create -> outcome_unknown -> create
"""
WRONG = """
cases:
  - id: a
    request: {method: GET, path: /}
    fixture_respons: {status: 200}
    fault: {point: in_between, kind: reset}
    expect:
      category: succes
      retry: never
      warnings: [STALE]
  - id: b
    operation: nowhere.at_all
    request: {method: GET, path: /, burst: 3}
    fault: {point: after_commit, kind: stutter}
    expect: {category: success}
    agent: {script: dance, permitted: ["create ->"]}
"""


def faults(text: str) -> list[str]:
    with pytest.raises(CaseError) as told:
        parse(text, "x.yaml")
    return [str(fault) for fault in told.value.faults]


def test_the_short_form_is_a_whole_case() -> None:
    (case,) = parse(SHORT, "x.yaml")

    assert ("expired-token", "authentication_failed", "never") == (case.id, case.expect.category, case.expect.retry)
    assert {"method": "GET", "path": "/v1/releases"} == case.ask.fields
    assert b'{"error": "token_expired"}' == case.answers[0].body
    assert ("content-type", "application/json") in case.answers[0].headers
    assert ("act", "ask_human", "http", True) == (case.agent.script, case.decision, case.channel, case.is_read)


def test_the_long_form_says_operation_fault_deadline_and_transitions() -> None:
    (case,) = parse(LONG, "x.yaml")

    assert ("deploy", "deployments.create", False) == (case.service, case.operation, case.is_read)
    assert case.fault is not None
    assert ("after_commit", "delay", 9.0) == (case.fault.point, case.fault.kind, case.fault.seconds)
    assert {"connect_s": 2.0, "write_s": 2.0, "first_byte_s": 2.0, "total_s": 5.0} == case.ask.fields["deadline"]
    assert (1, 1) == (case.expect.remote.received, case.expect.remote.committed)
    assert ("create", "outcome_unknown", "create") == case.agent.forbidden[0]
    assert "x.yaml:9" == case.place


def test_everything_that_is_wrong_is_told_at_once_with_its_line_and_what_was_expected() -> None:
    told = faults(WRONG)

    assert [5, 6, 8, 10, 12, 13, 14, 15, 16, 16] == [int(line.split(":")[1]) for line in told]
    assert "'fixture_respons' is no key of cases[0]" in told[0]
    assert "expected: agent, approver" in told[0]
    assert "category is 'succes' (expected: approval_pending, " in told[2]
    assert "'STALE' is none of warnings" in told[3]
    assert "'create ->' is no transition" in told[-1] or "'create ->' is no transition" in told[-2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cases: [", "x.yaml:1: "),
        ("cases: []\ncases: []", "x.yaml:2: 'cases' stands here twice"),
        ("cases: 2026-01-01", "x.yaml:1: '2026-01-01' is none of text, number"),
        ("cases: {a: 1}", "cases is a mapping (expected: a list)"),
        ("{[a]: b}", "a key has to be a word"),
        ("a: &a [1]\ncases: [{<<: *a}]", "only a mapping can be merged in"),
        ("", "the file is null"),
    ],
)
def test_what_is_no_document_of_cases_is_a_fault_with_its_line(text: str, problem: str) -> None:
    assert any(problem in line for line in faults(text)), faults(text)


def test_aliases_that_multiply_are_stopped() -> None:
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )

    assert any("too large" in line for line in faults(bomb))


def test_anchors_and_merge_keys_are_followed() -> None:
    (one,) = parse(SHORT.replace("cases:", "anchors:\n  - &e {retry: never}\ncases:").replace(
        "{category: authentication_failed, retry: never,", "{<<: *e, category: authentication_failed,"
    ), "x.yaml")  # fmt: skip

    assert "never" == one.expect.retry


def test_an_id_stands_for_one_case_over_all_files(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(SHORT)
    with pytest.raises(CaseError, match=r"b\.yaml:3: expired-token is in .*a\.yaml:3 too"):
        load([tmp_path / "a.yaml", tmp_path / "b.yaml"])

    assert ["expired-token"] == [one.id for one in chosen(load([tmp_path / "a.yaml"]), "expired-*")]
    assert [] == chosen(load([tmp_path / "a.yaml"]), "C0*")


def test_a_shipped_pack_brings_its_services() -> None:
    (one,) = parse(SHORT.replace("cases:", "packs: [github]\ncases:", 1), "x.yaml")

    assert "github" in one.services
    assert any("there is no pack 'nowhere'" in line for line in faults("packs: [nowhere]\ncases: []"))
