"""Which change may be sent again while it is unknown what came of it: what the operation declares, as far as it holds.

A request that says the whole state is one whatever the number of times it is sent, and so is one that names the
version that it is for. Nothing but the very same request is such a repeat, and no declaration makes another one of it.
"""

from collections.abc import Sequence

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
        case IdempotencyKind.KEY:
            return True  # the executor sends nothing without it
        case IdempotencyKind.NONE:
            return False


def may_repeat(frozen: Frozen, doubts: Sequence[Doubt], *, now_ms: int) -> bool:
    """Whether all that is in doubt is this very request, sent before; with a key, whether that is still known."""
    if not repeats_safely(frozen) or any(doubt.request_digest != frozen.digest for doubt in doubts):
        return False
    return not goes_with_key(frozen) or known_key(frozen, doubts, now_ms=now_ms) is not None


def goes_with_key(frozen: Frozen) -> bool:
    return (
        isinstance(frozen, FrozenRequest)
        and frozen.is_write
        and frozen.declared is not None
        and frozen.declared.idempotency.has_key
    )


def key_header_of(frozen: Frozen) -> str | None:
    """The header that takes the broker's key; None where it takes none."""
    if not isinstance(frozen, FrozenRequest) or frozen.declared is None or not frozen.is_write:
        return None
    return frozen.declared.idempotency.key_header


def known_key(frozen: Frozen, doubts: Sequence[Doubt], *, now_ms: int) -> str | None:
    """The key of this very request from before, where the upstream knows it for as long as an answer may take."""
    keys = {doubt.idempotency_key for doubt in doubts if doubt.request_digest == frozen.digest}
    if len(keys) != 1 or not isinstance(frozen, FrozenRequest) or frozen.declared is None:
        return None
    first_ms = min(doubt.sent_at_ms for doubt in doubts if doubt.request_digest == frozen.digest)
    window_ms = (frozen.declared.idempotency.window_s or 0) * 1000
    is_known = first_ms <= now_ms and now_ms + round(frozen.total_s * 1000) < first_ms + window_ms
    return next(iter(keys)) if is_known else None


def was_forgotten(frozen: Frozen, doubts: Sequence[Doubt], *, key: str | None) -> bool:
    """Whether this very request went out before under another key than now."""
    before = {doubt.idempotency_key for doubt in doubts if doubt.request_digest == frozen.digest}
    return key is not None and bool(before - {key})


def settled_by(frozen: Frozen, doubts: Sequence[Doubt], *, key: str | None) -> tuple[Doubt, ...]:
    """What is in doubt no more once this request was a success: the same request, under the same key if it has one."""
    if not repeats_safely(frozen):
        return ()
    return tuple(doubt for doubt in doubts if doubt.request_digest == frozen.digest and key == doubt.idempotency_key)


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
