"""The signer against botocore's, and the rules that botocore has no word on."""

import hashlib
from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.http_secrets import SigV4Secret
from broker.core.secret import Secret
from broker.core.sigv4 import UNSIGNED_PAYLOAD, Scope, SigningError, ToSign, scope_of, sign, signing_key

KEY = "canary/aws+secret+0123456789abcdefghijklmn"
TOKEN = "canary-session//token==" * 4
MD5 = ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")  # botocore leaves a body unsigned where this vouches for it
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def key(**more: str | Secret | None) -> SigV4Secret:
    return SigV4Secret(access_key_id="AKIACANARY0123456789", secret_access_key=Secret(KEY), **more)  # type: ignore[arg-type]


def ours(secret: SigV4Secret, request: ToSign) -> dict[str, str]:
    return {name.lower(): value.reveal().decode() for name, value in sign(secret, request, now=NOW).headers}


def theirs(secret: SigV4Secret, request: ToSign, *, scope: Scope, body: bytes, signed: bool = True) -> dict[str, str]:
    token = None if secret.session_token is None else secret.session_token.reveal().decode()
    asked = AWSRequest(
        method=request.method,
        url=f"https://{request.host}{request.path}" + (f"?{request.query}" if request.query else ""),
        headers=dict(request.headers),
        data=body,
    )
    asked.context["payload_signing_enabled"] = signed
    kind = S3SigV4Auth if scope.service == "s3" else SigV4Auth
    with mock.patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        kind(Credentials(secret.access_key_id, KEY, token), scope.service, scope.region).add_auth(asked)
    return {name.lower(): value for name, value in asked.headers.items()}


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)


def encoded(text: str) -> str:
    """As AWS's own clients spell it."""
    return quote(text, safe="-_.~")


@settings(max_examples=300, deadline=None)
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    service=st.sampled_from(["s3", "dynamodb", "sqs", "ec2", "execute-api"]),
    segments=st.lists(TEXT.filter(lambda text: text not in {"", ".", ".."}), max_size=3),
    pairs=st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=4),
    headers=st.dictionaries(st.sampled_from(["x-amz-target", "content-type", "x-amz-meta-a"]), st.just("a  b c")),
    body=st.binary(max_size=40),
    with_token=st.booleans(),
)
def test_every_request_is_signed_as_botocore_signs_it(
    *,
    method: str,
    service: str,
    segments: list[str],
    pairs: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes,
    with_token: bool,
) -> None:
    secret = key(session_token=Secret(TOKEN) if with_token else None)
    host = f"{service}.eu-west-3.amazonaws.com"
    request = ToSign(
        method=method,
        host=host,
        path="/" + "/".join(map(encoded, segments)),
        query="&".join(f"{encoded(name)}={encoded(value)}" for name, value in pairs),
        headers=(("Host", host), *headers.items()),
        body_sha256=hashlib.sha256(body).hexdigest(),
    )

    expected = theirs(secret, request, scope=Scope(region="eu-west-3", service=service), body=body)

    got = ours(secret, request)
    assert expected["authorization"] == got["authorization"]
    assert {name: expected[name] for name in got} == got


def test_a_body_that_is_not_signed_is_said_to_be_so() -> None:
    host = "bucket.s3.eu-central-1.amazonaws.com"
    request = ToSign(method="PUT", host=host, path="/k", query="", headers=(("host", host), MD5), body_sha256=None)

    expected = theirs(key(), request, scope=Scope(region="eu-central-1", service="s3"), body=b"some body", signed=False)

    assert UNSIGNED_PAYLOAD == ours(key(), request)["x-amz-content-sha256"]
    assert expected["authorization"] == ours(key(), request)["authorization"]


@pytest.mark.parametrize(
    ("host", "region", "service"),
    [
        ("s3.amazonaws.com", "us-east-1", "s3"),
        ("bucket.s3.amazonaws.com", "us-east-1", "s3"),
        ("my.bucket.s3.eu-west-1.amazonaws.com", "eu-west-1", "s3"),
        ("s3.dualstack.eu-west-1.amazonaws.com", "eu-west-1", "s3"),
        ("dynamodb.us-gov-west-1.amazonaws.com", "us-gov-west-1", "dynamodb"),
        ("sqs.cn-north-1.amazonaws.com.cn", "cn-north-1", "sqs"),
        ("abc123.execute-api.eu-west-1.amazonaws.com", "eu-west-1", "execute-api"),
        ("iam.amazonaws.com", "us-east-1", "iam"),
    ],
)
def test_the_hosts_of_aws_tell_region_and_service(host: str, region: str, service: str) -> None:
    assert Scope(region=region, service=service) == scope_of(key(), host)


def test_what_the_credential_says_comes_before_the_host() -> None:
    named = key(region="eu-west-9", aws_service="s3")

    assert Scope(region="eu-west-9", service="s3") == scope_of(named, "127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "api.example.com", "dynamodb.amazonaws.com", "eu-west-1.amazonaws.com"])
def test_a_host_that_tells_neither_is_refused(host: str) -> None:
    with pytest.raises(SigningError, match="--region and --aws-service"):
        scope_of(key(), host)


def test_what_is_made_of_the_key_is_handed_out_to_be_kept_back() -> None:
    host = "sqs.eu-west-1.amazonaws.com"
    request = ToSign(method="GET", host=host, path="/", query="", headers=(("host", host),), body_sha256="0" * 64)

    signature = sign(key(), request, now=NOW)

    made = signing_key(key(), "20260304", Scope(region="eu-west-1", service="sqs"))
    line = signature.headers[-1][1].reveal()
    assert made in signature.derived
    assert line.rpartition(b"=")[2] == signature.derived[1].reveal()


def test_headers_that_may_change_on_the_way_are_not_signed() -> None:
    host = "sqs.eu-west-1.amazonaws.com"
    request = ToSign(
        method="GET", host=host, path="/", query="", headers=(("host", host), ("accept", "a")), body_sha256="0" * 64
    )

    assert "SignedHeaders=host;x-amz-date," in ours(key(), request)["authorization"]


def test_a_port_and_brackets_are_no_part_of_the_name() -> None:
    secret = key(region="eu-west-3", aws_service="s3")
    for host in ("[::1]:9000", "127.0.0.1:9000"):
        request = ToSign(method="GET", host=host, path="/", query="", headers=(("host", host),), body_sha256="0" * 64)
        assert "eu-west-3/s3" in ours(secret, request)["authorization"]
