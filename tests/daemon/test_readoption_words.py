"""What a human is told before taking over: something for every reason, with the record where it is known."""

import pytest

from broker.audit.verdict import Rung, Verdict, VerdictName
from broker.daemon.readoption_words import lost, proven
from broker.vault import QuarantineReason


def verdict(name: VerdictName, *, proven_to: int | None = 8) -> Verdict:
    return Verdict(
        verdict=name,
        rung=Rung.NONE,
        pinned=True,
        live=True,
        segment=None,
        offset=None,
        seq=9,
        proven_to=proven_to,
        records=0,
        note="",
    )


@pytest.mark.parametrize("reason", QuarantineReason)
def test_every_reason_says_what_is_lost(reason: QuarantineReason) -> None:
    assert lost(reason, None)
    assert lost(reason, verdict(VerdictName.OK))


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (QuarantineReason.AUDIT_ALTERED, VerdictName.ALTERED),
        (QuarantineReason.AUDIT_GAP, VerdictName.GAP),
        (QuarantineReason.AUDIT_TRUNCATED, VerdictName.TRUNCATED),
        (QuarantineReason.AUDIT_UNENDORSED, VerdictName.FORGED_SIGNATURE),
    ],
)
def test_the_record_is_named_where_the_verdict_is_about_it(reason: QuarantineReason, name: VerdictName) -> None:
    assert " 9" in lost(reason, verdict(name))
    assert " 9" not in lost(reason, verdict(VerdictName.OK))


def test_a_log_that_is_whole_again_is_said_to_be_so_and_not_to_be_what_was_lost() -> None:
    assert "whole by itself" in lost(QuarantineReason.AUDIT_TRUNCATED, verdict(VerdictName.OK))
    assert "whole" not in lost(QuarantineReason.AUDIT_TRUNCATED, verdict(VerdictName.TRUNCATED))


def test_what_stays_proven_is_what_signatures_cover() -> None:
    assert "nothing" in proven(None)
    assert "nothing" in proven(verdict(VerdictName.WRONG_LOG, proven_to=None))
    assert "records 0 to 8" in proven(verdict(VerdictName.ALTERED))
