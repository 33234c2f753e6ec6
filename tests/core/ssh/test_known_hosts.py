"""Lines of known_hosts count for the very host and port that is dialled; @revoked counts wider."""

import base64
import hashlib
import hmac
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.ssh.known_hosts import (
    KeyVerdict,
    Known,
    KnownHostsError,
    Offered,
    algorithm_of,
    blob_of,
    check_known_hosts,
    fingerprint,
    judge,
    known_of,
    public_text,
)
from broker.core.ssh.model import HostKeyMode, HostTrust


def blob(mark: str, kind: str = "ssh-ed25519") -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in (kind.encode(), mark.encode().ljust(32, b".")))


A, B, CA = blob("a"), blob("b"), blob("ca")


def line(names: str, key: bytes = A, marker: str = "") -> str:
    return f"{marker} {names} {public_text(key)}\n".lstrip()


def known(text: str, *, address: str = "web.example.com", port: int = 22) -> Known:
    return known_of(HostTrust(mode=HostKeyMode.STRICT, known_hosts=text), address=address, port=port)


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


MATCHES = [
    ("web.example.com", "web.example.com", 22, True),
    ("WEB.example.com", "web.Example.com", 22, True),
    ("web.example.com,10.0.0.1", "10.0.0.1", 22, True),
    ("web.example.com", "10.0.0.1", 22, False),
    ("web.example.com", "web.example.com", 2222, False),
    ("[web.example.com]:2222", "web.example.com", 2222, True),
    ("[web.example.com]:2222", "web.example.com", 22, False),
    ("[::1]:2222", "::1", 2222, True),
    ("*.example.com", "web.example.com", 22, True),
    ("*.example.com", "web.example.org", 22, False),
    ("*.example.com", "web.example.com", 2222, False),
    ("[*.example.com]:*", "web.example.com", 2222, True),
    ("web?.example.com", "web1.example.com", 22, True),
    ("web?.example.com", "web.example.com", 22, False),
    ("*,!web.example.com", "web.example.com", 22, False),
    ("!web.example.com,*", "web.example.com", 22, False),
    ("!db.example.com,*", "web.example.com", 22, True),
    ("web.example.com*", "web.example.com", 22, True),
    ("w*b*m", "web.example.com", 22, True),
    (hashed("web.example.com"), "web.example.com", 22, True),
    (hashed("[web.example.com]:2222"), "web.example.com", 2222, True),
    (hashed("web.example.com"), "web.example.com", 2222, False),
    ("|1|broken", "web.example.com", 22, False),
    ("|1|aaaaa|aaaaa", "web.example.com", 22, False),
]


@pytest.mark.parametrize(("names", "address", "port", "counts"), MATCHES)
def test_a_line_counts_for_exactly_one_host_and_port(names: str, address: str, port: int, *, counts: bool) -> None:
    assert (frozenset({A}) if counts else frozenset()) == known(line(names), address=address, port=port).keys


@pytest.mark.parametrize("names", ["web.example.com", "[web.example.com]:2222", hashed("web.example.com")])
def test_a_revoked_key_is_revoked_under_the_bare_name_too(names: str) -> None:
    text = line("[web.example.com]:2222") + line(names, A, "@revoked")

    assert KeyVerdict.REVOKED is judge(known(text, port=2222), Offered(key=A))


def test_an_authority_vouches_for_what_it_signed_alone() -> None:
    text = line("*.example.com", CA, "@cert-authority")

    assert KeyVerdict.ACCEPTED is judge(known(text), Offered(key=A, authority=CA))
    assert KeyVerdict.UNKNOWN is judge(known(text), Offered(key=A, authority=B))
    assert KeyVerdict.UNKNOWN is judge(known(text), Offered(key=CA))


def test_a_revoked_authority_or_key_under_a_certificate_is_revoked() -> None:
    text = line("*.example.com", CA, "@cert-authority")

    assert KeyVerdict.REVOKED is judge(known(text + line("*", CA, "@revoked")), Offered(key=A, authority=CA))
    assert KeyVerdict.REVOKED is judge(known(text + line("*", A, "@revoked")), Offered(key=A, authority=CA))


def test_another_key_than_the_known_one_is_changed_and_not_unknown() -> None:
    assert KeyVerdict.CHANGED is judge(known(line("web.example.com", A)), Offered(key=B))
    assert KeyVerdict.UNKNOWN is judge(known(""), Offered(key=B))


