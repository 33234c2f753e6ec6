"""The shipped packs, and services without one, against servers of other makers, through the real daemon.

moto checks the signatures of AWS, Prometheus and nginx a user name and a password, etcd a token.
"""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import botocore.session  # type: ignore[import-untyped]
import pytest

from tests.live import far_servers
from tests.live.house import ROOT, Agent, House, open_house
from tests.live.test_http_stream import cli

pytestmark = pytest.mark.live

REGION = "us-east-1"
PASSWORD = "canary-password-of-a-server"


def pack(name: str, origins: Mapping[str, str]) -> str:
    """A shipped pack that asks nobody, with other places and a credential for each service."""
    text = (ROOT / "policies" / f"{name}.toml").read_text(encoding="utf-8")
    for rule in ("session", "per_call"):
        text = text.replace(f'approval = "{rule}"', 'approval = "none"')
    out = []
    service = ""
    for line in text.splitlines():
        if line.startswith("[services."):
            service = line[len("[services.") :].split(".")[0].rstrip("]")
        if line.startswith("base_url = ") and service in origins:
            line = f'base_url = "{origins[service]}"'  # noqa: PLW2901 - the line as it is used here
        if line.startswith("credential = ") and service in origins:
            line = f'credential = "{service}"'  # noqa: PLW2901 - likewise
        out.append(line)
    return "\n".join(out)


@contextmanager
def asking(house: House, policy: str) -> Iterator[Agent]:
    house.human.write_policy("pack.toml", policy)
    house.human.trust()
    with house.agent() as agent:
        yield agent


def told(envelope: dict[str, Any]) -> tuple[str, str]:
    return envelope["category"], envelope["code"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path / "h") as ready:
        yield ready


def test_aws_by_its_pack_with_signatures_that_are_checked(tmp_path: Path, house: House) -> None:
    with far_servers.moto(tmp_path / "moto") as origin:
        key_id, secret = user_of(origin)
        for service in ("s3", "dynamodb", "sqs"):
            house.human.client.add_credential(
                {"name": service, "kind": "sigv4", "origins": [origin], "region": REGION, "aws_service": service},
                {"access_key_id": key_id, "secret_access_key": secret},
                house.human.key,
            )
        client = house.human.client
        bad = {"access_key_id": key_id, "secret_access_key": "canary/not+the/right+key"}
        with asking(house, pack("aws", dict.fromkeys(("s3", "dynamodb", "sqs"), origin))) as agent:
            s3(agent)
            dynamodb(agent)
            sqs(agent)
            client.rotate_credential("s3", bad, house.human.key)
            refused = agent.act(service="s3", operation="objects.get", args={"bucket": "shelf", "key": "a b/c.txt"})
            assert ("authentication_failed", "rejected") == told(refused)
            assert secret not in json.dumps(refused)


