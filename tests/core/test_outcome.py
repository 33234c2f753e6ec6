from broker.contract.reasons import Category, RemoteEffect, Retry
from broker.core.outcome import Classified, Phase, RawOutcome, Verdict

RAW = RawOutcome(phase=Phase.RESPONSE_COMPLETE, status=200, headers=(("x", "canary"),), body=b"canary")
VERDICT = Verdict(
    category=Category.SUCCESS, code="ok", retry=Retry.NEVER, remote_effect=RemoteEffect.NONE, message="Done."
)


def test_what_was_received_is_never_printed() -> None:
    shown = f"{RAW!r} {Classified(verdict=VERDICT, raw=RAW, identity='canary')!r} {RAW}"

    assert "canary" not in shown
    assert "response_complete" in shown


def test_phases_are_in_the_order_of_the_wire() -> None:
    assert [
        "built", "approved", "connecting", "connected", "headers_sent", "body_sent", "response_started",
        "response_complete",
    ] == [phase.value for phase in Phase]  # fmt: skip
