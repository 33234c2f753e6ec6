import io
import sys

import pytest

from broker.contract.wire import JsonValue, parse_object
from tests.fakes.cards import NOW_MS
from tests.fakes.command_line import PASSPHRASE, CommandLine

LISTED: list[JsonValue] = [
    {
        "name": "gh",
        "kind": "bearer",
        "origins": ["https://a", "https://b\x1b"],
        "version": 2,
        "created_at_ms": NOW_MS,
        "rotated_at_ms": NOW_MS,
    },
    {
        "name": "ci",
        "kind": "basic",
        "origins": ["https://c"],
        "version": 1,
        "created_at_ms": NOW_MS,
        "rotated_at_ms": None,
    },
    {
        "name": "hd",
        "kind": "header",
        "origins": ["https://d"],
        "version": 1,
        "created_at_ms": NOW_MS,
        "rotated_at_ms": None,
    },
]


class Pipe(io.TextIOWrapper):
    """Standard input that is no terminal."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))


@pytest.mark.parametrize(
    ("line", "stdin", "params", "secret"),
    [
        (
            "add gh --kind bearer --origin https://a --origin https://b --stdin",
            b"canary-token-1\n",
            {"name": "gh", "kind": "bearer", "origins": ["https://a", "https://b"]},
            {"token": "canary-token-1"},
        ),
        (
            "add ci --kind basic --origin https://c --stdin",
            b"ann:canary:pass\r\n",
            {"name": "ci", "kind": "basic", "origins": ["https://c"]},
            {"username": "ann", "password": "canary:pass"},
        ),
        (
            "add hd --kind header --header X-Key --template Key={value} --origin https://d --stdin",
            b"canary-value-1",
            {"name": "hd", "kind": "header", "origins": ["https://d"], "header": "X-Key", "template": "Key={value}"},
            {"value": "canary-value-1"},
        ),
        (
            "add qu --kind query --parameter api_key --origin https://q --stdin",
            b"canary-value-2",
            {"name": "qu", "kind": "query", "origins": ["https://q"], "parameter": "api_key"},
            {"value": "canary-value-2"},
        ),
        (
            "add ck --kind cookie --cookie sid --origin https://q --stdin",
            b"canary-value-3",
            {"name": "ck", "kind": "cookie", "origins": ["https://q"], "cookie": "sid"},
            {"value": "canary-value-3"},
        ),
        (
            "add aws --kind sigv4 --region eu-west-1 --aws-service s3 --origin https://q --stdin",
            b"AKIACANARY:canary/key:canary//token==",
            {"name": "aws", "kind": "sigv4", "origins": ["https://q"], "region": "eu-west-1", "aws_service": "s3"},
            {"access_key_id": "AKIACANARY", "secret_access_key": "canary/key", "session_token": "canary//token=="},
        ),
    ],
)
def test_a_value_goes_in_signed_and_is_never_shown(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    stdin: bytes,
    params: dict[str, JsonValue],
    secret: dict[str, JsonValue],
) -> None:
    cli.make_key()
    monkeypatch.setattr(sys, "stdin", Pipe(stdin))
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/credentials"] = (201, {"name": params["name"], "version": 1})
        code, out, err = cli.run("credential", *line.split(), passphrase=PASSPHRASE)

        body = daemon.bodies("POST /v1/credentials")[0]
    assert (0, "") == (code, err)
    assert ("credential.add", params, secret) == (
        body["statement"]["verb"],
        body["statement"]["params"],
        body["secret"],
    )
    assert "canary" not in out


def test_a_value_from_the_environment_is_taken_out_of_it(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    import os  # noqa: PLC0415 - looked at after the verb

    cli.make_key()
    monkeypatch.setenv("A_TOKEN", "canary-token-2")
    with cli.control_daemon() as daemon:
        daemon.replies["POST /v1/credentials"] = (201, {})
        line = "credential add gh --kind bearer --origin https://a --from-env A_TOKEN"
        code, _, _ = cli.run(*line.split(), passphrase=PASSPHRASE)

        assert {"token": "canary-token-2"} == daemon.bodies("POST /v1/credentials")[0]["secret"]
    assert 0 == code
    assert "A_TOKEN" not in os.environ


def test_a_variable_that_is_not_there_is_told_before_anything_is_asked(cli: CommandLine) -> None:
    code, _, err = cli.run("credential", "rotate", "gh", "--from-env", "NO_SUCH_VARIABLE")

    assert (64, True) == (code, "NO_SUCH_VARIABLE" in err)


IN_FORCE: dict[str, JsonValue] = {
    "services": [
        {"name": "deploy", "base_url": "https://deploy.example:8443/v2", "credential": "deploy", "bound": False},
        {"name": "other", "base_url": "https://other.example", "credential": None, "bound": False},
    ]
}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("add gh", 64),  # no service of the policy uses it
        ("add gh --kind bearer", 64),
        ("add deploy --yes", 64),  # a place is never taken for granted
        ("add deploy", 1),  # nobody there to say yes
        ("add Deploy --origin https://a", 64),
        ("add gh --kind bearer --origin https://a --header X", 64),
        ("add gh --kind header --origin https://a", 64),
        ("add gh --kind bearer --template x{value} --origin https://a", 64),
        ("add gh --kind bearer --origin https://a --from-env NO_SUCH_VARIABLE", 64),
        ("add gh --kind magic --origin https://a", 64),
        ("add gh --kind bearer --origin https://a --stdin --from-env X", 64),
        ("rotate nobody --stdin", 1),
    ],
)
def test_what_cannot_be_meant_changes_nothing(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, line: str, code: int
) -> None:
    cli.make_key()
    monkeypatch.setattr(sys, "stdin", Pipe(b"canary"))
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/credentials"] = (200, {"credentials": LISTED})
        daemon.replies["GET /v1/policy"] = (200, IN_FORCE)
        found, _, _ = cli.run("credential", *line.split(), passphrase=PASSPHRASE)

        assert not [asked for asked in daemon.asked if asked.method != "GET" and "control-session" not in asked.path]
    assert code == found


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 9000, b"\xff\xfe"])
def test_an_unusable_value_changes_nothing(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    cli.make_key()
    monkeypatch.setattr(sys, "stdin", Pipe(content))
    with cli.control_daemon() as daemon:
        line = "credential add gh --kind bearer --origin https://a --stdin"
        code, _, _ = cli.run(*line.split(), passphrase=PASSPHRASE)

        assert [] == daemon.bodies("POST /v1/credentials")
    assert 1 == code


def test_a_basic_value_without_a_user_name_is_refused(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.make_key()
    monkeypatch.setattr(sys, "stdin", Pipe(b"nocolon"))
    with cli.control_daemon():
        line = "credential add ci --kind basic --origin https://a --stdin"
        code, _, err = cli.run(*line.split(), passphrase=PASSPHRASE)

    assert (1, True) == (code, "USERNAME:PASSWORD" in err)
    assert "nocolon" not in err


def test_the_list_shows_names_places_and_ages(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/credentials"] = (200, {"credentials": LISTED})
        code, out, _ = cli.run("credential", "list", passphrase=PASSPHRASE)
        _, machine, _ = cli.run("credential", "list", "--json", passphrase=PASSPHRASE)

    lines = out.splitlines()
    assert 0 == code
    assert "Name  Kind    Bound to                    Version  Put in" == lines[0]
    assert lines[1].startswith("gh    bearer  https://a, https://b\\u{1b}  2        ")
    assert {"credentials": LISTED} == parse_object(machine.encode())


@pytest.mark.parametrize(
    ("line", "verb", "params", "secret"),
    [
        ("rotate gh --stdin", "credential.rotate", {"name": "gh"}, {"token": "u:canary-token-3"}),
        ("rotate ci --stdin", "credential.rotate", {"name": "ci"}, {"username": "u", "password": "canary-token-3"}),
        (
            "rebind hd --origin https://n --stdin",
            "credential.rebind",
            {"name": "hd", "origins": ["https://n"]},
            {"value": "u:canary-token-3"},
        ),
    ],
)
def test_rotating_and_rebinding_ask_for_the_value_by_the_credentials_kind(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    verb: str,
    params: dict[str, JsonValue],
    secret: dict[str, JsonValue],
) -> None:
    cli.make_key()
    monkeypatch.setattr(sys, "stdin", Pipe(b"u:canary-token-3\n"))
    route = f"PUT /v1/credentials/{params['name']}"
    with cli.control_daemon() as daemon:
        daemon.replies["GET /v1/credentials"] = (200, {"credentials": LISTED})
        daemon.replies[route] = (200, {})
        code, _, _ = cli.run("credential", *line.split(), passphrase=PASSPHRASE)
        body = daemon.bodies(route)[0]

    assert 0 == code
    assert (verb, params, secret) == (body["statement"]["verb"], body["statement"]["params"], body["secret"])


def test_removing_asks_first_unless_told_not_to(cli: CommandLine) -> None:
    cli.make_key()
    with cli.control_daemon() as daemon:
        daemon.replies["DELETE /v1/credentials/gh"] = (200, {})

        assert 0 == cli.run("credential", "remove", "gh", "--yes", passphrase=PASSPHRASE)[0]
        assert "credential.remove" == daemon.bodies("DELETE /v1/credentials/gh")[0]["statement"]["verb"]


def test_there_is_no_verb_that_shows_a_value(cli: CommandLine) -> None:
    for verb in ("show", "get", "reveal", "export", "copy"):
        assert 64 == cli.run("credential", verb, "gh")[0]
