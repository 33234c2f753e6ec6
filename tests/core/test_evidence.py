from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.contract.reasons import Effect, WarningCode
from broker.core.evidence import EvidenceRecord, asked_args, id_text, targets_of
from broker.core.policy.declarations import Claim, EvidenceNeed, Pagination, PagingKind, Visibility
from tests.fakes import market
from tests.fakes.collections_made import (
    ABSENT,
    LEANING,
    MINUTE_MS,
    NOW_MS,
    PRESENT,
    RECORD,
    judged,
    record,
    verdict,
)

NEW = {"project": "acme-prod", "names": ["svc-new-1", "svc-new-2"]}


def test_a_complete_fresh_collection_that_holds_every_target_meets_the_need() -> None:
    found = judged(PRESENT, RECORD)

    assert found.is_met
    assert (("ci-legacy-2", "svc-build-7"), ()) == (found.proven, found.unproven)
    assert RECORD == found.record


def test_a_complete_fresh_collection_without_any_target_proves_their_absence() -> None:
    assert verdict(ABSENT, RECORD, args=NEW) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"anchor_id": "anchor-2"}, "none_recorded"),
        ({"service": "other"}, "none_recorded"),
        ({"operation": "accounts.search"}, "none_recorded"),
        ({"credential": "cloud-admin"}, "none_recorded"),
        ({"credential_version": 2}, "none_recorded"),
        ({"credential_version": None}, "none_recorded"),
        ({"policy_digest": "sha256:" + "2b" * 32}, "none_recorded"),
        ({"id_place": "uid"}, "none_recorded"),
        ({"id_place": None}, "none_recorded"),
        ({"args": {"project": "acme-test"}}, "other_arguments"),
        ({"args": {"project": "acme-prod", "filter": "x"}}, "other_arguments"),
        ({"args": {}}, "other_arguments"),
        ({"collected_at_ms": NOW_MS - 16 * MINUTE_MS}, "stale"),
        ({"collected_at_ms": NOW_MS + 1}, "stale"),
        ({"expires_at_ms": NOW_MS}, "stale"),
        ({"complete": False}, "incomplete"),
        ({"ids": ("ci-legacy-2",)}, "target_not_covered"),
        ({"ids": ()}, "target_not_covered"),
    ],
)
def test_what_was_recorded_under_anything_else_proves_no_presence(changes: dict[str, Any], expected: str) -> None:
    assert expected == verdict(PRESENT, record(**changes))


def test_without_any_record_nothing_is_proven() -> None:
    found = judged(PRESENT)

    assert "none_recorded" == found.gap
    assert ((), ("ci-legacy-2", "svc-build-7")) == (found.proven, found.unproven)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"complete": False}, "incomplete"),
        ({"visibility": Visibility.FILTERED}, "incomplete"),
        ({"warnings": (WarningCode.STALE_INDEX,)}, "refused_warning"),
        ({"ids": ("svc-new-2",)}, "target_present"),
        ({"ids": ("SVC-New-2 ",)}, "target_present"),
        ({"anchor_id": "anchor-2"}, "none_recorded"),
    ],
)
def test_what_may_hide_something_proves_no_absence(changes: dict[str, Any], expected: str) -> None:
    assert expected == verdict(ABSENT, record(**changes), args=NEW)


def test_what_is_seen_in_a_filtered_collection_is_there() -> None:
    assert verdict(PRESENT, record(visibility=Visibility.FILTERED)) is None
    assert verdict(PRESENT, record(warnings=(WarningCode.STALE_INDEX,))) is None


def test_a_warning_that_the_rule_refuses_spoils_the_collection() -> None:
    need = replace(PRESENT, refuse_warnings=(WarningCode.COUNT_ESTIMATED,))

    assert "refused_warning" == verdict(need, record(warnings=(WarningCode.COUNT_ESTIMATED,)))
    assert verdict(need, record(warnings=(WarningCode.COUNT_UNKNOWN,))) is None


@pytest.mark.parametrize("targets", [[], None, "absent"])
@pytest.mark.parametrize("need", [PRESENT, ABSENT])
def test_a_request_that_names_no_target_is_never_covered(need: EvidenceNeed, targets: object) -> None:
    args = {"project": "acme-prod"} if targets == "absent" else {"project": "acme-prod", "names": targets}

    assert "target_not_covered" == verdict(need, RECORD, args=args)


