"""Parameters, cookies and AWS keys as credentials: what is taken in, what it adds, and what nobody else may say."""

from dataclasses import replace

import pytest

from broker.core.credential import (
    ALONE,
    Beside,
    Claims,
    CookieSecret,
    Credential,
    CredentialError,
    CredentialKind,
    HeaderSecret,
    HttpSecret,
    QuerySecret,
    SigV4Secret,
    claims,
    header_for,
    kind_of,
    make_secret,
    parse_binding,
    scrub_values,
    with_value,
)
from broker.core.http_secrets import BasicSecret, BearerSecret, parameter_for
from broker.core.secret import Secret

VALUE = Secret("canary-value-0123456789")
OTHER = Secret("canary-other-0123456789")
QUERY = QuerySecret(parameter="Api.Key", value=VALUE)
COOKIE = CookieSecret(cookie="sid", value=VALUE)
AWS = SigV4Secret(access_key_id="AKIACANARY", secret_access_key=VALUE, session_token=OTHER)


@pytest.mark.parametrize(
    ("kind", "beside", "secret"),
    [
        (CredentialKind.QUERY, Beside(parameter="Api.Key"), QUERY),
        (CredentialKind.COOKIE, Beside(cookie="sid"), COOKIE),
        (CredentialKind.SIGV4, Beside(access_key_id="AKIACANARY", session_token=OTHER), AWS),
    ],
)
def test_each_kind_is_made_of_its_parts(kind: CredentialKind, beside: Beside, secret: HttpSecret) -> None:
    assert secret == make_secret(kind, VALUE, beside)
    assert kind is kind_of(secret)
    with pytest.raises(CredentialError):
        make_secret(kind, VALUE, ALONE)


def test_a_new_value_keeps_what_stands_beside() -> None:
    assert replace(QUERY, value=OTHER) == with_value(QUERY, OTHER)
    assert replace(COOKIE, value=OTHER) == with_value(COOKIE, OTHER)
    rotated = with_value(replace(AWS, region="eu-west-3"), OTHER, Beside(access_key_id="AKIANEW"))
    assert SigV4Secret(access_key_id="AKIANEW", secret_access_key=OTHER, region="eu-west-3") == rotated
    for secret in (QUERY, COOKIE, AWS):
        with pytest.raises(CredentialError):
            with_value(secret, OTHER, Beside(username="ann"))


def test_what_each_kind_adds() -> None:
    assert ("Cookie", Secret("sid=canary-value-0123456789")) == header_for(COOKIE)
    assert Secret("k=a%20%C3%BC%26%2B~") == parameter_for(QuerySecret(parameter="k", value=Secret("a ü&+~")))


def test_every_value_is_kept_back() -> None:
    assert (VALUE,) == scrub_values(QUERY) == scrub_values(COOKIE)
    assert (VALUE, OTHER) == scrub_values(AWS)
    assert (VALUE,) == scrub_values(replace(AWS, session_token=None))


@pytest.mark.parametrize(
    "make",
    [
        lambda: QuerySecret(parameter="a b", value=VALUE),
        lambda: QuerySecret(parameter="a", value=Secret("a\nb")),
        lambda: CookieSecret(cookie="a;b", value=VALUE),
        lambda: CookieSecret(cookie="a", value=Secret("a; b=c")),
        lambda: CookieSecret(cookie="a", value=Secret('"a"')),
        lambda: replace(AWS, access_key_id="a/b"),
        lambda: replace(AWS, secret_access_key=Secret("canary\r\n")),
        lambda: replace(AWS, session_token=Secret("canary ")),
        lambda: replace(AWS, region="EU west"),
        lambda: replace(AWS, aws_service="s3/"),
    ],
)
def test_what_could_be_read_as_something_else_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(CredentialError) as refused:
        make()
    assert "canary" not in str(refused.value)


def test_an_aws_key_goes_where_region_and_service_are_known() -> None:
    known = (parse_binding("https://s3.eu-west-3.amazonaws.com"),)
    assert CredentialKind.SIGV4 is Credential(name="a", bindings=known, secret=AWS).kind
    with pytest.raises(CredentialError, match="--region"):
        Credential(name="a", bindings=(parse_binding("https://aws.example"),), secret=AWS)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        (BearerSecret(token=VALUE), (["Authorization"], [])),
        (BasicSecret(username="a", password=VALUE), (["authorization"], [])),
        (HeaderSecret(header="X-Key", template="{value}", value=VALUE), (["x-key"], [])),
        (COOKIE, (["cookie"], [])),
        (QUERY, ([], ["api.KEY"])),
        (AWS, (["X-Amz-Date"], [])),
        (AWS, ([], ["X-Amz-Signature"])),
    ],
)
def test_what_a_credential_says_nobody_else_may(secret: HttpSecret, said: tuple[list[str], list[str]]) -> None:
    names, parameters = said

    assert claims(secret).contested_by(["accept", *names], ["page", *parameters]) is not None
    assert claims(secret).contested_by(["accept"], ["page"]) is None
    assert Claims().contested_by(names, parameters) is None