def user_of(origin: str) -> tuple[str, str]:
    """A user who may do everything, and a bucket, a table and a queue; made before moto begins to check."""

    def made(service: str) -> Any:
        return botocore.session.get_session().create_client(
            service, REGION, endpoint_url=origin, aws_access_key_id="canary", aws_secret_access_key="canary"
        )

    iam = made("iam")
    iam.create_user(UserName="agent")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_user_policy(UserName="agent", PolicyName="all", PolicyDocument=json.dumps(everything))
    key = iam.create_access_key(UserName="agent")["AccessKey"]
    with_key = botocore.session.get_session()

    def own(service: str) -> Any:
        return with_key.create_client(
            service,
            REGION,
            endpoint_url=origin,
            aws_access_key_id=key["AccessKeyId"],
            aws_secret_access_key=key["SecretAccessKey"],
        )

    own("s3").create_bucket(Bucket="shelf")
    own("dynamodb").create_table(
        TableName="books",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    own("sqs").create_queue(QueueName="post")
    return key["AccessKeyId"], key["SecretAccessKey"]


def s3(agent: Agent) -> None:
    put = agent.act(service="s3", method="PUT", path="/shelf/a%20b/c.txt", body="some text")
    got = agent.act(service="s3", operation="objects.get", args={"bucket": "shelf", "key": "a b/c.txt"})
    listed = agent.act(service="s3", operation="objects.list", args={"bucket": "shelf"})
    none = agent.act(service="s3", operation="objects.get", args={"bucket": "shelf", "key": "none"})

    assert ("success", "ok") == told(put), put
    assert ("success", "some text") == (got["category"], got["http"]["body"])
    assert ("success", True) == (listed["category"], listed["completeness"]["complete"]), listed
    assert "a b/c.txt" in json.dumps(listed["http"]) or "a%20b/c.txt" in json.dumps(listed["http"])
    assert "confirmed_failure" == none["category"], none


def dynamodb(agent: Agent) -> None:
    item = {"id": {"S": "b-1"}, "title": {"S": "ünïcode"}}
    put = agent.act(service="dynamodb", operation="items.put", args={"TableName": "books", "Item": item})
    got = agent.act(service="dynamodb", operation="items.get", args={"TableName": "books", "Key": {"id": {"S": "b-1"}}})

    assert ("success", "ok") == told(put), put
    assert ("success", item) == (got["category"], got["http"]["body_json"]["Item"]), got


def sqs(agent: Agent) -> None:
    listed = agent.act(service="sqs", operation="queues.list", args={})
    (url,) = listed["http"]["body_json"]["QueueUrls"]
    sent = agent.act(service="sqs", operation="messages.send", args={"QueueUrl": url, "MessageBody": "hello"})
    got = agent.act(service="sqs", operation="messages.receive", args={"QueueUrl": url})

    assert ("success", "ok") == told(sent), sent
    assert "hello" == got["http"]["body_json"]["Messages"][0]["Body"], got


def test_prometheus_by_its_pack(tmp_path: Path, house: House) -> None:
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    with far_servers.prometheus(tmp_path / "prometheus", users={"reader": hashed}) as origin:
        house.human.client.add_credential(
            {"name": "prometheus", "kind": "basic", "origins": [origin]},
            {"username": "reader", "password": PASSWORD},
            house.human.key,
        )
        policy = pack("prometheus", {"prometheus": origin}).replace(
            'credential = "prometheus"', 'credential = "prometheus"\nprobe = "targets.list"'
        )
        with asking(house, policy) as agent:
            found = agent.act(service="prometheus", operation="query", args={"query": "vector(1)"})
            wrong = agent.act(service="prometheus", operation="query", args={"query": "vector("})
            valid = house.human.client.check_credential("prometheus")
            house.human.client.rotate_credential(
                "prometheus", {"username": "reader", "password": "canary-wrong-password"}, house.human.key
            )
            refused = agent.act(service="prometheus", operation="query", args={"query": "up"})
            invalid = house.human.client.check_credential("prometheus")
            house.human.write_policy("pack.toml", policy.replace('probe = "targets.list"', ""))
            house.human.trust()
            unknown = house.human.client.check_credential("prometheus")

    assert ["valid", "invalid", "unknown"] == [one["verdict"] for one in (valid, invalid, unknown)]
    assert ("success", True) == (found["category"], found["completeness"]["complete"]), found
    assert "1" == found["http"]["body_json"]["data"]["result"][0]["value"][1]
    assert "confirmed_failure" == wrong["category"]
    assert ("authentication_failed", "rejected") == told(refused)


ETCD = """
version = 1

[[rules]]
id = "free"
approval = "none"

[services.etcd]
kind = "http"
base_url = "{origin}"
credential = "etcd"

[services.etcd.operations."keys.put"]
request = {{ method = "POST", path = "/v3/kv/put", body = ["key", "value"], required = ["key", "value"] }}
effect = "write"
change_key = ["key", "value"]

[services.etcd.operations."keys.get"]
request = {{ method = "POST", path = "/v3/kv/range", body = ["key"], required = ["key"] }}
effect = "read"
"""


def post(url: str, body: object) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - likewise
        return json.loads(answer.read())


def test_etcd_with_a_token_in_a_header(tmp_path: Path, house: House) -> None:
    with far_servers.etcd(tmp_path / "etcd") as origin:
        post(f"{origin}/v3/auth/user/add", {"name": "root", "password": PASSWORD})
        post(f"{origin}/v3/auth/user/grant", {"user": "root", "role": "root"})
        post(f"{origin}/v3/auth/enable", {})
        token = post(f"{origin}/v3/auth/authenticate", {"name": "root", "password": PASSWORD})["token"]
        house.human.client.add_credential(
            {"name": "etcd", "kind": "header", "header": "Authorization", "origins": [origin]},
            {"value": token},
            house.human.key,
        )
        with asking(house, ETCD.format(origin=origin)) as agent:
            put = agent.act(service="etcd", operation="keys.put", args={"key": "Zm9v", "value": "YmFy"})
            got = agent.act(service="etcd", operation="keys.get", args={"key": "Zm9v"})
            house.human.client.rotate_credential("etcd", {"value": "canary-token-of-nobody.1"}, house.human.key)
            refused = agent.act(service="etcd", operation="keys.get", args={"key": "Zm9v"})

    assert ("success", "ok") == told(put), put
    assert "YmFy" == got["http"]["body_json"]["kvs"][0]["value"]
    assert "authentication_failed" == refused["category"], refused


GIT = """
version = 1

[[rules]]
id = "free"
approval = "none"

[services.git]
kind = "http"
base_url = "{origin}"
credential = "git"
tls = {{ ca = "ca.pem" }}
ad_hoc = ["GET", "POST"]
"""


def test_git_over_https_with_a_password(tmp_path: Path, house: House) -> None:
    made = far_servers.certificates(tmp_path / "certificates")
    head = repository(tmp_path / "repos" / "a.git")
    with far_servers.git(tmp_path / "nginx", tmp_path / "repos", made, user="ada", password=PASSWORD) as origin:
        house.human.client.add_credential(
            {"name": "git", "kind": "basic", "origins": [origin]},
            {"username": "ada", "password": PASSWORD},
            house.human.key,
        )
        house.places.policies.mkdir(parents=True, exist_ok=True, mode=0o700)
        (house.places.policies / "ca.pem").write_bytes((made / "ca.pem").read_bytes())
        (house.places.policies / "ca.pem").chmod(0o600)
        house.human.write_policy("git.toml", GIT.format(origin=origin))
        house.human.trust()
        refs = cli(house, "http", "GET", "git", "/a.git/info/refs?service=git-upload-pack", "--output", "-")
        want = f"0032want {head}\n00000009done\n".encode()
        pulled = cli(
            house, "http", "POST", "git", "/a.git/git-upload-pack", "--upload", "-", "--output", "-",
            "-H", "content-type: application/x-git-upload-pack-request", stdin=want,
        )  # fmt: skip

    assert (0, True) == (refs.returncode, head.encode() in refs.stdout), refs.stderr
    assert 0 == pulled.returncode, pulled.stderr
    (tmp_path / "got.pack").write_bytes(pulled.stdout.partition(b"PACK")[1] + pulled.stdout.partition(b"PACK")[2])
    subprocess.run(["git", "index-pack", str(tmp_path / "got.pack")], check=True, capture_output=True)  # noqa: S607


def repository(bare: Path) -> str:
    """A bare repository with one commit; its id."""
    work = bare.parent / "work"
    bare.parent.mkdir()

    def git(*words: str) -> str:
        own = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
        return subprocess.run([*own, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", str(work))
    (work / "large.txt").write_text("\n".join(map(str, range(300_000))))
    git("-C", str(work), "add", ".")
    git("-C", str(work), "commit", "-q", "-m", "one")
    git("clone", "-q", "--bare", str(work), str(bare))
    head = git("-C", str(bare), "rev-parse", "HEAD")
    shutil.rmtree(work)
    return head