def test_pins_alone_count_where_pinned() -> None:
    trust = HostTrust(
        mode=HostKeyMode.PINNED, pins=(fingerprint(A),), known_hosts=line("h", B) + line("h", A, "@revoked")
    )
    free = HostTrust(mode=HostKeyMode.PINNED, pins=(fingerprint(A),))

    assert KeyVerdict.ACCEPTED is judge(known_of(free, address="h", port=22), Offered(key=A))
    assert KeyVerdict.CHANGED is judge(known_of(trust, address="h", port=22), Offered(key=B))
    assert KeyVerdict.REVOKED is judge(known_of(trust, address="h", port=22), Offered(key=A))


def test_keys_that_a_human_accepted_count_in_their_mode_alone() -> None:
    accepted = (public_text(A),)
    new = known_of(HostTrust(mode=HostKeyMode.ACCEPT_NEW), address="h", port=22, accepted=accepted)
    strict = known_of(HostTrust(mode=HostKeyMode.STRICT), address="h", port=22, accepted=accepted)

    assert (KeyVerdict.ACCEPTED, KeyVerdict.CHANGED) == (judge(new, Offered(key=A)), judge(new, Offered(key=B)))
    assert KeyVerdict.UNKNOWN is judge(strict, Offered(key=A))


def test_comments_blank_lines_and_the_first_protocol_are_passed_over() -> None:
    assert frozenset({A}) == known(f"# a comment\n\nweb.example.com 1024 35 12345\n{line('web.example.com')}").keys


BROKEN = [
    ("web.example.com ssh-ed25519", "line 1: not names"),
    ("web.example.com ssh-ed25519 !!!", "line 1: a public key's base64"),
    ("@else web.example.com ssh-ed25519 AAAA", "@else is none of"),
    (f"web.example.com ssh-rsa {public_text(A).split()[1]}", "of another type"),
    ("web.example.com ssh-ed25519 AAAA", "does not begin with its type"),
    (f"\n{line('a')}web.example.com ssh-ed25519", "line 3"),
]


@pytest.mark.parametrize(("text", "says"), BROKEN)
def test_a_broken_line_refuses_the_whole_file(text: str, says: str) -> None:
    with pytest.raises(KnownHostsError, match=says):
        check_known_hosts(text)


def test_a_broken_pin_is_refused() -> None:
    with pytest.raises(KnownHostsError, match="a pin is SHA256"):
        known_of(HostTrust(mode=HostKeyMode.PINNED, pins=("md5:00",)), address="h", port=22)


def test_a_public_key_needs_its_type_and_its_base64() -> None:
    with pytest.raises(KnownHostsError, match="its type and its base64"):
        blob_of("ssh-ed25519")
    assert (A, "ssh-ed25519") == (blob_of(f"{public_text(A)} a comment"), algorithm_of(A))


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    refused = ""
    try:
        check_known_hosts(text)
    except KnownHostsError as cause:
        refused = str(cause)

    assert not refused or "known_hosts, line" in refused


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_patterns_match_as_shells_do(pattern: str, text: str) -> None:
    import fnmatch  # noqa: PLC0415 - the reference, for this test alone

    expected = fnmatch.fnmatchcase(text, pattern)

    if pattern:
        assert expected == bool(known(line(pattern), address=text).keys)


def test_fingerprints_and_hashed_names_are_those_of_openssh(tmp_path: Path) -> None:
    keygen = shutil.which("ssh-keygen")
    assert keygen is not None, "ssh-keygen is missing; run packaging/setup-test-deps.sh"
    subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "k")], check=True, timeout=20)
    public = (tmp_path / "k.pub").read_text(encoding="ascii")
    (tmp_path / "known").write_text(f"[127.0.0.1]:2222 {public}", encoding="ascii")
    subprocess.run([keygen, "-H", "-f", str(tmp_path / "known")], check=True, timeout=20, capture_output=True)
    shown = subprocess.run(
        [keygen, "-l", "-f", str(tmp_path / "k.pub")], check=True, timeout=20, capture_output=True, text=True
    )
    text = (tmp_path / "known").read_text(encoding="ascii")

    assert fingerprint(blob_of(public)) == shown.stdout.split()[1]
    assert text.startswith("|1|")
    assert frozenset({blob_of(public)}) == known(text, address="127.0.0.1", port=2222).keys