@pytest.mark.parametrize("odd", ["a,b", "svc-*", "", " ", "a\x00b", True, 1.5, {"name": "x"}, ["x"], None])
@pytest.mark.parametrize("need", [PRESENT, ABSENT])
def test_what_may_be_read_as_several_or_is_no_id_is_never_covered(need: EvidenceNeed, odd: object) -> None:
    assert "target_not_covered" == verdict(need, RECORD, args={"project": "acme-prod", "names": [odd]})


def test_a_number_and_its_digits_are_one_id_and_leading_zeros_hide_nothing() -> None:
    numbered = record(ids=("7", "12"))

    assert verdict(PRESENT, numbered, args={"project": "acme-prod", "names": [7, "12"]}) is None
    assert "target_not_covered" == verdict(PRESENT, numbered, args={"project": "acme-prod", "names": ["07"]})
    assert "target_present" == verdict(ABSENT, numbered, args={"project": "acme-prod", "names": ["007"]})
    assert verdict(ABSENT, numbered, args={"project": "acme-prod", "names": ["00"]}) is None


def test_one_target_needs_no_list() -> None:
    need = replace(PRESENT, covers="{name}")

    assert verdict(need, RECORD, args={"project": "acme-prod", "name": "ci-legacy-5"}) is None
    assert ("ci-legacy-5",) == targets_of(need, {"name": "ci-legacy-5"})


def test_arguments_that_the_request_lacks_are_met_by_no_collection() -> None:
    found = judged(PRESENT, RECORD, args={"names": ["ci-legacy-2"]})

    assert "other_arguments" == found.gap
    assert found.args is None
    assert "none_recorded" == verdict(PRESENT, args={"names": ["ci-legacy-2"]})


@pytest.mark.parametrize(
    ("given", "asked", "same"),
    [
        ({"n": 7}, {"n": "7"}, True),
        ({"n": ["a", 1]}, {"n": ["a", "1"]}, True),
        ({"n": ["a"]}, {"n": ["a", "b"]}, False),
        ({"n": ["a"]}, {"n": "a"}, False),
        ({"n": {"a": 1}}, {"n": {"a": "1"}}, True),
        ({"n": {"a": 1}}, {"n": {"b": 1}}, False),
        ({"n": {"a": 1}}, {"n": 1}, False),
        ({"n": "A"}, {"n": "a"}, False),
    ],
)
def test_arguments_are_the_same_where_they_spell_the_same(given: Any, asked: Any, same: bool) -> None:  # noqa: FBT001 - a row of the table
    need = replace(PRESENT, args=given)

    assert (None if same else "other_arguments") == verdict(need, record(args=asked))


def test_the_newest_sound_collection_is_leaned_on() -> None:
    older = record(id="ev_0", collected_at_ms=NOW_MS - 9 * MINUTE_MS)
    cut = record(id="ev_2", collected_at_ms=NOW_MS - MINUTE_MS, complete=False, ids=())

    assert "ev_1" == getattr(judged(PRESENT, older, RECORD, cut).record, "id", None)
    assert verdict(PRESENT, older, RECORD, cut) is None


def test_a_later_collection_that_speaks_against_the_change_is_heard() -> None:
    gone = record(id="ev_2", collected_at_ms=NOW_MS - MINUTE_MS, ids=("svc-build-7",))
    came = record(id="ev_3", collected_at_ms=NOW_MS - MINUTE_MS, ids=("svc-new-2",), complete=False)

    assert "target_not_covered" == verdict(PRESENT, RECORD, gone)
    assert "target_not_covered" == verdict(PRESENT, RECORD, gone, hints=("ev_1",))
    assert "target_present" == verdict(ABSENT, RECORD, came, args=NEW)


def test_a_hint_selects_and_proves_nothing() -> None:
    assert verdict(PRESENT, RECORD, hints=("ev_1",)) is None
    assert "none_recorded" == verdict(PRESENT, RECORD, hints=("ev_invented",))
    assert "none_recorded" == verdict(PRESENT, record(anchor_id="anchor-2"), hints=("ev_1",))


