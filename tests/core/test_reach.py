from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.reach import Zone, may_dial, reach, zone_of

PUBLIC = ("93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1")
PRIVATE = ("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12:3456::1")
LOOPBACK = ("127.0.0.1", "127.255.255.254", "::1")
NEVER = (
    "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "fec0::1",  # link-local, site-local
    "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",  # metadata
    "224.0.0.1", "239.255.255.255", "ff02::1",  # multicast
    "0.0.0.0", "0.1.2.3", "::", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "203.0.113.7",  # noqa: S104
    "2001:db8::1", "2001::1", "3fff::1", "4000::1", "::8.8.8.8",  # reserved, Teredo, compatible
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",  # mapped
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808",  # NAT64
    "2002:7f00:1::", "2002:a9fe:a9fe::1",  # 6to4
    "2606:2800::5efe:a9fe:a9fe", "2606:2800::200:5efe:7f00:1",  # ISATAP
    "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "", "1.2.3.4.5",  # no canonical address
)  # fmt: skip


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        *((address, Zone.PUBLIC) for address in PUBLIC),
        *((address, Zone.PRIVATE) for address in PRIVATE),
        *((address, Zone.LOOPBACK) for address in LOOPBACK),
        *((address, Zone.NEVER) for address in NEVER),
    ],
)
def test_every_address_lies_in_one_zone(address: str, zone: Zone) -> None:
    assert zone is zone_of(address)


@pytest.mark.parametrize(
    ("host", "named", "zones"),
    [
        ("api.example.com", True, {Zone.PUBLIC}),
        ("api.example.com", False, {Zone.PUBLIC}),
        ("localhost", True, {Zone.LOOPBACK}),
        ("app.localhost", True, {Zone.LOOPBACK}),
        ("localhost", False, set()),
        ("git.internal", True, {Zone.PUBLIC, Zone.PRIVATE}),
        ("nas.local", True, {Zone.PUBLIC, Zone.PRIVATE}),
        ("nas.lan", True, {Zone.PUBLIC, Zone.PRIVATE}),
        ("nas.home.arpa", True, {Zone.PUBLIC, Zone.PRIVATE}),
        ("git.internal", False, {Zone.PUBLIC}),
        ("10.0.0.1", True, {Zone.PRIVATE}),
        ("10.0.0.1", False, set()),
        ("127.0.0.1", True, {Zone.LOOPBACK}),
        ("::1", True, {Zone.LOOPBACK}),
        ("[::1]", True, {Zone.LOOPBACK}),
        ("8.8.8.8", False, {Zone.PUBLIC}),
        ("169.254.169.254", True, set()),
        ("::ffff:127.0.0.1", True, set()),
        ("localhost.", True, set()),
        ("api.example.com.", True, set()),
        ("2130706433", True, set()),
        ("0x7f000001", True, set()),
        ("127.1", True, set()),
        ("0177.0.0.1", True, set()),
        ("", True, set()),
    ],
)
def test_a_host_leads_only_where_its_name_says(host: str, named: bool, zones: set[Zone]) -> None:  # noqa: FBT001
    assert zones == reach(host=host, scheme="https", named=named)


@pytest.mark.parametrize(
    ("host", "zones"),
    [
        ("localhost", {Zone.LOOPBACK}),
        ("127.0.0.1", {Zone.LOOPBACK}),
        ("api.example.com", set()),
        ("10.0.0.1", set()),
        ("nas.lan", set()),
        ("8.8.8.8", set()),
    ],
)
def test_plain_http_leads_to_loopback_alone(host: str, zones: set[Zone]) -> None:
    assert zones == reach(host=host, scheme="http", named=True)


def test_a_literal_host_leads_to_its_own_address_alone() -> None:
    assert may_dial("127.0.0.1", host="127.0.0.1", scheme="https", named=True)
    assert not may_dial("127.0.0.2", host="127.0.0.1", scheme="https", named=True)
    assert not may_dial("::1", host="127.0.0.1", scheme="https", named=True)
    assert may_dial("::1", host="[::1]", scheme="https", named=True)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_a_disguised_address_is_dialled_only_if_it_is_public(address: IPv4Address) -> None:
    public = zone_of(str(address)) is Zone.PUBLIC
    disguises = (
        f"::ffff:{address}",
        str(IPv6Address(int(IPv6Address("64:ff9b::")) | int(address))),
        str(IPv6Address(int(IPv6Address("2002::")) | int(address) << 80)),
    )

    assert {Zone.PUBLIC if public else Zone.NEVER} == {zone_of(disguise) for disguise in disguises}


@given(st.one_of(st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 2**128 - 1).map(IPv6Address)))
def test_no_name_on_the_public_net_leads_to_an_address_that_python_calls_local(
    address: IPv4Address | IPv6Address,
) -> None:
    if may_dial(str(address), host="api.example.com", scheme="https", named=True):
        local = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
        assert not any(local)


def test_ssh_leads_where_https_does_and_plain_text_to_loopback_alone() -> None:
    assert may_dial("10.0.0.1", host="10.0.0.1", scheme="ssh", named=True)
    assert not may_dial("10.0.0.1", host="10.0.0.1", scheme="http", named=True)
    assert not may_dial("169.254.169.254", host="169.254.169.254", scheme="ssh", named=True)
