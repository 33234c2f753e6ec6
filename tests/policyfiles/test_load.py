"""Loading: all files or none, every fault at once, and a digest over names and bytes."""

import hashlib
import time

import pytest

from broker.core.policy.model import Policy
from broker.policyfiles import Fault, PolicyError, PolicyFile, policy_digest
from broker.policyfiles.load import FAULTS_MAX, load_policy
from tests.fakes.certificates import CA_PEM
from tests.fakes.policies import SHOP


def refused(*files: tuple[str, bytes]) -> tuple[Fault, ...]:
    with pytest.raises(PolicyError) as caught:
        load_policy([PolicyFile(name=name, raw=raw) for name, raw in files])
    assert str(caught.value) == "\n".join(str(fault) for fault in caught.value.faults)
    return caught.value.faults


def test_a_policy_carries_the_digest_of_its_files() -> None:
    files = [PolicyFile(name="b.toml", raw=b"version = 1"), PolicyFile(name="a.toml", raw=SHOP.encode())]

    policy = load_policy(files)

    assert isinstance(policy, Policy)
    assert policy.digest == policy_digest(files) == policy_digest(list(reversed(files)))


def test_the_digest_covers_exactly_names_and_bytes() -> None:
    file = PolicyFile(name="a.toml", raw=b"version = 1")
    inner = hashlib.sha256(b"version = 1").hexdigest()
    outer = hashlib.sha256(
        b'doorward/policy-set/v1\0[{"name":"a.toml","sha256":"' + inner.encode() + b'"}]'
    ).hexdigest()

    assert f"sha256:{outer}" == policy_digest([file])
    assert policy_digest([file]) != policy_digest([PolicyFile(name="b.toml", raw=b"version = 1")])
    assert policy_digest([file]) != policy_digest([PolicyFile(name="a.toml", raw=b"version = 1\n")])


def test_a_ca_file_is_part_of_the_digest() -> None:
    toml = b'version = 1\n[services.s]\nkind = "http"\nbase_url = "https://s.example"\ntls = { ca = "ca.pem" }\n'
    files = [PolicyFile(name="a.toml", raw=toml), PolicyFile(name="ca.pem", raw=CA_PEM.encode())]
    other = [files[0], PolicyFile(name="ca.pem", raw=CA_PEM.encode() + b"\n")]

    assert CA_PEM == load_policy(files).services["s"].tls.ca_pem
    assert load_policy(files).digest != load_policy(other).digest


def test_no_file_at_all_is_a_policy_that_denies() -> None:
    assert () == load_policy([]).rules


def test_a_syntax_error_is_told_with_its_line() -> None:
    (fault,) = refused(("a.toml", b"version = 1\n\n[[rules]\n"))

    assert ("a.toml", 3) == (fault.file, fault.line)
    assert fault.problem.startswith("not TOML: ")
    assert "at line" not in fault.problem


def test_a_syntax_error_at_the_end_is_told_on_the_last_line() -> None:
    (fault,) = refused(("a.toml", b"version = 1\nx = [1,\n"))

    assert fault.line == 3


def test_a_file_that_is_not_utf8_is_told_where() -> None:
    (fault,) = refused(("a.toml", b"version = 1\n# \xff\n"))

    assert "a.toml:2: the file: not UTF-8, expected text in UTF-8" == str(fault)


def test_lines_are_counted_alike_with_windows_line_ends() -> None:
    (fault,) = refused(("a.toml", b"version = 1\r\n\r\nnosuch = 1\r\n"))

    assert fault.line == 3


def test_a_text_that_nests_without_end_is_refused() -> None:
    assert "nested too deeply" in str(refused(("a.toml", b"version = 1\nx = " + b"[" * 5000 + b"]" * 5000))[0])


def test_two_files_of_one_name_and_files_of_other_kinds_are_refused() -> None:
    told = refused(("a.toml", b"version = 1"), ("a.toml", b"version = 1"), ("notes.txt", b""), ("c.pem", b"x"))

    assert [
        "a.toml:1: the file: two files have this name, expected each name once",
        "c.pem:1: the file: no certificate in it can be read, expected certificates in PEM",
        "notes.txt:1: the file: no file of a policy, expected a name that ends in .toml, .pem or .known_hosts",
    ] == [str(fault) for fault in told]


