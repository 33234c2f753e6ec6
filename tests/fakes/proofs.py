"""A market in which some changes need evidence, and collections for it that no walk made."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broker.contract.reasons import ApprovalRule, Effect
from broker.contract.wire import JsonObject
from broker.core.evidence import EvidenceRecord
from broker.core.policy.declarations import Claim, CompletenessDecl, EvidenceNeed, Otherwise, Precheck
from broker.core.policy.model import Policy, Rule
from broker.core.resolve import HttpAsk
from tests.fakes import market
from tests.fakes.flow import Flow

_LISTED = CompletenessDecl(items="json.accounts", id="name")
_OPERATIONS = (
    market.operation("accounts.list", "GET", "/{project}/accounts", Effect.READ, completeness=_LISTED),
    market.operation("accounts.get", "GET", "/{project}/accounts/{name}", Effect.READ),
    market.operation(
        "accounts.delete",
        "POST",
        "/{project}/accounts:delete",
        body=("names",),
        required=("names",),
        targets=("names",),
        destructive=True,
    ),
    market.operation("accounts.create", "POST", "/{project}/accounts", body=("name",), targets=("name",)),
    market.operation("accounts.drop", "DELETE", "/{project}/accounts/{name}", destructive=True),
)
LISTED: JsonObject = {"project": "{project}"}
NEEDS = EvidenceNeed(
    operation="accounts.list", args=LISTED, claim=Claim.PRESENT, covers="{names}", id="name", otherwise=Otherwise.ASK
)
LOOK = Precheck(
    operation="accounts.get",
    args={"project": "{project}", "name": "{name}"},
    expect="json.state=='idle' && json.name==$name",
)


def rule(name: str, operation: str, approval: ApprovalRule = ApprovalRule.PER_CALL, **more: Any) -> Rule:
    return Rule(id=name, approval=approval, operations=(operation,), place=market.PLACE, **more)


RULES = (
    rule("delete-known", "accounts.delete", evidence=NEEDS),
    rule(
        "create-new",
        "accounts.create",
        evidence=replace(NEEDS, claim=Claim.ABSENT, covers="{name}", otherwise=Otherwise.DENY),
    ),
    rule("drop-idle", "accounts.drop", ApprovalRule.NONE, precheck=LOOK),
)


def policy(*rules: Rule) -> Policy:
    """The market's policy with these rules instead of the usual ones, and operations on accounts."""
    service = market.service("market", credential="market", operations=_OPERATIONS)
    return replace(market.POLICY, rules=rules or RULES, services={"market": service})


DELETE = market.ask("accounts.delete", project="acme", names=["ci-2", "ci-5", "svc-7"])
CREATE = market.ask("accounts.create", project="acme", name="new")
DROP = market.ask("accounts.drop", project="acme", name="ci-2")
PROVEN = ("ci-2", "ci-5", "svc-7")


class ProvenFlow(Flow):
    """A flow under such rules."""

    def __init__(self, *rules: Rule) -> None:
        super().__init__()
        self.policies.policy = policy(*rules)

    def collection(self, ids: tuple[str, ...] = PROVEN, **changes: Any) -> EvidenceRecord:
        """A complete collection of this flow's agent, as a walk that ended now would leave it."""
        now_ms = self.clock.now_ms()
        made = EvidenceRecord(
            anchor_id=self.caller.anchor.id,
            service="market",
            operation="accounts.list",
            args={"project": "acme"},
            credential="market",
            credential_version=self.vault.credential_version("market"),
            policy_digest=self.policies.current().digest,
            id_place="name",
            ids=ids,
            count=len(ids),
            total=None,
            collected_at_ms=now_ms,
            expires_at_ms=now_ms + 3_600_000,
            complete=True,
        )
        return replace(made, **changes)

    async def collected(self, ids: tuple[str, ...] = PROVEN, **changes: Any) -> str:
        """Put one on record."""
        return (await self.evidence.record(self.collection(ids, **changes))).id

    async def asked_with(self, ask: HttpAsk, *evidence: str) -> Mapping[str, Any]:
        """A request that names collections, and is refused or needs no human."""
        return await self.perform(self.received(ask, evidence=evidence))
