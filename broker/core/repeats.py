"""Which change may be sent again while it is unknown what came of it: what the operation declares, as far as it holds.

A request that says the whole state is one whatever the number of times it is sent, and so is one that names the
version that it is for. Nothing but the very same request is such a repeat, and no declaration makes another one of it.
"""

from collections.abc import Iterable

from broker.core.channels import Frozen
from broker.core.frozen import FrozenRequest
from broker.core.ledger import Doubt
from broker.core.paging import argument_at
from broker.core.policy.declarations import Idempotency, IdempotencyKind

_VERSION_HEADERS = frozenset({"if-match", "if-none-match", "if-unmodified-since"})


def repeats_safely(frozen: Frozen) -> bool:
    """Whether the operation's idempotency is declared, and in force for this request."""
    if not isinstance(frozen, FrozenRequest) or frozen.declared is None or not frozen.is_write:
        return False
    rules = frozen.declared.idempotency
    if rules.replay_forbidden:
        return False
    match rules.kind:
        case IdempotencyKind.NATURAL:
            return True
        case IdempotencyKind.PRECONDITION:
            return _names_version(frozen, rules)
        case IdempotencyKind.NONE | IdempotencyKind.KEY:
            return False


def may_repeat(frozen: Frozen, doubts: Iterable[Doubt]) -> bool:
    """Whether all that is in doubt is this very request, sent before."""
    return repeats_safely(frozen) and all(doubt.request_digest == frozen.digest for doubt in doubts)


def must_not_repeat(frozen: Frozen) -> bool:
    """Whether the operation forbids it, whatever came of the first."""
    return (
        isinstance(frozen, FrozenRequest)
        and frozen.declared is not None
        and frozen.declared.idempotency.replay_forbidden
    )


def _names_version(frozen: FrozenRequest, rules: Idempotency) -> bool:
    """Where the operation says in which place the version stands, it has to stand there."""
    if rules.param is not None:
        return argument_at(frozen.args, rules.param) not in (None, "")
    names = _VERSION_HEADERS if rules.header is None else {rules.header}
    return any(name in names and value.strip() not in ("", "*") for name, value in frozen.headers)
