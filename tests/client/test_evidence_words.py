from typing import Any

import pytest

from broker.client import card_words as words
from broker.client import evidence_words
from broker.client.card import Card, parse_card
from broker.client.card_text import card_lines
from broker.client.faults import Broken
from broker.contract.wire import JsonValue
from tests.fakes.cards import NOW_MS, gap_evidence, gap_sample, proven_evidence, sample


def card(evidence: JsonValue) -> Card:
    return parse_card(gap_sample(evidence=evidence))


def said(evidence: JsonValue) -> list[str]:
    return evidence_words.sentences(card(evidence).evidence, NOW_MS)


def targets(evidence: JsonValue) -> list[str]:
    return evidence_words.targets(card(evidence).evidence)


def test_a_cut_collection_says_how_much_was_seen_why_and_who_cut_it() -> None:
    assert [
        "! INCOMPLETE: 842 seen of an unknown number",
        "TIME_BUDGET_EXCEEDED after 10 s, by the provider",
        "accounts.list, 4 min old, resumable",
    ] == said(gap_evidence())


def test_targets_without_proof_come_first_and_absence_of_proof_is_no_proof_of_absence() -> None:
    assert [
        "2 of 3 proven to exist as asked:",
        "! svc-build-7    not among the 842",
        "+ ci-legacy-2    + ci-legacy-5",
        "Not seen does not mean not there.",
    ] == targets(gap_evidence())


def test_what_is_proven_says_what_it_leans_on_and_what_is_looked_at_again() -> None:
    assert [
        "+ complete: releases.list, 31 of 31, 2 min old",
        "+ 1290 is in it.",
        "Looked at again just before:",
        "releases.get must still say json.draft==`true`",
    ] == said(proven_evidence())
    assert [] == targets(proven_evidence())


def test_several_targets_and_absent_ones_are_counted() -> None:
    assert "+ all 2 targets are in it." == said(proven_evidence(proven=["1", "2"]))[1]
    assert "+ 1290 is not in it." == said(proven_evidence(claim="absent"))[1]
    assert "+ all 2 targets are not in it." == said(proven_evidence(claim="absent", proven=["1", "2"]))[1]


@pytest.mark.parametrize(
    ("state", "first", "target"),
    [
        ("stale", "! STALE: 4 min old, the rule takes 15 min", "! svc-build-7    nothing to look it up in"),
        ("other_arguments", "! COLLECTED WITH OTHER ARGUMENTS", "! svc-build-7    nothing to look it up in"),
        ("refused_warning", "! CAME WITH A WARNING: not told", "! svc-build-7    not among the 842"),
        (
            "target_not_covered",
            "! NOT ALL TARGETS ARE PROVEN: 842 of an unknown number",
            "! svc-build-7    not among the 842",
        ),
        ("target_present", "! A TARGET IS PRESENT that must be absent", "! svc-build-7    not among the 842"),
        ("none_recorded", "! NONE RECORDED that was named for this", "! svc-build-7    nothing to look it up in"),
    ],
)
def test_every_reason_is_said_in_words(state: str, first: str, target: str) -> None:
    assert first == said(gap_evidence(state))[0]
    assert target in targets(gap_evidence(state))


def test_without_any_record_it_is_said_that_there_is_none() -> None:
    evidence = gap_evidence("none_recorded", record=None, proven=[])

    assert ["! NONE RECORDED of accounts.list for this session"] == said(evidence)
    assert "! svc-build-7    nothing to look it up in" in targets(evidence)


def test_a_state_that_is_not_known_is_never_shown_as_in_order() -> None:
    assert "! odd\\u{1b}" == said(gap_evidence("odd\x1b"))[0]
    assert [evidence_words.NONE_NEEDED] == evidence_words.sentences(parse_card(sample()).evidence, NOW_MS)


def test_targets_and_warnings_of_others_are_neutralised() -> None:
    evidence: Any = gap_evidence("refused_warning", unproven=["x\u202ey"])
    evidence["items"][0]["record"]["warnings"] = ["STALE\x1b[2J"]

    assert "! CAME WITH A WARNING: STALE\\u{1b}[2J" == said(evidence)[0]
    assert any("x\\u{202e}y" in line for line in targets(evidence))


def test_absent_targets_that_are_open_are_not_said_to_be_there() -> None:
    lines = targets(gap_evidence("target_present", claim="absent"))

    assert ["2 of 3 proven to be absent as asked:", "! svc-build-7    not proven absent"] == lines[:2]
    assert "Not seen does not mean not there." not in lines


def test_a_request_without_targets_says_so() -> None:
    assert ["! the request names no target that could be proven"] == targets(gap_evidence(proven=[], unproven=[]))


def test_many_proven_targets_are_counted_and_none_without_proof_is_left_out() -> None:
    lines = targets(gap_evidence(proven=[f"p{at}" for at in range(30)], unproven=[f"u{at}" for at in range(30)]))

    assert 30 == sum(line.startswith("! u") for line in lines)
    assert any(line.endswith("+ 10 more") for line in lines)


def test_reasons_without_a_bound_or_a_name_are_told_as_far_as_they_go() -> None:
    evidence: Any = gap_evidence()
    record = evidence["items"][0]["record"]
    record["reasons"] = [
        {"code": "RESULT_LIMIT_REACHED", "message": "", "limit": 1000, "unit": "items", "by": "broker"},
        {"code": "COMPLETENESS_UNVERIFIED", "message": "", "limit": None, "unit": None, "by": None},
    ]
    record["total"], record["resumable"] = 2000, False

    assert [
        "! INCOMPLETE: 842 seen of 2,000",
        "RESULT_LIMIT_REACHED at 1000 items, by the broker",
        "COMPLETENESS_UNVERIFIED",
        "accounts.list, 4 min old",
    ] == said(evidence)
    record["reasons"] = []
    assert "why is not told" == said(evidence)[1]


def test_the_other_ways_say_what_they_cover_where_they_are_offered() -> None:
    offered = card(gap_evidence()).evidence

    assert "reading on for up to 60 s; then this card comes again" == evidence_words.collect(offered)
    assert "a new card for the 2 proven targets; this one ends" == evidence_words.limit(offered)
    bare = card(proven_evidence()).evidence
    assert (None, None) == (evidence_words.collect(bare), evidence_words.limit(bare))
    assert 0 == bare.proven_targets


def test_the_whole_card_names_every_way_and_the_commands_for_it() -> None:
    lines = card_lines(
        card(gap_evidence()),
        card_digest="sha256:1",
        state="pending",
        expires_at_ms=NOW_MS,
        joined=1,
        now_ms=NOW_MS,
        width=80,
    )
    text = "\n".join(lines)

    assert "Evidence ! INCOMPLETE: 842 seen of an unknown number" in lines
    assert "Targets  2 of 3 proven to exist as asked:" in lines
    assert "  collect  reading on for up to 60 s; then this card comes again" in lines
    assert "  limit    a new card for the 2 proven targets; this one ends" in lines
    assert "deleting all 3, 1 without proof, once; no way back. Asks for the word svc-build-7" in " ".join(text.split())
    assert text.endswith("| collect ap_0123456789ab | limit ap_0123456789ab")


def test_a_yes_despite_a_gap_says_that_there_is_no_way_back() -> None:
    assert "deleting all 3, 1 without proof, once; no way back" == words.yes_once(card(gap_evidence()))


def test_a_card_with_more_on_its_evidence_than_can_be_shown_is_refused() -> None:
    evidence: Any = gap_evidence()
    evidence["items"][0]["odd"] = 1

    with pytest.raises(Broken, match="more than this client can show"):
        card(evidence)
