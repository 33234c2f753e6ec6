import base64
import json
from typing import Any

import pytest

from broker.client.card_words import clock_time
from tests.fakes.cards import NOW_MS
from tests.fakes.command_line import PASSPHRASE, CommandLine
from tests.fakes.envelopes import ID

DIGEST = "sha256:" + "0123456789abcdef" * 4
REF = "diag_" + "0" * 40
OCTETS = {"bytes": 9, "complete": True, "sha256": "ab" * 32, "withheld": False, "cut_bytes": 0, "base64": None}
KEPT: dict[str, Any] = {
    "ref": REF,
    "version": 1,
    "correlation_id": ID,
    "kept_at_ms": NOW_MS,
    "operation": "deploy.deployments.create",
    "request_digest": DIGEST,
    "category": "outcome_unknown",
    "code": "server_error",
    "phase": "response_complete",
    "fault": None,
    "elapsed_ms": 1500,
    "phase_ms": {"connected": 3, "response_started": 1490},
    "decided_by": {"step": "errors", "field": "errors[1].when", "predicate": "json.error == 'x'", "broken": None},
    "http": {
        "status": 503,
        "sent_body_bytes": 12,
        "headers": [
            {"name": "x-note", "value": "a\x1b[2Jb", "cut": True},
            {"name": None, "value": None, "cut": False},
        ],
        "headers_cut": 3,
        "body": {**OCTETS, "text": "try\u202e later\nsoon", "cut_bytes": 7, "complete": False},
    },
    "ssh": None,
}


def shown(cli: CommandLine, kept: dict[str, Any], *more: str) -> tuple[int, str, str]:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies[f"GET /v1/diagnostics/{REF}"] = (200, kept)
        return cli.run("diagnostics", "show", REF, *more, passphrase=PASSPHRASE)


def test_the_details_of_a_failure_are_told_in_order_and_nothing_foreign_is_drawn_raw(cli: CommandLine) -> None:
    code, out, _ = shown(cli, KEPT)

    assert 0 == code
    assert [
        "deploy.deployments.create: outcome_unknown (server_error)",
        f"of {ID}, {clock_time(NOW_MS)}; request {DIGEST}",
        "got to: response_complete; fault: -; took 1500 ms",
        "phases:  connected at 3 ms, response_started at 1490 ms",
        "decided by: errors; field errors[1].when; predicate json.error == 'x'",
        "",
        "HTTP 503; 12 bytes of body sent",
        "  x-note: a\\u{1b}[2Jb (cut)",
        "  (withheld): (withheld)",
        "  (3 more headers)",
        "",
        f"body: 9 bytes, not whole, sha256 {'ab' * 32}",
        "  try\\u{202e} later",
        "  soon",
        "  (7 more bytes were not kept)",
    ] == out.splitlines()


def test_the_machine_form_is_the_document(cli: CommandLine) -> None:
    assert KEPT == json.loads(shown(cli, KEPT, "--json")[1])


def test_a_withheld_body_is_said_to_be(cli: CommandLine) -> None:
    http = {**KEPT["http"], "body": {**OCTETS, "text": None, "withheld": True}}
    out = shown(cli, {**KEPT, "phase_ms": {}, "http": http})[1]

    assert "  (withheld: it held something of the credential that can't be cut out)" == out.splitlines()[-1]
    assert "phases" not in out


def test_what_is_no_text_is_told_in_hexadecimal_as_far_as_it_helps(cli: CommandLine) -> None:
    octets = bytes(range(256)) * 5
    body = {**OCTETS, "text": None, "base64": base64.b64encode(octets).decode()}
    lines = shown(cli, {**KEPT, "http": {**KEPT["http"], "body": body}})[1].splitlines()

    assert "  " + octets[:32].hex() in lines
    assert "  (256 more in --json)" == lines[-1]


@pytest.mark.parametrize("nonsense", ["no base64!", "QUJ\u00e9", 7])
def test_a_daemon_that_sends_nonsense_for_bytes_draws_nothing(cli: CommandLine, nonsense: str | int) -> None:
    body = {**OCTETS, "text": None, "base64": nonsense}
    lines = shown(cli, {**KEPT, "http": {**KEPT["http"], "body": body}})[1].splitlines()

    assert lines[-1].startswith("body: 9 bytes")


def test_a_commands_streams_are_told(cli: CommandLine) -> None:
    streams = {name: {**OCTETS, "text": f"of {name}"} for name in ("stdout", "stderr", "said")}
    ssh = {"exit_status": 2, "exit_signal": None, "marker": "off", **streams}
    decided = {"step": "decoding", "field": None, "predicate": None, "broken": "not JSON"}
    lines = shown(cli, {**KEPT, "http": None, "ssh": ssh, "decided_by": decided})[1].splitlines()

    assert "exit status 2, signal -" in lines
    assert ["  of stdout", "  of stderr", "  of said"] == [line for line in lines if line.startswith("  of ")]
    assert "decided by: decoding; not JSON" in lines


def test_a_reference_that_leads_nowhere_is_said_to(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        error = {"error": {"code": "unknown", "message": "Nothing is kept under this name (any more)."}}
        daemon.replies[f"GET /v1/diagnostics/{REF}"] = (404, error)
        code, _, err = cli.run("diagnostics", "show", REF, passphrase=PASSPHRASE)

    assert (1, "doorward: Nothing is kept under this name (any more).\n") == (code, err)
