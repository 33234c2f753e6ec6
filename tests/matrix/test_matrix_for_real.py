"""The matrix as it is run from the command line: founding cases, HTTP at each point, agents; and what a lie does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from broker.matrix.cases import load
from broker.matrix.points import HTTP

pytestmark = pytest.mark.live

CASES = Path(__file__).with_name("cases")
FILES = [CASES / f"{name}.yaml" for name in ("founding", "http", "agents")]
LIMIT_S = 900.0


def matrix(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-I", "-m", "broker.cli", "matrix", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_every_case_holds_and_both_reports_say_so(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    done = matrix("run", *map(str, FILES), "--json", "--junit", str(report))
    told = json.loads(done.stdout)

    assert [] == [(row["id"], row["breaches"]) for row in told["cases"] if not row["holds"]]
    assert (0, True, len(load(FILES))) == (done.returncode, told["ok"], told["total"])
    suites = ET.parse(report).getroot()  # noqa: S314 - it is our own
    assert {"founding", "http", "agents"} == {suite.get("name") for suite in suites}
    assert told["total"] == sum(int(suite.get("tests", 0)) for suite in suites)
    assert "canary-" not in done.stdout + report.read_text()


def test_every_fault_point_of_http_has_a_case_of_each_kind_and_of_each_change() -> None:
    cases = [one for one in load([CASES / "http.yaml"]) if one.fault is not None]
    found = {(one.id.partition("-")[0], one.fault.point, one.fault.kind) for one in cases if one.fault is not None}

    for subject in ("read", "money"):
        assert [] == [
            (point, kind) for point, kinds in HTTP.items() for kind in kinds if (subject, point, kind) not in found
        ]
    for subject in ("role", "rotation", "shared"):
        assert set(HTTP) == {point for whose, point, _ in found if whose == subject}


LIAR = """
cases:
  - id: {name}
    request: {{method: GET, path: /v1/things/1}}
    fixture_response: {{status: 403, body: {{error: no}}}}
    expect: {{category: authorization_denied, retry: never, {lie}}}
"""
LIES: dict[str, str] = {
    "code": "code: scope",
    "effect": "remote_effect: applied",
    "arrivals": "remote: {received: 2}",
    "trail": "events: [dispatch.started, deadline.expired]",
    "prompts": "prompts: {number: 1}",
    "secret": "secret_in_result: true",
}


def test_a_case_that_does_not_hold_makes_it_red_and_tells_which_assertion(tmp_path: Path) -> None:
    file, report = tmp_path / "lies.yaml", tmp_path / "report.xml"
    rows = [LIAR.format(name=name, lie=lie).removeprefix("\ncases:\n") for name, lie in LIES.items()]
    file.write_text("cases:\n" + "".join(rows))
    done = matrix("run", str(file), "--json", "--junit", str(report))
    told: dict[str, Any] = {row["id"]: row["breaches"] for row in json.loads(done.stdout)["cases"]}

    assert 1 == done.returncode
    assert {"code": "result", "effect": "result", "arrivals": "remote"} | {
        "trail": "trail", "prompts": "trail", "secret": "secret",
    } == {name: breaches[0]["assertion"] for name, breaches in told.items()}  # fmt: skip
    assert len(LIES) == len(ET.parse(report).getroot().findall("testsuite/testcase/failure"))  # noqa: S314 - our own


def test_what_can_not_be_run_is_a_fault_of_usage_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("cases:\n  - {id: a, request: {}, expect: {category: succes, retry: never}}\n")
    wrong, nothing = matrix("run", str(file)), matrix("run", str(FILES[0]), "--only", "nobody")

    assert (64, 64) == (wrong.returncode, nothing.returncode)
    assert f"{file}:2: category is 'succes' (expected: " in wrong.stderr
    assert "there is no such case" in nothing.stderr


def test_the_state_is_kept_where_that_is_asked_for_and_the_table_is_by_group(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(
        "group: mine\ncases:\n  - id: a\n    repeat: 3\n    request: {method: GET, path: /x}\n"
        "    fixture_response: {status: 404, body: {}}\n    expect: {category: confirmed_failure, retry: never}\n"
    )
    done = matrix("run", str(file), "--keep")
    kept = Path(done.stderr.rpartition(" ")[2].strip())

    assert 0 == done.returncode, done.stdout
    assert ["mine", "1", "1", "3"] == done.stdout.splitlines()[1].split()[:4]
    assert any(kept.rglob("audit.pin"))
    assert b"canary-" not in b"".join(path.read_bytes() for path in kept.rglob("*") if path.is_file())


def test_the_far_sides_can_be_served_alone(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(
        "cases:\n  - id: alone\n    request: {method: POST, path: /x}\n"
        "    fixture_response: {status: 201, body: {id: 1}}\n    expect: {category: success, retry: never}\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-m", "broker.cli", "matrix", "serve", str(file)], stdout=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        rows = iter(json.loads(line) for line in serving.stdout)
        url = next(row["base_urls"][0] for row in rows if row.get("case") == "alone")
        done = subprocess.run(
            [sys.executable, "-c", f"import urllib.request as u; print(u.urlopen({url + '/x'!r}, b'{{}}').status)"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        seen = [next(rows) for _ in range(3)]
        serving.terminate()

    assert "201" == done.stdout.strip(), done.stderr
    assert ["received", "committed", "answered"] == [row["what"] for row in seen]
    assert 0 == serving.returncode
