"""A key of the broker's that travels as an argument: the frozen request as it goes out under that key.

Whoever decides sees the request without it, as with a credential: the key is made once it is decided, and is the only
thing that differs. Whether there has to be one is core/repeats.py's business.
"""

from collections.abc import Mapping
from dataclasses import replace

from broker.contract.wire import JsonObject, JsonValue
from broker.core.arguments import body_of, over_asked, whole_query
from broker.core.frozen import FrozenRequest
from broker.core.policy.places import steps_of
from broker.core.policy.template import template_of


def with_key(frozen: FrozenRequest, key: str) -> FrozenRequest:
    """The same request with the key in its declared argument; as it is where the key is none. Raises ValueError."""
    declared = frozen.declared
    param = None if declared is None else declared.idempotency.key_param
    if declared is None or param is None:
        return frozen
    steps = (param,) if param in (*declared.query, *(declared.body or ())) else steps_of(param)
    sent = over_asked(declared, _set(frozen.args, steps, key))
    query, address = whole_query(declared, sent), frozen.url.partition("?")[0]
    return replace(
        frozen,
        url=f"{address}?{query}" if query else address,
        query=query,
        body=body_of(declared, template_of(declared.path), sent) or b"",
    )


def _set(args: JsonObject, steps: tuple[str, ...], key: str) -> dict[str, JsonValue]:
    if len(steps) == 1:
        return {**args, steps[0]: key}
    below = args.get(steps[0])
    if below is not None and not isinstance(below, Mapping):
        raise ValueError("what should hold the key of a change is no object")
    return {**args, steps[0]: _set(below or {}, steps[1:], key)}
