import pytest

from broker.client.card_words import clock_time
from broker.contract.wire import JsonValue, parse_object
from tests.fakes.cards import NOW_MS
from tests.fakes.command_line import PASSPHRASE, CommandLine
from tests.fakes.envelopes import ID, envelope

DOUBT: dict[str, JsonValue] = {
    "correlation_id": ID,
    "state": "in_doubt",
    "phase": "body_sent",
    "operation": "deploy.deployments.create",
    "summary": "POST https://deploy.example/v2\x1b",
    "agent": "codex",
    "session_id": "se_1",
    "sent_at_ms": NOW_MS,
    "read_back": None,
    "change_key": None,
}


def test_what_is_in_doubt_is_told_with_the_way_to_settle_it(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/operations"] = (
            200,
            {"operations": [DOUBT, {**DOUBT, "read_back": "deployments.list"}]},
        )
        code, out, _ = cli.run("operations", "list", "--in-doubt", passphrase=PASSPHRASE)

        assert "/v1/operations?state=in_doubt" in [asked.target for asked in daemon.asked]
    lines = out.splitlines()
    assert 0 == code
    assert [
        f"? {ID}  in_doubt",
        "    deploy.deployments.create: POST https://deploy.example/v2\\u{1b}",
    ] == lines[:2]
    assert lines[2].startswith(f"    sent {clock_time(NOW_MS)}, ")
    assert "    read-back: none; only you can settle it" == lines[3]
    assert f"    doorward operations settle {ID} --as applied|not_applied" == lines[4]
    assert ["    read-back: deployments.list", f"    doorward operations reconcile {ID}"] == lines[8:10]


def test_nothing_in_doubt_is_said(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/operations"] = (200, {"operations": []})

        assert "nothing is in doubt\n" == cli.run("operations", "list", passphrase=PASSPHRASE)[1]


@pytest.mark.parametrize("outcome", ["applied", "not_applied"])
def test_settling_is_a_signed_word(cli: CommandLine, outcome: str) -> None:
    cli.make_key()
    route = f"POST /v1/operations/{ID}/settle"
    with cli.control_daemon() as daemon:
        daemon.replies[route] = (200, {})
        line = ["operations", "settle", ID, "--as", outcome, "--reason", "looked", "--yes"]
        code, _, _ = cli.run(*line, passphrase=PASSPHRASE)

        statement = daemon.bodies(route)[0]["statement"]
    assert 0 == code
    assert ("operation.settle", {"correlation_id": ID, "as": outcome, "reason": "looked"}) == (
        statement["verb"],
        statement["params"],
    )


@pytest.mark.parametrize(("category", "code"), [("success", 0), ("confirmed_failure", 13), ("outcome_unknown", 16)])
def test_a_read_back_at_a_humans_word_ends_as_its_answer(cli: CommandLine, category: str, code: int) -> None:
    cli.make_key()
    told = envelope(category)
    with cli.control_daemon() as daemon:
        daemon.replies[f"POST /v1/operations/{ID}/reconcile"] = (200, told)
        found, out, _ = cli.run("operations", "reconcile", ID, "--json", passphrase=PASSPHRASE)

    assert (code, told) == (found, parse_object(out.encode()))


def test_a_wrong_id_is_usage(cli: CommandLine) -> None:
    assert 64 == cli.run("operations", "settle", "op_1", "--as", "applied", "--yes")[0]
    assert 64 == cli.run("operations", "reconcile", "op_1")[0]
