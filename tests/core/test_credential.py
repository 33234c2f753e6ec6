import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.credential import (
    MAX_BINDINGS,
    MAX_VALUE_BYTES,
    BasicSecret,
    BearerSecret,
    Beside,
    Binding,
    Credential,
    CredentialError,
    CredentialKind,
    HeaderSecret,
    covers,
    covers_url,
    header_for,
    kind_of,
    make_secret,
    parse_binding,
    scrub_values,
    with_value,
)
from broker.core.http_secrets import PlainSecret
from broker.core.secret import Secret

VALUE = "canary-value-7Qx9"
TOKEN = BearerSecret(token=Secret(VALUE))
PAIR = BasicSecret(username="deploy", password=Secret(VALUE))
HEADER = HeaderSecret(header="X-Api-Key", template="key {value}!", value=Secret(VALUE))
ROOT = parse_binding("https://api.example.com")
PREFIX = parse_binding("https://api.example.com/v2/teams")


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        ("https://api.example.com", "https://api.example.com"),
        ("HTTPS://API.Example.COM:443/", "https://api.example.com"),
        ("https://api.example.com:8443/v2", "https://api.example.com:8443/v2"),
        ("https://api.example.com/v2/", "https://api.example.com/v2/"),
        ("https://192.0.2.7", "https://192.0.2.7"),
        ("https://[2001:DB8::1]:443/x", "https://[2001:db8::1]/x"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
        ("http://[::1]", "http://[::1]"),
    ],
)
def test_a_binding_is_spelled_in_one_way(typed: str, canonical: str) -> None:
    binding = parse_binding(typed)

    assert canonical == binding.url
    assert binding == parse_binding(binding.url)


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "http://api.example.com",
        "http://127.0.0.1.example.com",
        "https://user@api.example.com",
        "https://user:word@api.example.com",
        "https://api.example.com?",
        "https://api.example.com/x?y=1",
        "https://api.example.com#x",
        "https://api.example.com.",
        "https://api.example.com:0",
        "https://api.example.com:65536",
        "https://api.example.com:",
        "https://0x7f.1",
        "https://127.1",
        "https://2130706433",
        "https://[::ffff:127.0.0.1]",
        "https://[::1",
        "https://exämple.com",
        "https://api.example.com/a//b",
        "https://api.example.com/a/../b",
        "https://api.example.com/a/%2e%2e/b",
        "https://api.example.com/a%20b",
        "https://api.example.com/ä",
        "https://api.example.com/a b",
        "https://api.example.com\\x",
        "https://api.example.com/\n",
        "https://" + "a" * 9000,
    ],
)
def test_a_binding_with_a_second_reading_is_refused(typed: str) -> None:
    with pytest.raises(CredentialError):
        parse_binding(typed)


@pytest.mark.parametrize(
    ("binding", "path", "covered"),
    [
        (ROOT, "/", True),
        (ROOT, "/anything/at/all", True),
        (ROOT, "", False),
        (ROOT, "/a/../b", False),
        (PREFIX, "/v2/teams", True),
        (PREFIX, "/v2/teams/", True),
        (PREFIX, "/v2/teams/7", True),
        (PREFIX, "/v2/teamsters", False),
        (PREFIX, "/v2", False),
        (PREFIX, "/", False),
        (PREFIX, "/V2/teams", False),
        (PREFIX, "/v2/teams/../users", False),
        (PREFIX, "/v2/teams/..;x/users", False),
        (PREFIX, "/v2/teams/%2e%2e/users", False),
        (PREFIX, "/v2/teams/%2E./users", False),
        (PREFIX, "/v2/teams%2f7", False),
        (PREFIX, "/v2//teams/7", False),
        (replace(PREFIX, path="/v2/teams/"), "/v2/teams/7", True),
        (replace(PREFIX, path="/v2/teams/"), "/v2/teams", False),
    ],
)
def test_a_path_is_covered_by_whole_segments(binding: Binding, path: str, *, covered: bool) -> None:
    assert covered == covers(binding, scheme="https", host="api.example.com", port=443, path=path)


