"""T18 and T19, of what is kept for diagnosis: no spelling of the credential is in it, on disk or opened.

T38 of it: opened for an approver's own process and nobody else.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker.client.faults import Refused
from tests import canary_scan
from tests.fakes.command_line import KDF
from tests.fakes.upstream import Conversation
from tests.live.house import AGENT, PASSPHRASE, House
from tests.live.rough_upstream import RoughUpstream, misbehaving

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-house"
POLICY = """
version = 1

[[rules]]
id = "free"
services = ["shop"]
approval = "none"

[services.shop]
kind = "http"
base_url = "{origin}"
credential = "shop"
ad_hoc = ["GET", "POST"]
"""


def spellings(value: str) -> list[str]:
    octets = value.encode()
    return [
        value,
        quote(value, safe=""),
        "".join(f"%{octet:02X}" for octet in octets),
        "".join(f"\\u{octet:04x}" for octet in octets),
        octets.hex(),
        octets.hex().upper(),
        *(base64.b64encode(b"x" * shift + octets).decode() for shift in range(3)),
        *(base64.urlsafe_b64encode(b"x" * shift + octets).decode().rstrip("=") for shift in range(3)),
    ]


async def parrot(talk: Conversation) -> None:
    """A failure that gives the credential back in headers and body, in every spelling."""
    await talk.body()
    value = talk.seen.headers["authorization"]
    told = [*spellings(value), *spellings(value.partition(" ")[2])]
    headers = "".join(f"x-echo-{number}: {spelled}\r\n" for number, spelled in enumerate(told))
    body = "\n".join(told).encode()
    head = f"HTTP/1.1 500 No\r\n{headers}content-type: text/plain\r\ncontent-length: {len(body)}\r\n\r\n"
    await talk.send(head.encode())
    await talk.send(body)


async def cut_parrot(talk: Conversation) -> None:
    """An answer that breaks off in the middle of the credential."""
    await talk.body()
    half = talk.seen.headers["authorization"][:-6].encode()
    await talk.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 500\r\n\r\nit was: " + half)
    talk.close()


@pytest.fixture
def upstream() -> Iterator[RoughUpstream]:
    with misbehaving(behaviours={"/say": parrot, "/cut": cut_parrot}) as made:
        yield made


@pytest.fixture
def house(tmp_path: Path, upstream: RoughUpstream) -> Iterator[House]:
    with House(tmp_path / "h", kdf=KDF) as made:  # one that the command line takes
        yield made.init().open(POLICY, origin=upstream.origin)


def failed(house: House, path: str) -> str:
    """The reference of a call that fails."""
    with house.agent() as agent:
        envelope = agent.act(service="shop", method="GET", path=path)
    assert not envelope["ok"]
    reference: str = envelope["diagnostics_ref"]
    assert reference.startswith("diag_"), envelope
    return reference


def cleartext(value: object) -> str:
    """All text of a document, what is in base64 as well."""
    if isinstance(value, dict):
        return "\n".join(cleartext(item) for item in value.values())
    if isinstance(value, list):
        return "\n".join(map(cleartext, value))
    return str(value)


def show(house: House, reference: str, *more: str) -> "subprocess.CompletedProcess[str]":
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode() + b"\n")
    os.close(writing)
    words = ["-I", "-m", "broker.cli", "diagnostics", "show", reference, "--passphrase-fd", str(reading), *more]
    try:
        return subprocess.run(
            [sys.executable, *words], env=house.environ, pass_fds=[reading], capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
    finally:
        os.close(reading)


def test_a_failure_that_echoes_the_credential_is_kept_without_it(house: House) -> None:
    reference = failed(house, "/say")
    kept: Any = house.human.client.diagnostic(reference)
    by_cli = show(house, reference)

    assert 0 == by_cli.returncode, by_cli.stderr
    assert ("confirmed_failure", 500) == (kept["category"], kept["http"]["status"])
    assert len(spellings(TOKEN)) * 2 <= len(kept["http"]["headers"])
    for told in (cleartext(kept), json.dumps(kept), by_cli.stdout):
        assert [] == canary_scan.hits(told.encode())
        assert "[redacted]" in told


def test_an_answer_that_broke_off_in_the_credential_keeps_no_part_of_it(house: House) -> None:
    kept: Any = house.human.client.diagnostic(failed(house, "/cut"))

    assert "it was: Bearer " == kept["http"]["body"]["text"]
    assert ("truncated", 200, False) == (kept["fault"], kept["http"]["status"], kept["http"]["body"]["complete"])


@pytest.mark.parametrize("end", ["running", "killed"])
def test_nothing_of_it_is_in_clear_on_the_disk(house: House, end: str) -> None:
    for path in ("/say", "/cut"):
        failed(house, path)
    if end == "killed":
        house.kill()

    assert 2 == len(list(house.places.diagnostics.iterdir()))
    for file in house.places.data.rglob("*"):
        if file.is_file():
            assert [] == canary_scan.scan_file(file), file
            assert b"it was" not in file.read_bytes(), file


def test_it_is_kept_while_the_vault_locks_and_opened_after_the_unlock(house: House) -> None:
    reference = failed(house, "/cut")
    house.human.client.lock()
    with pytest.raises(Refused) as locked:
        house.human.client.diagnostic(reference)
    house.human.unlock()
    house.human.open_session()

    assert locked.value.code in {"vault_locked", "control_session_required"}
    assert reference == house.human.client.diagnostic(reference)["ref"]


def test_another_process_and_an_agent_open_nothing(house: House) -> None:
    reference = failed(house, "/cut")
    words = [sys.executable, "-I", str(AGENT), house.places.control_socket, "GET", f"/v1/diagnostics/{reference}"]
    stranger = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)
    with house.agent() as agent:
        by_its_socket = agent.ask("GET", f"/v1/diagnostics/{reference}")
        by_ours = agent.child(house.places.control_socket, "GET", f"/v1/diagnostics/{reference}")

    assert (401, "control_session_required") == (stranger["status"], stranger["value"]["error"]["code"])
    assert 404 == by_its_socket["status"]
    assert 401 <= by_ours["status"] <= 403


def test_a_name_that_nothing_is_under_is_said_in_words(house: House) -> None:
    with pytest.raises(Refused, match="kept for 30 days") as told:
        house.human.client.diagnostic("diag_" + "0" * 40)
    assert "unknown" == told.value.code


def test_an_item_that_somebody_swapped_is_told_as_damaged(house: House) -> None:
    first, second = failed(house, "/cut"), failed(house, "/cut")
    (house.places.diagnostics / first).write_bytes((house.places.diagnostics / second).read_bytes())

    with pytest.raises(Refused, match="not what was kept") as told:
        house.human.client.diagnostic(first)
    assert "damaged" == told.value.code
    assert 1 == show(house, first).returncode


def test_the_record_of_the_outcome_names_it(house: House) -> None:
    reference = failed(house, "/cut")
    (ended,) = house.human.events("action.result")

    assert reference == ended["fields"]["diagnostics_ref"]
