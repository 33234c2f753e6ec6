"""Which addresses a host name may lead to. Every address is judged before it is dialled, whatever a resolver says.

Loopback and private addresses need a name that says so: the literal address itself, `localhost`, or a name under
a suffix that is private by convention. Link-local, cloud metadata, multicast, unspecified, reserved and documentation
addresses are never dialled, also when an IPv6 form carries them. Resolves nothing itself.
"""

import re
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

ENCRYPTED = frozenset({"https", "ssh"})
PRIVATE_SUFFIXES = (".local", ".internal", ".lan", ".home.arpa")

_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")


class Zone(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"
    NEVER = "never"


def may_dial(address: str, *, host: str, scheme: str, named: bool) -> bool:
    """Whether a connection to `address` may be opened for a URL with this scheme and host.

    `named` tells that a binding's origin, or the base URL of the service, names this very host.
    """
    zone = zone_of(address)
    literal = _literal(host)
    if literal is not None and literal != _literal(address):
        return False
    return zone in reach(host=host, scheme=scheme, named=named)


def reach(*, host: str, scheme: str, named: bool) -> frozenset[Zone]:
    """The zones that a host may lead to. What is not encrypted leads to loopback and nowhere else."""
    zones = _zones_of_host(host, named=named)
    if scheme not in ENCRYPTED:
        zones &= {Zone.LOOPBACK}
    return zones


@lru_cache(maxsize=256)  # of each request it is asked, and hosts are few
def _zones_of_host(host: str, *, named: bool) -> frozenset[Zone]:
    literal = _literal(host)
    if literal is not None:
        zone = zone_of(str(literal))
        usable = zone is Zone.PUBLIC or (named and zone is not Zone.NEVER)
        return frozenset({zone}) if usable else frozenset()
    if not host or host.endswith(".") or set(host) & set(":%") or _NUMERIC.fullmatch(host.rsplit(".", 1)[-1]):
        return frozenset()  # a second spelling of a name, or what resolvers read as an address
    if host == "localhost" or host.endswith(".localhost"):
        return frozenset({Zone.LOOPBACK}) if named else frozenset()
    if host.endswith(PRIVATE_SUFFIXES):
        return frozenset({Zone.PUBLIC, Zone.PRIVATE}) if named else frozenset({Zone.PUBLIC})
    return frozenset({Zone.PUBLIC})


def zone_of(address: str) -> Zone:
    """Where an address lies. Whatever is not known to be usable is NEVER."""
    parsed = _literal(address)
    match parsed:
        case None:
            return Zone.NEVER
        case IPv4Address():
            return _zone_of_v4(parsed)
        case IPv6Address():
            return _zone_of_v6(parsed)


def _literal(text: str) -> IPv4Address | IPv6Address | None:
    """The canonical address, None for names and for odd spellings. A zone index marks a link-local address."""
    if "%" in text:
        return None
    try:
        return ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _v4(*texts: str) -> tuple[IPv4Network, ...]:
    return tuple(IPv4Network(text) for text in texts)


def _v6(*texts: str) -> tuple[IPv6Network, ...]:
    return tuple(IPv6Network(text) for text in texts)


# Spelled out, because the properties of `ipaddress` change their meaning between Python versions.
_LOOPBACK_V4 = _v4("127.0.0.0/8")
_PRIVATE_V4 = _v4("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
_NEVER_V4 = _v4(
    "0.0.0.0/8",
    "100.100.100.200/32",  # metadata of a cloud, inside the shared range
    "168.63.129.16/32",  # likewise, inside public space
    "169.254.0.0/16",  # link-local: metadata of most clouds
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",  # multicast and reserved, broadcast included
)
_NEVER_V6 = _v6(
    "fd00:ec2::/32",  # metadata of a cloud, inside unique-local space
    "fd20:ce::/32",  # likewise
    "2001::/23",  # Teredo and other protocol assignments
    "2001:db8::/32",
    "3fff::/20",
)
_PRIVATE_V6 = IPv6Network("fc00::/7")
_GLOBAL_V6 = IPv6Network("2000::/3")
_CARRIERS = (  # networks whose members carry an IPv4 address, and how many bits follow it
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)
_ISATAP_MARKS = (0x0000_5EFE, 0x0200_5EFE)


def _zone_of_v4(address: IPv4Address) -> Zone:
    if any(address in network for network in _NEVER_V4):
        return Zone.NEVER
    if any(address in network for network in _LOOPBACK_V4):
        return Zone.LOOPBACK
    if any(address in network for network in _PRIVATE_V4):
        return Zone.PRIVATE
    return Zone.PUBLIC


def _zone_of_v6(address: IPv6Address) -> Zone:
    carried = _carried(address)
    if carried is not None and _zone_of_v4(carried) is not Zone.PUBLIC:
        return Zone.NEVER  # a disguise is no way to name a private address
    if address == IPv6Address("::1"):
        return Zone.LOOPBACK
    if any(address in network for network in _NEVER_V6):
        return Zone.NEVER
    if address in _PRIVATE_V6:
        return Zone.PRIVATE
    return Zone.PUBLIC if carried is not None or address in _GLOBAL_V6 else Zone.NEVER


def _carried(address: IPv6Address) -> IPv4Address | None:
    number = int(address)
    for network, shift in _CARRIERS:
        if address in network:
            return IPv4Address(number >> shift & 0xFFFF_FFFF)
    if number >> 32 & 0xFFFF_FFFF in _ISATAP_MARKS:
        return IPv4Address(number & 0xFFFF_FFFF)
    return None
