"""From nothing to a trusted policy, with the real daemon's program behind each verb."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker.client.approver import read_key_file
from broker.contract.wire import JsonValue, parse_object
from tests.fakes.command_line import PASSPHRASE, CommandLine, status

pytestmark = pytest.mark.live

TOKEN = "canary-token-for-setup-0001"
SETUP = ("setup", "github", "--kdf-cost", "least", "--yes", "--from-env", "A_TOKEN")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state made by `setup github`, to be copied."""
    home = tmp_path_factory.mktemp("finished")
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode() + b"\n")
    os.close(writing)
    done = subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", *SETUP, "--passphrase-fd", str(reading)],
        env={**os.environ, "DOORWARD_HOME": str(home), "A_TOKEN": TOKEN},
        pass_fds=(reading,),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(reading)
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    return home


@pytest.fixture
def ready(cli: CommandLine, finished: Path) -> CommandLine:
    """A state of this test's own; no daemon runs."""
    shutil.copytree(finished, cli.home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
    return cli


def everything_in(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_setup_makes_everything_and_ends_with_the_next_two_lines(ready: CommandLine) -> None:
    code, out, _ = ready.run("credential", "list", "--json", passphrase=PASSPHRASE)

    listed = parse_object(out.encode())["credentials"]
    assert isinstance(listed, list)
    assert 0 == code
    assert [("github", "bearer", ["https://api.github.com"])] == [
        (item["name"], item["kind"], item["origins"]) for item in listed if isinstance(item, dict)
    ]
    assert {"agents.toml", "github.toml", "policy.schema.json"} == {
        path.name for path in ready.places.policies.iterdir()
    }
    assert TOKEN.encode() not in everything_in(ready.home)
    assert PASSPHRASE.encode() not in everything_in(ready.home)


def test_setup_again_leaves_what_is_there(ready: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_key_file(ready.places.approver_key).public_key
    monkeypatch.setenv("A_TOKEN", TOKEN)
    code, out, _ = ready.run(*SETUP, passphrase=PASSPHRASE)

    assert 0 == code
    assert 3 == out.count("it was left as it is")
    assert "nothing to trust" in out
    assert out.splitlines()[-2:] == ["  doorward up", "  doorward http GET github /"]
    assert before == read_key_file(ready.places.approver_key).public_key


def test_setup_after_a_missing_value_can_be_run_again(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 64 == cli.run(*SETUP, passphrase=PASSPHRASE)[0]
    assert not cli.places.vault.exists()
    monkeypatch.setenv("A_TOKEN", TOKEN)
    assert 0 == cli.run(*SETUP, passphrase=PASSPHRASE)[0]


def test_init_refuses_where_state_exists(ready: CommandLine) -> None:
    before = everything_in(ready.places.data)
    code, _, err = ready.run("init", "--kdf-cost", "least", passphrase=PASSPHRASE)

    assert (1, True) == (code, "state already" in err)
    assert before == everything_in(ready.places.data)


def test_init_alone_makes_vault_log_and_key(cli: CommandLine) -> None:
    code, out, err = cli.run("init", "--kdf-cost", "least", "--json", passphrase=PASSPHRASE)
    told = parse_object(out.encode())
    key = read_key_file(cli.places.approver_key)

    assert (0, "") == (code, err)
    assert (key.log_id, key.key_id) == (told["log_id"], told["key_id"])
    assert 0o600 == cli.places.approver_key.stat().st_mode & 0o777


def test_a_wrong_passphrase_starts_no_daemon_and_is_exit_1(ready: CommandLine) -> None:
    before = everything_in(ready.places.data)
    code, out, err = ready.run("credential", "list", passphrase="not the one")

    assert (1, "") == (code, out)
    assert "passphrase" in err
    assert before == everything_in(ready.places.data)


def test_verbs_without_a_daemon_leave_none_behind(ready: CommandLine) -> None:
    assert 0 == ready.run("policy", "diff", passphrase=PASSPHRASE)[0]
    assert 0 == ready.run("audit", "show", "--limit", "3", passphrase=PASSPHRASE)[0]
    code, out, _ = ready.run("audit", "show", passphrase=PASSPHRASE)
    assert (0, True) == (code, "vault.created" in out)  # a young log has less than is asked for
    assert 31 == ready.run("status")[0]


def test_the_log_verifies_and_an_altered_copy_does_not(ready: CommandLine) -> None:
    code, out, _ = ready.run("audit", "verify", "--json")
    copy = ready.home / "copy"
    shutil.copytree(ready.places.audit, copy)
    segment = next(copy.glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)

    assert (0, "OK") == (code, parse_object(out.encode())["verdict"])
    pinned = ("--pin", str(ready.places.pin), "--anchor", str(ready.places.anchor_head))
    assert 0 == ready.run("audit", "verify", str(ready.places.audit), *pinned)[0]
    assert 40 == ready.run("audit", "verify", str(ready.places.audit))[0]
    found, told, _ = ready.run("audit", "verify", str(copy), *pinned)
    assert 41 < found < 52
    assert told.startswith("x ")


@pytest.mark.parametrize(
    "line",
    [
        ["--pin", "/does/not/exist"],
        ["--anchor", "/does/not/exist"],
        ["--checkpoint", "/does/not/exist"],
    ],
)
def test_a_witness_that_is_not_there_is_usage(ready: CommandLine, line: list[str]) -> None:
    assert 64 == ready.run("audit", "verify", *line)[0]


@pytest.mark.parametrize("line", [["--limit", "0"], ["--limit", "x"], ["--after-seq", "-1"]])
def test_a_number_of_events_that_means_nothing_is_usage(cli: CommandLine, line: list[str]) -> None:
    code, _, err = cli.run("audit", "show", *line)

    assert (64, True) == (code, line[0] in err)


def test_a_log_that_is_not_there_is_told(cli: CommandLine) -> None:
    assert 50 == cli.run("audit", "verify")[0]


def test_the_doctor_finds_a_fresh_state_in_order(ready: CommandLine) -> None:
    code, out, _ = ready.run("doctor")

    assert 0 == code, out
    assert "+ permissions" in out
    assert "+ audit log      OK" in out
    assert "! daemon         none is running" in out
    assert out.splitlines()[-1].startswith("0 faults, ")


def test_the_doctor_wants_the_state_directory_as_closed_as_the_daemon_does(ready: CommandLine) -> None:
    ready.places.data.chmod(0o755)
    code, out, _ = ready.run("doctor")

    assert 1 == code
    assert f"mend: chmod 700 {ready.places.data}\n" in out


def test_the_doctor_names_each_fault_and_how_to_mend_it(ready: CommandLine) -> None:
    ready.places.vault.chmod(0o644)
    ready.places.policies.chmod(0o777)
    ready.places.anchor_head.unlink()
    ready.places.approver_key.unlink()
    code, out, _ = ready.run("doctor", "--json")

    findings = parse_object(out.encode())["findings"]
    assert isinstance(findings, list)
    faults = [item for item in findings if isinstance(item, dict) and item["level"] == "fault"]
    assert 1 == code
    assert {"permissions", "policy files", "audit log", "approver key"} == {item["check"] for item in faults}
    assert all(item["mend"] for item in faults)
    assert f"chmod 600 {ready.places.vault}" in [item["mend"] for item in faults]


HOSTS = """version = 1
[services.web]
kind = "ssh"
credential = "deploy"
user = "deploy"
host_keys = "{trust}"
hosts = {{ {hosts} }}
"""


@pytest.mark.parametrize(
    ("trust", "count", "told"),
    [
        ("accept-new", 2, "! ssh hosts      the first key of web-0, web-1 is taken as a human sees it"),
        ("accept-new", 7, "web-3, web-4 and 2 more is taken"),
        ("pinned:SHA256:" + "A" * 43, 1, "+ ssh hosts      the keys of all 1 hosts are pinned"),
    ],
)
def test_the_doctor_says_how_hosts_are_known(ready: CommandLine, trust: str, count: int, told: str) -> None:
    hosts = ", ".join(f'web-{number} = {{ address = "web-{number}.example" }}' for number in range(count))
    path = ready.places.policies / "hosts.toml"
    path.write_text(HOSTS.format(trust=trust, hosts=hosts), encoding="utf-8")
    path.chmod(0o600)
    code, out, _ = ready.run("doctor")

    assert (0, True) == (code, told in out), out


def test_the_doctor_without_state_says_how_to_begin(cli: CommandLine) -> None:
    code, out, _ = cli.run("doctor")

    assert 1 == code
    assert "doorward setup github" in out


def test_up_needs_a_vault_and_a_terminal(cli: CommandLine) -> None:
    code, _, err = cli.run("up", passphrase=PASSPHRASE)

    assert (1, True) == (code, "doorward setup" in err)


def test_up_without_a_terminal_names_the_verbs_for_it(ready: CommandLine) -> None:
    code, _, err = ready.run("up", passphrase=PASSPHRASE)

    assert (64, True) == (code, "doorward serve" in err)


def test_a_pattern_is_not_set_up_but_explained(cli: CommandLine) -> None:
    code, _, err = cli.run("setup", "generic-rest", passphrase=PASSPHRASE)

    assert (64, True) == (code, "doorward policy add generic-rest" in err)
    assert not cli.places.vault.exists()
    helped = " ".join(cli.run("setup", "--help")[1].split())
    packs = (
        "agents, aws, cloudflare, elasticsearch, github, gitlab, google, jira, kubernetes, microsoft-graph, "
        "prometheus, slack, stripe"
    )
    assert f"one of: {packs} options:" in helped
    assert 64 == cli.run("setup", "no-such-pack")[0]


def doctored(ready: CommandLine, in_force: dict[str, JsonValue], changes: dict[str, JsonValue]) -> tuple[int, str]:
    """What the doctor says of a good state and a daemon that answers so."""
    log_id = read_key_file(ready.places.approver_key).log_id
    with ready.control_daemon() as control, ready.agent_daemon():
        control.replies["GET /v1/status"] = (200, {**status(log_id=log_id), **changes})
        control.replies["GET /v1/policy"] = (200, in_force)
        code, out, _ = ready.run("doctor")
    return code, out


def test_the_doctor_names_a_credential_that_is_not_bound(ready: CommandLine) -> None:
    service: dict[str, JsonValue] = {
        "name": "deploy",
        "base_url": "https://deploy.example/v2",
        "credential": "deploy-prod",
        "bound": False,
    }
    code, out = doctored(
        ready, {"services": [service, {**service, "bound": True}, {**service, "credential": None}]}, {}
    )

    assert 1 == code
    assert 1 == out.count("service deploy needs credential deploy-prod")
    assert "doorward credential add deploy-prod --kind bearer --origin https://deploy.example/v2" in out


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vault": {"state": "locked", "term": 1}}, "! vault          locked: nothing runs"),
        ({"policy": {"digest": None, "counter": 0, "pending": True}}, "! policy         none is trusted yet"),
        ({"policy": {"digest": "x", "counter": 1, "pending": True}}, "! policy         the files differ"),
        ({"warnings": ["odd \x1b"]}, "! daemon         odd \\u{1b}"),
        ({"operations": {"in_doubt": 2}}, "! in doubt       2 changes"),
    ],
)
def test_the_doctor_passes_on_what_the_daemon_is_short_of(
    ready: CommandLine, changes: dict[str, JsonValue], told: str
) -> None:
    code, out = doctored(ready, {"services": []}, changes)

    assert 0 == code
    assert told in out


def test_the_doctor_finds_a_socket_of_doubtful_mode(ready: CommandLine) -> None:
    with ready.control_daemon() as control, ready.agent_daemon():
        control.path.chmod(0o666)
        code, out, _ = ready.run("doctor")

        assert [] == control.asked
    assert 1 == code
    assert "written by others" in out
