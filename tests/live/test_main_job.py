import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import nginx
from tests.live.house import ROOT, House, open_house
from tests.live.nginx import Nginx

pytestmark = pytest.mark.live

TOKEN = "canary-token-of-the-live-nginx"
POLICY = """
version = 1

[[rules]]
id = "look"
services = ["things"]
effects = ["read"]
approval = "session"

[[rules]]
id = "change"
services = ["things"]
effects = ["write"]
approval = "per_call"

[services.things]
kind = "http"
base_url = "{origin}"
credential = "things"
ad_hoc = ["GET"]
tls = {{ ca = "ca.pem" }}

[services.things.operations."items.list"]
request = {{ method = "GET", path = "/v1/items" }}
effect = "read"

[services.things.operations."items.list".completeness]
complete_when = "type(json.items) == 'array' && json.more == `false`"
examples.match = [{{ status = 200, json = {{ items = [], more = false }} }}]
examples.no_match = [{{ status = 200, json = {{ items = [], more = true }} }}]

[services.things.operations."things.create"]
request = {{ method = "POST", path = "/v1/things", body = "object" }}
effect = "write"
success = {{ statuses = [201] }}

[services.things.operations."things.delete"]
request = {{ method = "DELETE", path = "/v1/things/{{id}}" }}
effect = "write"
destructive = true
targets = ["id"]
"""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    far_side = tmp_path_factory.mktemp("nginx") / "far_side"
    far_side.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-I", str(ROOT / "packaging/demo/certificates.py"), str(far_side)], check=True)
    with nginx.running(
        far_side / "run",
        certificate=far_side / "server.pem",
        key=far_side / "server.key",
        ca_pem=(far_side / "ca.pem").read_bytes(),
        token=TOKEN,
    ) as server:
        yield server


@pytest.fixture
def house(tmp_path: Path, upstream: Nginx) -> Iterator[House]:
    with open_house(tmp_path / "h") as ready:
        human = ready.human
        human.add_bearer("things", TOKEN, upstream.origin)
        (ready.places.policies / "ca.pem").write_bytes(upstream.ca_pem)
        (ready.places.policies / "ca.pem").chmod(0o600)
        human.write_policy("things.toml", POLICY.format(origin=upstream.origin))
        human.trust()
        yield ready


def test_a_read_is_asked_once_in_a_session_and_goes_out_with_the_credential(house: House) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="things", operation="items.list", args={})
        house.human.approve(house.human.wait_for_card(), scope="session")
        first = agent.end_act(asked)
        second = agent.act(service="things", method="GET", path="/v1/items")

    assert {"items": [{"id": "i-1"}], "more": False} == first["http"]["body_json"]
    assert ("success", "none", True) == (first["category"], first["remote_effect"], first["completeness"]["complete"])
    assert ("granted", "things.items.list") == (second["gate"]["session"], second["operation"])
    assert TOKEN not in json.dumps([first, second])


def test_a_new_process_inherits_nothing(house: House) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="things", operation="items.list", args={})
        house.human.approve(house.human.wait_for_card(), scope="session")
        assert agent.end_act(asked)["ok"]
    with house.agent() as another:
        asked = another.begin_act(service="things", operation="items.list", args={})
        house.human.deny(house.human.wait_for_card(), reason="not you")
        told = another.end_act(asked)

    assert ("session_denied", "declined", "none") == (told["category"], told["code"], told["remote_effect"])


def test_a_write_is_approved_once_and_the_next_one_is_asked_again(house: House) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="things", operation="things.create", args={"name": "a"})
        house.human.approve(house.human.wait_for_card())
        first = agent.end_act(asked)
        asked = agent.begin_act(service="things", operation="things.create", args={"name": "a"})
        house.human.deny(house.human.wait_for_card())
        second = agent.end_act(asked)

    assert ("success", "applied", "granted") == (first["category"], first["remote_effect"], first["gate"]["call"])
    assert ("call_denied", "none", "denied") == (second["category"], second["remote_effect"], second["gate"]["call"])


def test_a_denied_write_leaves_no_line_in_the_log_of_nginx(house: House, upstream: Nginx) -> None:
    before = upstream.requests()
    with house.agent() as agent:
        asked = agent.begin_act(service="things", operation="things.delete", args={"id": "7"})
        house.human.deny(house.human.wait_for_card(), reason="stays")
        told = agent.end_act(asked)

    assert "call_denied" == told["category"]
    assert "stays" in told["message"]
    assert before == upstream.requests()


def test_an_echoed_credential_is_scrubbed_and_said_to_be(house: House) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="things", method="GET", path="/v1/echo")
        house.human.approve(house.human.wait_for_card())
        told = agent.end_act(asked)

    assert {"you_sent": "Bearer [redacted]"} == told["http"]["body_json"]
    assert "done" == told["scrub"]["state"]


def test_a_redirect_is_not_followed(house: House, upstream: Nginx) -> None:
    with house.agent() as agent:
        asked = agent.begin_act(service="things", method="GET", path="/v1/moved")
        house.human.approve(house.human.wait_for_card())
        told = agent.end_act(asked)

    assert ("confirmed_failure", "redirect_not_followed") == (told["category"], told["code"])
    assert not any('"GET /v1/items' in line for line in upstream.requests()[-1:])


def test_a_server_of_another_ca_gets_no_byte_of_the_request(house: House, upstream: Nginx) -> None:
    (house.places.policies / "ca.pem").write_bytes(_other_ca(house.places.data))
    house.human.trust()
    before = upstream.requests()
    with house.agent() as agent:
        asked = agent.begin_act(service="things", operation="items.list", args={})
        house.human.approve(house.human.wait_for_card())
        told = agent.end_act(asked)

    assert ("local_failure", "tls_untrusted", "after_human") == (told["category"], told["code"], told["retry"])
    assert before == upstream.requests()


def test_the_log_verifies_offline_and_an_altered_copy_does_not(house: House, tmp_path: Path) -> None:
    with house.agent() as agent:
        agent.act(service="things", operation="items.list", args={}, wait_s=0)
    house.stop()
    verify = [sys.executable, "-I", "-m", "broker.cli", "audit", "verify"]

    whole = subprocess.run([*verify, "--json"], env=house.environ, capture_output=True, check=False, timeout=60)
    copy = tmp_path / "copy"
    shutil.copytree(house.places.audit, copy)
    octets = bytearray((copy / "00000001.seg").read_bytes())
    octets[-200] ^= 1
    (copy / "00000001.seg").write_bytes(octets)
    altered = subprocess.run(
        [*verify, str(copy), "--pin", str(house.places.pin), "--json"],
        env=house.environ,
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert (0, "OK") == (whole.returncode, json.loads(whole.stdout)["verdict"])
    assert (44, "ALTERED") == (altered.returncode, json.loads(altered.stdout)["verdict"])


def _other_ca(place: Path) -> bytes:
    other = place / "other"
    other.mkdir()
    subprocess.run([sys.executable, "-I", str(ROOT / "packaging/demo/certificates.py"), str(other)], check=True)
    return (other / "ca.pem").read_bytes()
