"""`doorward setup PACK`: everything that the first use needs, under one passphrase. Safe to run again.

State, approver key, the pack's files, its credentials and the trust in it; what is there already is left as it is.
"""

import contextlib
import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from broker.cli.arguments import human_parser
from broker.cli.credential import (
    KINDS,
    add,
    add_value_options,
    given_value,
    refuse_missing_variable,
    secret_of,
)
from broker.cli.faults import CliError, UsageError
from broker.cli.init import Made, add_making, initialise, made_lines, refuse_existing, refuse_methods
from broker.cli.output import on, table
from broker.cli.policy import install
from broker.cli.policy_trust import trust
from broker.cli.prompts import new_passphrase
from broker.cli.reach import Desk, desk, places, running_or_transient
from broker.client.credential_line import origin_of
from broker.client.hardening import harden
from broker.contract.exits import USAGE
from broker.contract.neutralise import visible
from broker.policyfiles import PolicyError
from broker.policyfiles.shipped import pack_bytes, pack_names

AGENTS = "agents"
_RESERVED = ".example.com"  # set aside for texts like these: no host of the net is below it
_PATTERN = """{pack} is a pattern for a service of your own, to be edited before it is of use:
  doorward init                    where there is no vault yet
  doorward policy add {pack}
  doorward policy check            once it is edited
  doorward policy trust
  doorward credential add NAME     the name that the file says"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A credential that a pack's service uses, and the origin that it has to be bound to."""

    credential: str
    service: str
    origin: str


def run(noun: str, arguments: list[str]) -> int:
    harden()
    parser = human_parser(f"doorward {noun}", "Vault, credential, policy and trust for a shipped pack, in one go.")
    usable = ", ".join(name for name in pack_names() if not _is_pattern(_needs(name)))
    parser.add_argument("pack", metavar="PACK", help=f"one of: {usable}")
    kinds = [kind for kind in KINDS if kind != "header"]
    parser.add_argument("--kind", choices=kinds, default="bearer", help="how the credential travels; default bearer")
    parser.add_argument("--no-agents", action="store_true", help="do not install the pack that names common agents")
    add_value_options(parser)
    add_making(parser)
    options = parser.parse_args(arguments)
    refuse_missing_variable(options)
    needs = _needs(options.pack)
    if _is_pattern(needs):
        raise UsageError(_PATTERN.format(pack=options.pack))
    with _desk(options) as reached:
        for pack in [options.pack] if options.no_agents else [options.pack, AGENTS]:
            _install(pack, options)
        _credentials(reached, needs, options)
        code = trust(reached, options)
        if not options.json:
            print("\n".join(_ending(reached, needs)))
    return code


def _needs(pack: str) -> list[Need]:
    try:
        content = tomllib.loads(pack_bytes(pack).decode())
    except PolicyError as cause:
        raise CliError(f"{pack}: {cause}", exit_code=USAGE, code="unknown") from None
    out = []
    for name, service in content.get("services", {}).items():
        if "credential" in service:
            out += [Need(credential=service["credential"], service=name, origin=origin) for origin in _origins(service)]
    return out


def _origins(service: dict[str, Any]) -> list[str]:
    if service.get("kind") != "ssh":
        return [origin_of(service["base_url"])]
    return [
        f"ssh://{host.get('user', service.get('user'))}@{host['address']}:{host.get('port', 22)}"
        for host in service["hosts"].values()
    ]


def _is_pattern(needs: list[Need]) -> bool:
    """Whether a pack leads to no host that there is, and so has to be edited before it is of use."""
    return any(f".{urlsplit(need.origin).hostname}".endswith(_RESERVED) for need in needs)


@contextlib.contextmanager
def _desk(options: Namespace) -> Iterator[Desk]:
    """The state that is there, or a new one: one passphrase either way."""
    where = places()
    if where.vault.exists():
        with desk(options, transient=True, session=True, given=given_value) as reached:
            yield reached
        return
    refuse_existing(where)
    refuse_methods(options)
    chosen = new_passphrase(options.passphrase_fd)
    value = given_value(options)
    made = initialise(where, chosen, options)
    _told(options, on(sys.stdout, made_lines(where, made)))
    with made.key, running_or_transient(where) as (control, transient):
        yield _opened(made, Desk(control=control, key=made.key, transient=transient, given=value))


def _opened(made: Made, reached: Desk) -> Desk:
    reached.control.unlock(made.keys.vault_kek)
    reached.control.open_session(made.key)
    return reached


def _install(pack: str, options: Namespace) -> None:
    where = places().policies
    if (where / f"{pack}.toml").exists():
        _told(options, f"policy {visible(pack)} is installed already; it was left as it is")
        return
    _told(options, f"installed {visible(str(install(pack, where)))}")


def _credentials(reached: Desk, needs: list[Need], options: Namespace) -> None:
    there = {item.get("name") for item in reached.control.credentials()}
    for need in needs:
        if need.credential in there:
            _told(options, f"credential {visible(need.credential)} is there already; it was left as it is")
            continue
        secret = secret_of(options.kind, reached.given, need.credential)
        add(reached, {"name": need.credential, "kind": options.kind, "origins": [need.origin]}, secret)
        _told(options, f"credential {visible(need.credential)} goes to {visible(need.origin)} and nowhere else")


def _ending(reached: Desk, needs: list[Need]) -> list[str]:
    found = reached.control.policy().get("services")
    services = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    rows = [
        (item.get("name"), item.get("base_url"), item.get("credential"), "yes" if item.get("bound") else "NO")
        for item in services
    ]
    out = ["", *table(("Service", "Leads to", "Credential", "Bound"), rows), ""] if rows else [""]
    example = needs[0].service if needs else "SERVICE"
    return [*out, "Next:", "  doorward up", f"  doorward http GET {visible(example)} /"]


def _told(options: Namespace, line: str) -> None:
    if not options.json:
        print(line, flush=True)
