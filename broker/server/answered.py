"""How a handler of agent.sock ends early: with the envelope that is its answer."""

from broker.contract.wire import JsonObject
from broker.core.refusals import Refusal
from broker.server import faults


class Answered(Exception):  # noqa: N818 - an envelope that ends the handling
    """Ends a handler with this envelope."""

    def __init__(self, envelope: JsonObject) -> None:
        super().__init__()
        self.envelope = envelope


def refused(refusal: Refusal) -> Answered:
    return Answered(faults.refused(refusal))