@pytest.mark.parametrize("raw", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_ca_file_that_holds_no_certificate_is_refused(raw: bytes) -> None:
    assert "no certificate in it can be read" in str(refused(("ca.pem", raw))[0])


def test_a_private_key_does_not_belong_beside_a_policy() -> None:
    raw = CA_PEM.encode() + b"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"

    told = refused(("ca.pem", raw))

    assert "it holds a private key" in str(told[0])
    assert "canary" not in str(told)


def test_two_ca_files_of_one_name_are_refused() -> None:
    assert "two files have this name" in str(refused(("c.pem", CA_PEM.encode()), ("c.pem", CA_PEM.encode()))[0])


def test_faults_of_all_kinds_come_together_and_in_order() -> None:
    told = refused(
        ("b.toml", b'version = 1\n[[rules]]\nid = "a"\napproval = "maybe"\nnosuch = 1\n'),
        ("a.toml", b"x = "),
        ("ca.pem", b""),
    )

    assert [("a.toml", 1), ("b.toml", 4), ("b.toml", 5), ("ca.pem", 1)] == [(f.file, f.line) for f in told]


@pytest.mark.parametrize(
    "raw",
    [
        b".".join([b"a"] * 100_000) + b" = 1",
        b"[" + b".".join([b"'a'"] * 60_000) + b"]",
        b"x = 1\n" + b" . ".join([b'"a"'] * 40_000) + b" = 1",
    ],
    ids=["key", "table", "quoted"],
)
def test_a_key_of_parts_without_end_is_refused_before_anybody_counts_them(raw: bytes) -> None:
    """The parser's time and memory grow with the square of the parts: this would take it gigabytes."""
    (fault,) = refused(("a.toml", raw))

    assert (raw.count(b"\n") + 1, "a key of too many parts") == (fault.line, fault.problem)


@pytest.mark.parametrize("quote", [b"'''", b'"""'])
def test_dots_in_strings_and_comments_are_no_parts_of_a_key(quote: bytes) -> None:
    dots = b"." * 500
    raw = SHOP.encode() + b"# " + dots + b"\n[[rules]]\nid = 'dots'\napproval = 'deny'\nreason = "
    for reason in (b"'" + dots[:190] + b"'", b'"\\"' + dots[:190] + b'"', quote + b"\n" + dots[:190] + quote):
        load_policy([PolicyFile(name="a.toml", raw=raw + reason)])


@pytest.mark.parametrize("raw", [b'a = """' + b'\\"""' * 60_000, b"a = '''" + b"''" * 60_000, b"a" * 262_144])
def test_strings_that_end_nowhere_are_gone_through_once(raw: bytes) -> None:
    began = time.thread_time()
    refused(("a.toml", raw))

    assert time.thread_time() - began < 2


def test_a_number_that_python_takes_for_an_attack_is_a_fault_like_others() -> None:
    (fault,) = refused(("a.toml", b"version = " + b"1" * 5000))

    assert "a number is too long" == fault.problem


def test_only_so_many_faults_are_told_and_the_rest_is_counted() -> None:
    told = refused(("a.toml", b"".join(b"k%d = 1\n" % number for number in range(1000))))

    assert FAULTS_MAX + 1 == len(told)
    assert f"{1001 - FAULTS_MAX} more faults" in told[-1].problem


def test_all_files_together_hold_so_many_rules_and_no_more() -> None:
    rules = [
        b"version = 1\n" + b"".join(b'[[rules]]\nid = "r%d-%d"\napproval = "deny"\n' % (n, m) for m in range(129))
        for n in range(2)
    ]
    (fault,) = refused(("a.toml", rules[0]), ("b.toml", rules[1]))

    assert ("rules", "all files together hold 258", "at most 256") == (fault.key, fault.problem, fault.expected)