def test_ids_are_texts_and_whole_numbers() -> None:
    assert ["a", "7", None, None, None, None] == [id_text(one) for one in ("a", 7, True, None, 1.5, "")]


def test_what_only_turns_pages_is_no_argument_of_a_collection() -> None:
    paging = Pagination(kind=PagingKind.BODY_TOKEN, param="cursor", size_param="limit")
    listing = market.operation("things.list", "GET", "/things", Effect.READ, pagination=paging)

    assert {"state": "open"} == asked_args(listing, {"state": "open", "cursor": "c", "limit": "50"})
    assert {"cursor": "c"} == asked_args(replace(listing, pagination=None), {"cursor": "c"})


def test_the_digest_of_the_ids_tells_collections_apart() -> None:
    assert RECORD.ids_digest == record(id="ev_9").ids_digest
    assert RECORD.ids_digest != record(ids=RECORD.ids[1:]).ids_digest


_IDS = st.sampled_from(["a", "b", "c", "A", "7", "07"])
_RECORDS = st.builds(
    record,
    id=st.sampled_from(["ev_1", "ev_2", "ev_3"]),
    anchor_id=st.sampled_from(["anchor-1", "anchor-1", "anchor-2"]),
    credential_version=st.sampled_from([3, 3, 2]),
    policy_digest=st.sampled_from([LEANING.policy_digest, LEANING.policy_digest, "sha256:other"]),
    args=st.sampled_from([RECORD.args, RECORD.args, {"project": "other"}]),
    ids=st.lists(_IDS, max_size=5).map(tuple),
    complete=st.sampled_from([True, True, False]),
    visibility=st.sampled_from(list(Visibility)),
    warnings=st.sampled_from([(), (), (WarningCode.STALE_INDEX,)]),
    collected_at_ms=st.integers(NOW_MS - 20 * MINUTE_MS, NOW_MS + 1),
)


@given(
    records=st.lists(_RECORDS, max_size=5),
    targets=st.lists(_IDS, max_size=4),
    claim=st.sampled_from(list(Claim)),
    hints=st.sampled_from([(), (), ("ev_1",), ("ev_9",)]),
)
def test_a_need_is_met_only_by_a_complete_fresh_collection_of_ones_own_that_covers_every_target(
    records: list[EvidenceRecord], targets: list[str], claim: Claim, hints: tuple[str, ...]
) -> None:
    found = judged(
        replace(PRESENT, claim=claim), *records, args={"project": "acme-prod", "names": targets}, hints=hints
    )
    own = [
        one
        for one in records
        if (one.anchor_id, one.credential_version, one.policy_digest, dict(one.args))
        == ("anchor-1", 3, LEANING.policy_digest, {"project": "acme-prod"})
        and 0 <= NOW_MS - one.collected_at_ms <= 15 * MINUTE_MS
        and one.complete
        and (not hints or one.id in hints)
    ]
    if claim is Claim.PRESENT:
        able = [one for one in own if set(targets) <= set(one.ids)]
    else:
        open_ones = [
            one for one in own if one.visibility is Visibility.FULL and WarningCode.STALE_INDEX not in one.warnings
        ]
        able = [one for one in open_ones if not set(targets) & set(one.ids)]

    if found.is_met:
        assert able
        assert targets
    assert set(found.proven) <= set(targets)
    assert set(found.unproven) == set(targets) - set(found.proven)


@given(records=st.lists(_RECORDS, max_size=5), extra=_RECORDS, targets=st.lists(_IDS, min_size=1, max_size=3))
def test_the_order_of_records_changes_nothing_and_hints_open_nothing(
    records: list[EvidenceRecord], extra: EvidenceRecord, targets: list[str]
) -> None:
    args = {"project": "acme-prod", "names": targets}
    both = [replace(one, id=f"ev_{at}") for at, one in enumerate([*records, extra])]
    for need in (PRESENT, ABSENT):
        plain = judged(need, *both, args=args)
        hinted = judged(need, *both, args=args, hints=("ev_0",))

        assert plain == judged(need, *reversed(both), args=args)
        assert plain.is_met or not hinted.is_met
