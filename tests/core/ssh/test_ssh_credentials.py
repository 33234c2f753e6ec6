"""Credentials of SSH: bound to one user on one host, never carried by HTTP, and every part scrubbed."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from broker.core.credential import (
    BearerSecret,
    Beside,
    Credential,
    CredentialError,
    CredentialKind,
    covers,
    covers_url,
    kind_of,
    make_secret,
    parse_binding,
    scrub_values,
    with_value,
)
from broker.core.secret import Secret
from broker.core.ssh.secrets import SshKeySecret, SshPasswordSecret

PASSWORD = SshPasswordSecret(password=Secret("canary-login"))
TOKEN = BearerSecret(token=Secret("canary-token"))
PLACE = parse_binding("ssh://deploy@web-1.example")


def private(passphrase: bytes | None = None) -> Secret:
    how = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return Secret(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, how))


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        ("ssh://deploy@web-1.example", "ssh://deploy@web-1.example:22"),
        ("ssh://deploy@WEB-1.example:2222/", "ssh://deploy@web-1.example:2222"),
        ("ssh://root@10.0.4.13", "ssh://root@10.0.4.13:22"),
        ("ssh://root@[2001:db8::1]:22", "ssh://root@[2001:db8::1]:22"),
    ],
)
def test_a_place_is_spelled_in_one_way(typed: str, canonical: str) -> None:
    assert canonical == parse_binding(typed).url
    assert parse_binding(typed) == parse_binding(canonical)


@pytest.mark.parametrize(
    "typed",
    [
        "ssh://web-1.example",
        "ssh://@web-1.example",
        "ssh://deploy:word@web-1.example",
        "ssh://deploy@web-1.example/home",
        "ssh://deploy@web-1.example:0",
        "ssh://deploy@web-1.example:65536",
        "ssh://deploy@web-1.example:x",
        "ssh://deploy@web-1.example?x=1",
        "ssh://-deploy@web-1.example",
        "ssh://deploy@127.1",
        "ssh://de ploy@web-1.example",
        "ssh:deploy@web-1.example",
    ],
)
def test_a_place_with_a_second_reading_is_refused(typed: str) -> None:
    with pytest.raises(CredentialError):
        parse_binding(typed)


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("ssh://deploy@web-1.example:22", True),
        ("ssh://deploy@web-1.example", True),
        ("ssh://root@web-1.example:22", False),
        ("ssh://deploy@web-2.example:22", False),
        ("ssh://deploy@web-1.example:2222", False),
        ("https://web-1.example", False),
        ("ssh://web-1.example", False),
    ],
)
def test_a_login_is_for_one_user_on_one_host_and_port(url: str, *, covered: bool) -> None:
    assert covered is covers_url(PLACE, url)


def test_neither_channel_carries_what_is_bound_for_the_other() -> None:
    assert not covers(PLACE, scheme="https", host="web-1.example", port=22, path="/")
    assert not covers_url(parse_binding("https://web-1.example"), PLACE.url)
    for secret, place in ((TOKEN, PLACE), (PASSWORD, parse_binding("https://web-1.example"))):
        with pytest.raises(CredentialError, match="bound to ssh://user@host:port alone"):
            Credential(name="one", bindings=(place,), secret=secret)
    with pytest.raises(CredentialError, match="alone"):
        Credential(name="one", bindings=(PLACE, parse_binding("https://web-1.example")), secret=PASSWORD)
    assert CredentialKind.SSH_PASSWORD is Credential(name="one", bindings=(PLACE,), secret=PASSWORD).kind


def test_a_key_is_opened_once_and_its_private_lines_are_scrubbed() -> None:
    secret = make_secret(CredentialKind.SSH_KEY, private(b"words"), Beside(passphrase=Secret("words")))
    assert isinstance(secret, SshKeySecret)
    lines = secret.private_key.reveal().decode().splitlines()

    assert "-----BEGIN OPENSSH PRIVATE KEY-----" == lines[0]
    told = [value.reveal() for value in scrub_values(secret)]
    assert any(line.encode() in told for line in lines)
    assert CredentialKind.SSH_KEY is kind_of(secret)


@pytest.mark.parametrize(
    ("kind", "value", "beside"),
    [
        (CredentialKind.SSH_KEY, private(b"words"), Beside()),
        (CredentialKind.SSH_KEY, private(b"words"), Beside(passphrase=Secret("others"))),
        (CredentialKind.SSH_KEY, private(), Beside(username="deploy")),
        (CredentialKind.SSH_KEY, Secret("no key"), Beside()),
        (CredentialKind.SSH_PASSWORD, Secret("word"), Beside(username="deploy")),
        (CredentialKind.SSH_PASSWORD, Secret("wo\nrd"), Beside()),
        (CredentialKind.SSH_PASSWORD, Secret(""), Beside()),
        (CredentialKind.BEARER, Secret("word"), Beside(certificate="c")),
    ],
)
def test_parts_that_do_not_make_a_login_are_refused(kind: CredentialKind, value: Secret, beside: Beside) -> None:
    with pytest.raises(CredentialError):
        make_secret(kind, value, beside)


def test_a_new_value_is_of_the_same_kind() -> None:
    assert isinstance(with_value(make_secret(CredentialKind.SSH_KEY, private()), private()), SshKeySecret)
    changed = with_value(PASSWORD, Secret("canary-new"))

    assert (Secret("canary-new"),) == scrub_values(changed)
    with pytest.raises(CredentialError):
        with_value(PASSWORD, Secret("x"), Beside(passphrase=Secret("y")))