@pytest.mark.parametrize(
    ("scheme", "host", "port"),
    [("http", "api.example.com", 443), ("https", "api.example.com", 8443), ("https", "example.com", 443)],
)
def test_another_origin_is_not_covered(scheme: str, host: str, port: int) -> None:
    assert not covers(ROOT, scheme=scheme, host=host, port=port, path="/")


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("https://api.example.com/v2/teams?page=/../..", True),
        ("https://api.example.com:443/v2/teams/1", True),
        ("https://api.example.com:8443/v2/teams", False),
        ("https://api.example.com.evil.example/v2/teams", False),
        ("https://api.example.com@evil.example/v2/teams", False),
        ("https://api.example.com/v2/teams/../users", False),
        ("http://api.example.com/v2/teams", False),
        ("no url", False),
    ],
)
def test_a_whole_url_is_covered_or_not(url: str, *, covered: bool) -> None:
    assert covered == covers_url(PREFIX, url)


@given(st.text(alphabet="/.%2eEfFcC5;aAbB\\", max_size=12))
def test_whatever_is_covered_stays_below_the_prefix(rest: str) -> None:
    path = "/v2/teams" + rest
    if covers(PREFIX, scheme="https", host="api.example.com", port=443, path=path):
        assert rest == "" or rest.startswith("/")
        assert not {".", ".."} & {segment.partition(";")[0] for segment in path.split("/")}
        assert "%2e" not in path.lower()
        assert "%2f" not in path.lower()


@pytest.mark.parametrize("name", ["github", "a", "0.a_b-c", "x" * 64])
def test_a_plain_name_is_taken(name: str) -> None:
    assert name == Credential(name=name, bindings=(ROOT,), secret=TOKEN).name


@pytest.mark.parametrize("name", ["", "x" * 65, "Git", "-a", ".a", "a b", "a/b", "ä", "a\n"])
def test_an_odd_name_is_refused(name: str) -> None:
    with pytest.raises(CredentialError, match="name"):
        Credential(name=name, bindings=(ROOT,), secret=TOKEN)


@pytest.mark.parametrize(
    "bindings", [(), (ROOT, ROOT), tuple(replace(ROOT, port=1000 + n) for n in range(MAX_BINDINGS + 1))]
)
def test_bindings_are_some_and_distinct(bindings: tuple[Binding, ...]) -> None:
    with pytest.raises(CredentialError, match="binding"):
        Credential(name="a", bindings=bindings, secret=TOKEN)


@pytest.mark.parametrize(
    ("kind", "secret", "header", "value"),
    [
        (CredentialKind.BEARER, TOKEN, "Authorization", f"Bearer {VALUE}".encode()),
        (CredentialKind.BASIC, PAIR, "Authorization", b"Basic " + base64.b64encode(f"deploy:{VALUE}".encode())),
        (CredentialKind.HEADER, HEADER, "X-Api-Key", f"key {VALUE}!".encode()),
    ],
)
def test_each_kind_makes_its_header(kind: CredentialKind, secret: PlainSecret, header: str, value: bytes) -> None:
    assert kind == kind_of(secret) == Credential(name="a", bindings=(ROOT,), secret=secret).kind
    assert (header, Secret(value)) == header_for(secret)


def test_the_scrubber_is_told_every_value() -> None:
    pair = Secret(base64.b64encode(f"deploy:{VALUE}".encode()))

    assert (Secret(VALUE),) == scrub_values(TOKEN)
    assert (Secret(VALUE), pair) == scrub_values(PAIR)
    assert (Secret(VALUE),) == scrub_values(HEADER)


