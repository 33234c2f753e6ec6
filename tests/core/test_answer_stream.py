"""The head of an answer that is handed on, and what the end adds of what was found on the way."""

from dataclasses import replace

from broker.contract.reasons import Category, RemoteEffect, Retry, ScrubState
from broker.contract.result import ScrubReport
from broker.core.answer_stream import shown_head, with_stream_scrubbed
from broker.core.outcome import Phase, RawOutcome, Scrubbed, Verdict
from broker.core.secret import Secret
from broker.core.secret_set import SecretSet
from tests.fakes.https_calls import frozen, operation

TOKEN = "canary-token-0123456789"
SECRETS = SecretSet(replaced=[Secret(TOKEN)], names=[Secret("ada-lovelace")])
OK = Scrubbed(
    verdict=Verdict(
        category=Category.SUCCESS, code="ok", retry=Retry.NEVER, remote_effect=RemoteEffect.NONE, message="Good."
    ),
    answer=None,
    ssh=None,
    completeness=None,
    warnings=(),
    report=ScrubReport(),
    hits=1,
    is_echo=False,
    phase=Phase.RESPONSE_COMPLETE,
    status=200,
    fault=None,
    elapsed_ms=1,
)


def test_a_head_shows_what_the_envelope_would() -> None:
    headers = (("etag", "e"), ("set-cookie", "a"), ("x-own", "o"), ("link", f"<https://a/?k={TOKEN}>"))
    declared = replace(operation(), response_headers=("x-own",))

    assert {"status": 200, "headers": {"etag": "e", "x-own": "o", "link": "<https://a/?k=[redacted]>"}} == shown_head(
        frozen(declared=declared), 200, headers, SECRETS
    )
    assert {"status": 204, "headers": {"etag": "e"}} == shown_head(frozen(), 204, (("etag", "e"),), None)


def test_a_head_leaves_out_what_can_not_be_scrubbed() -> None:
    headers = (("etag", "of ada-lovelace"), (f"ratelimit-{TOKEN}", "1"), ("date", "d"))

    assert {"date": "d"} == shown_head(frozen(), 200, headers, SECRETS)["headers"]


def test_what_was_found_on_the_way_is_counted() -> None:
    assert OK == with_stream_scrubbed(OK, hits=0, withheld=False)
    counted = with_stream_scrubbed(OK, hits=2, withheld=False)
    assert (3, True, Category.SUCCESS) == (counted.hits, counted.is_echo, counted.verdict.category)


def test_what_was_kept_back_is_no_whole_success() -> None:
    cut = with_stream_scrubbed(OK, hits=1, withheld=True)
    failed = with_stream_scrubbed(
        replace(OK, verdict=replace(OK.verdict, category=Category.OUTCOME_UNKNOWN)), hits=1, withheld=True
    )

    assert (Category.PARTIAL, "incomplete") == (cut.verdict.category, cut.verdict.code)
    assert (ScrubState.DONE, True, 1) == (cut.report.state, cut.report.reason is not None, len(cut.warnings))
    assert Category.OUTCOME_UNKNOWN is failed.verdict.category


def test_an_outcome_knows_whether_its_body_is_gone() -> None:
    kept = RawOutcome(phase=Phase.RESPONSE_COMPLETE, body=b"abc")
    handed = replace(kept, handed_on_bytes=3)
    gone = replace(kept, body=b"", handed_on_bytes=3)

    assert [(3, False), (3, False), (3, True)] == [(one.body_bytes, one.is_body_gone) for one in (kept, handed, gone)]


def test_values_made_for_one_attempt_are_taken_out_as_well() -> None:
    signature = Secret("0123456789abcdef" * 4)
    more = SECRETS.also([signature])

    assert SECRETS is SECRETS.also([])
    assert b"[redacted] [redacted]" == more.clean(signature.reveal() + b" " + TOKEN.encode()).data
    assert more.clean(b"ada-lovelace").withheld
    assert 0 == SECRETS.clean(signature.reveal()).hits
