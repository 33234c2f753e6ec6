"""Recorded collections, needs of rules and requests that lean on them, for tests."""

from dataclasses import replace
from typing import Any

from broker.core.evidence import EvidenceRecord, Judged, Leaning, judge
from broker.core.policy.declarations import Claim, EvidenceNeed

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
POLICY = "sha256:" + "1a" * 32
RECORD = EvidenceRecord(
    id="ev_1",
    anchor_id="anchor-1",
    service="cloud",
    operation="accounts.list",
    args={"project": "acme-prod"},
    credential="cloud-ops",
    credential_version=3,
    policy_digest=POLICY,
    id_place="name",
    ids=("ci-legacy-2", "ci-legacy-5", "svc-build-7"),
    count=3,
    total=3,
    collected_at_ms=NOW_MS - 4 * MINUTE_MS,
    expires_at_ms=NOW_MS + 60 * MINUTE_MS,
    complete=True,
)
PRESENT = EvidenceNeed(
    operation="accounts.list",
    args={"project": "{project}"},
    claim=Claim.PRESENT,
    covers="{names}",
    id="json.name",
)
ABSENT = replace(PRESENT, claim=Claim.ABSENT)
LEANING = Leaning(
    anchor_id="anchor-1",
    service="cloud",
    args={"project": "acme-prod", "names": ["ci-legacy-2", "svc-build-7"]},
    credential="cloud-ops",
    credential_version=3,
    policy_digest=POLICY,
    now_ms=NOW_MS,
)


def record(**changes: Any) -> EvidenceRecord:
    return replace(RECORD, **changes)


def judged(need: EvidenceNeed, *records: EvidenceRecord, **leaning: Any) -> Judged:
    return judge("account-delete", need, replace(LEANING, **leaning), records)


def verdict(need: EvidenceNeed, *records: EvidenceRecord, **leaning: Any) -> str | None:
    """Why the need is not met; None where it is."""
    gap = judged(need, *records, **leaning).gap
    return None if gap is None else gap.value
