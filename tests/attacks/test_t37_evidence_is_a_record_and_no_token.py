"""T37: nothing but a record of one's own, under all that holds now, proves anything."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from broker.core.policy.declarations import Otherwise
from broker.core.resolve import HttpAsk
from broker.core.secret import Secret
from broker.operations.evidence_store import EvidenceStoreFile
from broker.proof import Proofs
from tests.fakes import market
from tests.fakes.clock import SetClock
from tests.fakes.collections_made import RECORD
from tests.fakes.flow import gist
from tests.fakes.proofs import DELETE, NEEDS, PROVEN, ProvenFlow, rule

FORBIDDING = rule("delete-known", "accounts.delete", evidence=replace(NEEDS, otherwise=Otherwise.DENY))


def store_at(path: Path, clock: SetClock) -> EvidenceStoreFile:
    store = EvidenceStoreFile(path, now_ms=clock.now_ms)
    store.unlock(seal_key=Secret(b"s" * 32), fingerprint_key=Secret(b"f" * 32))
    return store


@asynccontextmanager
async def stored(directory: Path) -> AsyncIterator[tuple[ProvenFlow, EvidenceStoreFile]]:
    """A flow whose records lie in a real file."""
    flow = ProvenFlow(FORBIDDING)
    store = store_at(directory / "evidence.db", flow.clock)
    flow.pipeline._proofs = Proofs(store=store, follow_ups=flow.follow_ups, vault=flow.vault, clock=flow.clock)
    try:
        yield flow, store
    finally:
        store.close()


def refused(envelope: object, code: str, flow: ProvenFlow) -> None:
    assert isinstance(envelope, dict)
    assert ("evidence_required", code, "never", "none") == gist(envelope)
    assert [] == flow.executor.permits


async def test_an_id_of_another_anchor_proves_nothing_here(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        theirs = market.agent(4712)
        kept = await store.record(flow.collection(anchor_id=theirs.anchor.id))

        refused(await flow.asked_with(DELETE), "none_recorded", flow)
        refused(await flow.asked_with(DELETE, kept.id), "none_recorded", flow)


async def test_an_invented_or_copied_id_proves_nothing_and_hides_what_there_is(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        await store.record(flow.collection())

        refused(await flow.asked_with(DELETE, "ev_" + "0" * 32), "none_recorded", flow)


async def test_an_expired_record_proves_nothing(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        kept = await store.record(flow.collection())
        flow.clock.advance(seconds=901)
        refused(await flow.asked_with(DELETE, kept.id), "stale", flow)
        flow.clock.advance(seconds=3600)
        refused(await flow.asked_with(DELETE, kept.id), "none_recorded", flow)


async def test_a_record_of_another_credential_version_policy_or_arguments_proves_nothing(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        await store.record(flow.collection(credential_version=99))
        await store.record(flow.collection(policy_digest=market.OTHER_DIGEST))
        refused(await flow.asked_with(DELETE), "none_recorded", flow)
        await store.record(flow.collection(args={"project": "other"}))
        refused(await flow.asked_with(DELETE), "other_arguments", flow)


async def test_rotating_the_credential_or_changing_the_policy_ends_what_was_recorded(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        await store.record(flow.collection())
        flow.vault.put("market", market.TOKEN, market.BASE_URL)
        refused(await flow.asked_with(DELETE), "none_recorded", flow)

        await store.record(flow.collection())
        flow.policies.policy = replace(flow.policies.policy, digest=market.OTHER_DIGEST)
        refused(await flow.asked_with(DELETE), "none_recorded", flow)


async def test_targets_come_from_the_frozen_request_and_not_from_what_the_agent_says_of_it(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        kept = await store.record(flow.collection(("ci-2",)))
        by_path = HttpAsk(
            service="market", method="POST", path="/acme/accounts:delete", body=b'{"names":["ci-2","victim"]}'
        )

        refused(
            await flow.perform(flow.received(by_path, says="only ci-2", evidence=(kept.id,))),
            "target_not_covered",
            flow,
        )


async def test_the_order_of_targets_records_and_hints_changes_nothing(tmp_path: Path) -> None:
    async with stored(tmp_path) as (flow, store):
        first = await store.record(flow.collection(("victim", *PROVEN)))
        flow.clock.advance(seconds=1)
        second = await store.record(flow.collection())
        turned = market.ask("accounts.delete", project="acme", names=["victim", "ci-2"])

        for hints in ((first.id,), (first.id, second.id), (second.id, first.id)):
            refused(await flow.asked_with(turned, *hints), "target_not_covered", flow)


async def test_rows_that_were_copied_swapped_renamed_or_altered_are_no_records(tmp_path: Path) -> None:
    clock = SetClock()
    clock.passed_ms = 10_000
    now_ms = clock.now_ms()
    fresh = replace(RECORD, collected_at_ms=now_ms, expires_at_ms=now_ms + 60_000)
    path = tmp_path / "evidence.db"
    store = store_at(path, clock)
    mine = await store.record(fresh)
    theirs = await store.record(replace(fresh, anchor_id="anchor-2", ids=("all",)))

    def alter(statement: str, *values: object) -> None:
        with sqlite3.connect(path, isolation_level=None) as raw:
            raw.execute(statement, values)
        raw.close()

    async def found() -> list[str]:
        return [one.id for one in await store.find("anchor-1", "cloud.accounts.list")]

    assert [mine.id] == await found()
    with sqlite3.connect(path) as raw:
        rows = {
            name: (anchor, subject, sealed)
            for name, anchor, subject, sealed in raw.execute("SELECT id, anchor, subject, sealed FROM records")
        }
    raw.close()
    anchor, subject, sealed = rows[mine.id]
    alter("UPDATE records SET subject = ?, anchor = ? WHERE id = ?", subject, anchor, theirs.id)
    assert [mine.id] == await found()
    alter("UPDATE records SET sealed = ? WHERE id = ?", sealed, theirs.id)
    assert [mine.id] == await found()
    alter("UPDATE records SET sealed = ? WHERE id = ?", rows[theirs.id][2], mine.id)
    assert [] == await found()
    alter("UPDATE records SET sealed = ? WHERE id = ?", sealed[:-1] + bytes([sealed[-1] ^ 1]), mine.id)
    assert [] == await found()
    alter("UPDATE records SET sealed = ? WHERE id = ?", sealed, mine.id)
    alter("UPDATE records SET id = ? WHERE id = ?", "ev_" + "f" * 32, mine.id)
    assert [] == await found()
    store.close()


async def test_a_record_outlives_the_daemon_and_opens_under_no_other_key(tmp_path: Path) -> None:
    clock = SetClock()
    clock.passed_ms = 10_000
    now_ms = clock.now_ms()
    store = store_at(tmp_path / "evidence.db", clock)
    kept = await store.record(replace(RECORD, collected_at_ms=now_ms, expires_at_ms=now_ms + 60_000))
    store.close()

    again = store_at(tmp_path / "evidence.db", clock)
    assert (kept,) == await again.find("anchor-1", "cloud.accounts.list")
    again.unlock(seal_key=Secret(b"x" * 32), fingerprint_key=Secret(b"f" * 32))
    assert () == await again.find("anchor-1", "cloud.accounts.list")
    again.close()
    octets = (tmp_path / "evidence.db").read_bytes()
    assert [] == [word for word in (b"ci-legacy", b"acme-prod", b"accounts.list", b"anchor-1") if word in octets]


@pytest.mark.parametrize("names", [[], ["ci-2", "ci-2", "victim"], ["CI-2"], ["ci-2 "], [{"name": "ci-2"}]])
async def test_no_spelling_of_targets_gets_past(tmp_path: Path, names: list[object]) -> None:
    async with stored(tmp_path) as (flow, store):
        await store.record(flow.collection())
        spelled = market.ask("accounts.delete", project="acme", names=names)  # type: ignore[arg-type]  # hostile on purpose

        refused(await flow.asked_with(spelled), "target_not_covered", flow)