def test_no_spelling_of_a_credential_shows_its_secret_parts() -> None:
    for secret in (TOKEN, PAIR, HEADER):
        text = repr(Credential(name="a", bindings=(ROOT,), secret=secret))
        assert VALUE not in text
        assert "deploy" not in text


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x" * (MAX_VALUE_BYTES + 1),
        b"a\r\nX-Evil: 1",
        b"a\nb",
        b"a\0b",
        b"a\tb",
        b"a\x7fb",
        b" a",
        b"a ",
        b"\xff\xfe",
        "a\u2028b".encode(),
        "a\u0085b".encode(),
        "ä".encode(),
    ],
)
def test_a_value_that_would_break_a_header_is_refused(value: bytes) -> None:
    with pytest.raises(CredentialError) as bearer:
        BearerSecret(token=Secret(value))
    with pytest.raises(CredentialError):
        replace(HEADER, value=Secret(value))

    assert "Evil" not in str(bearer.value)


def test_a_password_may_be_any_text_without_controls() -> None:
    pair = BasicSecret(username="", password=Secret("pä ss "))

    assert (b"Basic " + base64.b64encode(":pä ss ".encode())) == header_for(pair)[1].reveal()
    for password in (b"a\nb", b"", b"\xff"):
        with pytest.raises(CredentialError):
            BasicSecret(username="u", password=Secret(password))


@pytest.mark.parametrize("username", ["a:b", "a\nb", "a\ud800", "x" * 257])
def test_an_odd_user_name_is_refused(username: str) -> None:
    with pytest.raises(CredentialError, match="user name"):
        BasicSecret(username=username, password=Secret(VALUE))


@pytest.mark.parametrize(
    "header",
    [
        "", "X Key", "X-Key:", "X-Ключ", "x" * 65, "Host", "host", "CONNECTION", "Content-Length", "Transfer-Encoding",
        "Proxy-Authorization", "Cookie", "TE", "Upgrade", "X-Forwarded-For", "Sec-Fetch-Site",
    ],
)  # fmt: skip
def test_a_header_of_the_transport_carries_no_credential(header: str) -> None:
    with pytest.raises(CredentialError, match="header"):
        replace(HEADER, header=header)


@pytest.mark.parametrize(
    "template",
    ["", "key", "{value}{value}", "{value} {x}", "}{value}", " {value}", "{value} ", "a\nb {value}", "ä {value}",
     "x" * 260 + "{value}"],
)  # fmt: skip
def test_a_template_has_one_place_for_the_value(template: str) -> None:
    with pytest.raises(CredentialError, match="template"):
        replace(HEADER, template=template)


def test_secret_parts_are_made_from_what_a_form_gave() -> None:
    assert TOKEN == make_secret(CredentialKind.BEARER, Secret(VALUE))
    assert PAIR == make_secret(CredentialKind.BASIC, Secret(VALUE), Beside(username="deploy"))
    assert HEADER == make_secret(
        CredentialKind.HEADER, Secret(VALUE), Beside(header="X-Api-Key", template="key {value}!")
    )
    assert "{value}" == replace(HEADER, template="{value}").template
    assert replace(HEADER, template="{value}") == make_secret(
        CredentialKind.HEADER, Secret(VALUE), Beside(header="X-Api-Key")
    )


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (CredentialKind.BEARER, {"username": "u"}),
        (CredentialKind.BASIC, {}),
        (CredentialKind.BASIC, {"username": "u", "header": "X-A"}),
        (CredentialKind.HEADER, {}),
        (CredentialKind.HEADER, {"header": "X-A", "username": "u"}),
    ],
)
def test_parts_of_another_kind_are_refused(kind: CredentialKind, parts: dict[str, str]) -> None:
    with pytest.raises(CredentialError, match=kind.value):
        make_secret(kind, Secret(VALUE), Beside(**parts))  # type: ignore[arg-type]  # texts alone


def test_a_new_value_keeps_everything_else() -> None:
    fresh = Secret("canary-fresh-1")

    assert BearerSecret(token=fresh) == with_value(TOKEN, fresh)
    assert replace(PAIR, password=fresh) == with_value(PAIR, fresh)
    assert BasicSecret(username="other", password=fresh) == with_value(PAIR, fresh, Beside(username="other"))
    assert replace(HEADER, value=fresh) == with_value(HEADER, fresh)
    for secret in (TOKEN, HEADER):
        with pytest.raises(CredentialError, match="username"):
            with_value(secret, fresh, Beside(username="u"))
