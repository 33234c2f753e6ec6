"""Services of kind "ssh": hosts, host keys, jumps and operations, from tables to values. Every fault is kept.

A known_hosts file is named here and lies beside the policy files; its text belongs to the policy like a CA file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from broker.contract.reasons import CODES, Category, Effect, IncompleteCode, RemoteEffect, Retry
from broker.core.policy.keys import EXIT_RULE, SSH_EXAMPLE, SSH_HOST, SSH_OPERATION, SSH_SHARED
from broker.core.policy.model import Service
from broker.core.policy.parse_predicates import never, predicate_of
from broker.core.policy.parse_rules import NAME, NAME_SHAPE
from broker.core.policy.table import Table
from broker.core.predicate import AnswerView, Predicate
from broker.core.predicate_traps import ENDING
from broker.core.ssh.commands import ARGUMENT, placeholders
from broker.core.ssh.frozen import MAX_STDIN_BYTES
from broker.core.ssh.known_hosts import PIN, KnownHostsError, check_known_hosts
from broker.core.ssh.model import (
    SSH_PORT,
    ExitRule,
    HostKeyMode,
    HostTrust,
    MarkerMode,
    SshHost,
    SshOperation,
    SshSettings,
)
from broker.core.urls import UrlError, canonical_host

ACTIONS = ("exec", "put", "get")
USER = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
HOST_NAME = r"[a-z0-9][a-z0-9._-]{0,63}"
MAX_JUMPS = 4
MAX_WORDS = 64
_PIN_SHAPE = 'SHA256: and 43 characters, as "ssh-keygen -l" shows it'
_KEYS_SHAPE = f'"strict", "accept-new", or "pinned:" and {_PIN_SHAPE}; or a list of such pins'
_WORD = r"(?s)[^\x00]{1,4096}"
MEANINGS = (
    Category.SUCCESS,
    Category.PARTIAL,
    Category.AUTHENTICATION_FAILED,
    Category.AUTHORIZATION_DENIED,
    Category.CONFIRMED_FAILURE,
    Category.COMMAND_FAILED,
    Category.RATE_LIMITED,
    Category.MALFORMED_RESPONSE,
    Category.OUTCOME_UNKNOWN,
)
_UNKNOWN_BY_DEFAULT = frozenset(
    {Category.OUTCOME_UNKNOWN, Category.MALFORMED_RESPONSE, Category.PARTIAL, Category.COMMAND_FAILED}
)
_REPEATING = frozenset({Retry.BOUNDED, Retry.AFTER_DELAY})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What operations inherit from the service."""

    exit_map: tuple[ExitRule, ...] = ()
    success_when: Predicate | None = None
    marker: MarkerMode | None = None
    max_bytes: int | None = None


def ssh_service_of(name: str, table: Table, assets: Mapping[str, str]) -> Service:
    hosts = _hosts(table, assets)
    defaults = table.table("defaults", SSH_SHARED)
    shared = _shared(defaults, _Shared()) if defaults is not None else _Shared()
    tables = table.named("operations", SSH_OPERATION, names=r"[a-z0-9][a-z0-9_.-]{0,63}", expected=NAME_SHAPE)
    operations = {key: _operation(key, below, shared, hosts) for key, below in tables.items()}
    _refuse_alike(tables, operations)
    return Service(
        name=name,
        base_url=f"ssh://{name}",
        scheme="ssh",
        host=name,
        port=SSH_PORT,
        base_path="",
        credential=table.optional_text("credential", pattern=NAME, expected=f"a credential's name: {NAME_SHAPE}"),
        ssh=SshSettings(
            hosts=MappingProxyType(hosts),
            operations=MappingProxyType(operations),
            ad_hoc=table.texts("ad_hoc", pattern="|".join(ACTIONS), expected=" or ".join(ACTIONS), may_be_empty=True),
        ),
        place=table.place,
    )


def _hosts(table: Table, assets: Mapping[str, str]) -> dict[str, SshHost]:
    tables = table.named("hosts", SSH_HOST, names=HOST_NAME, expected=f"{NAME_SHAPE}, and dots")
    if not tables and "hosts" not in table:
        table.fault("hosts", "missing", 'hosts, such as { "web-1" = { address = "web-1.example", user = "deploy" } }')
    trust = _trust(table, assets, HostTrust(mode=HostKeyMode.STRICT))
    marker = table.optional_member("marker", MarkerMode) or MarkerMode.REQUIRED
    plain = {name: _host(name, below, table, assets, trust, marker) for name, below in tables.items()}
    common = _jump(table)
    found: dict[str, SshHost] = {}
    for name, below in tables.items():
        chain = _jump(below) if "jump" in below else () if name in common else common
        found[name] = replace(plain[name], jump=_hops(name, below, chain, plain))
    return found


def _host(
    name: str, table: Table, service: Table, assets: Mapping[str, str], trust: HostTrust, marker: MarkerMode
) -> SshHost:
    address = table.text("address", name, pattern=r"[^\x00-\x20\x7f]{1,253}", expected="a host name or an address")
    try:
        address = canonical_host(f"[{address}]" if ":" in address else address)
    except UrlError as cause:
        table.fault("address" if "address" in table else None, f"the address is not acceptable: {cause}")
    user = _user(table) or _user(service)
    if user is None:
        table.fault("user", "missing", "the user to log in as, here or for the whole service")
    own = _trust(table, assets, trust)
    if own.mode is HostKeyMode.STRICT and not own.known_hosts:
        table.fault(
            "host_keys",
            "nothing says which key the host has",
            'known_hosts = "FILE.known_hosts", pins, or accept-new',
        )
    return SshHost(
        name=name,
        address=address,
        port=table.integer("port", service.integer("port", SSH_PORT, low=1, high=65535), low=1, high=65535),
        user=user or "nobody",
        trust=own,
        marker=table.optional_member("marker", MarkerMode) or marker,
    )


def _user(table: Table) -> str | None:
    return table.optional_text("user", pattern=USER, expected="a user name without spaces, at most 64 characters")


def _trust(table: Table, assets: Mapping[str, str], inherited: HostTrust) -> HostTrust:
    """`host_keys` and `known_hosts` of a table over those that it inherits."""
    file = table.optional_text(
        "known_hosts",
        pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\.known_hosts",
        expected="a .known_hosts file of this directory",
    )
    trust = inherited
    if file is not None:
        trust = replace(trust, known_hosts=_known_hosts(table, file, assets))
    if "host_keys" not in table:
        return trust
    value = table.values["host_keys"]
    if isinstance(value, str) and value in {HostKeyMode.STRICT.value, HostKeyMode.ACCEPT_NEW.value}:
        return replace(trust, mode=HostKeyMode(value), pins=())
    words = value if isinstance(value, list) else [value]
    pins = tuple(str(word).removeprefix("pinned:") for word in words)
    if not pins or not all(isinstance(word, str) and word.startswith("pinned:") for word in words):
        table.fault("host_keys", "not one of the ways to know a host", _KEYS_SHAPE)
        return trust
    if not all(PIN.fullmatch(pin) for pin in pins):
        table.fault("host_keys", "not a fingerprint", _PIN_SHAPE)
    return replace(trust, mode=HostKeyMode.PINNED, pins=pins)


def _known_hosts(table: Table, file: str, assets: Mapping[str, str]) -> str:
    directory = table.document.name.rpartition("/")[0]
    text = assets.get(f"{directory}/{file}" if directory else file)
    if text is None:
        table.fault(
            "known_hosts", "there is no such file beside the policy files", "a .known_hosts file of this directory"
        )
        return ""
    try:
        check_known_hosts(text)
    except KnownHostsError as cause:
        table.fault("known_hosts", str(cause))
        return ""
    return text


def _jump(table: Table) -> tuple[str, ...]:
    if isinstance(table.values.get("jump"), str):
        return (table.text("jump", pattern=HOST_NAME, expected="the name of a host of this service"),)
    return table.texts("jump", pattern=HOST_NAME, expected="names of hosts of this service", may_be_empty=True)


def _hops(name: str, table: Table, chain: tuple[str, ...], hosts: Mapping[str, SshHost]) -> tuple[SshHost, ...]:
    key = "jump" if "jump" in table else None
    unknown = [hop for hop in chain if hop not in hosts]
    if unknown or name in chain or len(chain) > MAX_JUMPS:
        table.fault(key, "not a way to this host", f"up to {MAX_JUMPS} other hosts of this service")
        return ()
    hops = tuple(hosts[hop] for hop in chain)
    if hops and HostKeyMode.ACCEPT_NEW in {one.trust.mode for one in (*hops, hosts[name])}:
        table.fault(key, "a first contact through other hosts would log in there before anybody saw a key", "pins")
    return hops


def _shared(table: Table, inherited: _Shared) -> _Shared:
    shared = inherited
    if "exit_map" in table:
        shared = replace(shared, exit_map=tuple(_exit_rule(below) for below in table.tables("exit_map", EXIT_RULE)))
    if "success_when" in table:
        shared = replace(shared, success_when=_predicate(table, "success_when", examples_required=False))
    if "marker" in table:
        shared = replace(shared, marker=table.optional_member("marker", MarkerMode))
    if "max_bytes" in table:
        most = table.optional_integer("max_bytes", low=1, high=MAX_STDIN_BYTES)
        shared = replace(shared, max_bytes=most)
    return shared


def _operation(name: str, table: Table, inherited: _Shared, hosts: Mapping[str, SshHost]) -> SshOperation:
    if name in ACTIONS:
        table.fault(None, "this is what actions without a declared operation are called", "another name")
    effect = table.member("effect", Effect)
    command = _words(table, "command")
    if not command and "command" not in table:
        table.fault("command", "missing", 'the words of the command, such as ["systemctl", "restart", "{unit}"]')
    shared = _shared(table, inherited)
    arguments = placeholders(command)
    if effect is not Effect.READ and any(map(_repeats_in_doubt, shared.exit_map)):
        table.fault(
            "exit_map" if "exit_map" in table else None,
            "a rule lets a change be made again while its effect is unknown",
            'another retry there, or remote_effect = "none" where that is proven',
        )
    reconcile = _words(table, "reconcile_command") if "reconcile_command" in table else None
    if not set(placeholders(reconcile or ())) <= set(arguments):
        table.fault("reconcile_command", "the command has no such argument", ", ".join(arguments) or "no argument")
    return SshOperation(
        name=name,
        command=command,
        effect=effect,
        hosts=_known(table, "hosts", hosts, "hosts of this service"),
        destructive=_destructive(table, effect),
        title=_title(table, arguments),
        required=arguments,
        targets=_known(table, "targets", arguments, "arguments of the command"),
        change_key=_known(table, "change_key", arguments, "arguments") if "change_key" in table else None,
        exit_map=shared.exit_map,
        success_when=shared.success_when,
        expect_disconnect=table.flag("expect_disconnect", default=False),
        reconcile_command=reconcile,
        never_provable=table.flag("never_provable", default=False),
        pipeline=table.choice("pipeline", ("forbid", "declare_limit"), "forbid") == "declare_limit",
        marker=shared.marker,
        detach=table.flag("detach", default=False),
        input=table.flag("input", default=False),
        max_bytes=shared.max_bytes,
        place=table.place,
    )


def _destructive(table: Table, effect: Effect) -> bool:
    destructive = table.flag("destructive", default=False)
    if destructive and effect is Effect.READ:
        table.fault("destructive", "a read destroys nothing", 'effect = "write" or "exec"')
    return destructive


def _words(table: Table, key: str) -> tuple[str, ...]:
    """The words of a command: a list, in which one may stand twice, or one text without quotes."""
    value = table.values.get(key)
    words = value.split() if isinstance(value, str) else value
    shape = f"1 to {MAX_WORDS} words, as a list or as one text; {{argument}} stands for a part of one"
    if not isinstance(words, list) or not 1 <= len(words) <= MAX_WORDS:
        if key in table:
            table.fault(key, "not a command", shape)
        return ()
    fitting = all(isinstance(word, str) and re.fullmatch(_WORD, word) for word in words)
    if not fitting or any(re.search(r"[{}]", ARGUMENT.sub("", str(word))) for word in words):
        table.fault(key, "a word is no text, is empty, or holds a brace that is no {argument}", shape)
        return ()
    if ARGUMENT.search(str(words[0])):
        table.fault(key, "what is run is not for an argument to say", "the first word spelled out")
    return tuple(map(str, words))


def _known(table: Table, key: str, known: Mapping[str, object] | tuple[str, ...], expected: str) -> tuple[str, ...]:
    names = table.texts(key, pattern=r"[a-z0-9_][a-z0-9._-]{0,63}", expected=expected, may_be_empty=key == "change_key")
    for name in names:
        if name not in known:
            table.fault(key, f'there is no "{name}"', f"{expected}: {', '.join(known) or 'none'}")
    return names


def _title(table: Table, arguments: tuple[str, ...]) -> str:
    title = table.text("title", "")
    for name in placeholders((title,)):
        if name not in arguments:
            table.fault("title", f'the command has no argument "{name}"', ", ".join(arguments) or "no placeholder")
    return title


def _exit_rule(table: Table) -> ExitRule:
    category = table.member("category", Category, MEANINGS)
    code, retry = table.optional_text("code"), table.optional_member("retry", Retry)
    if code is not None and code not in CODES[category]:
        table.fault("code", "not one of the category's codes", ", ".join(sorted(CODES[category])))
    if "delay_s" in table and retry is not Retry.AFTER_DELAY:
        table.fault("delay_s", "means nothing where nothing is waited for", 'retry = "after_delay"')
    return ExitRule(
        when=_predicate(table, "when", examples_required=True) or never(),
        category=category,
        code=code,
        retry=retry,
        remote_effect=table.optional_member("remote_effect", RemoteEffect),
        delay_s=table.optional_integer("delay_s", low=1, high=86_400),
        incomplete=table.members("incomplete", IncompleteCode),
    )


def _repeats_in_doubt(rule: ExitRule) -> bool:
    unknown = rule.remote_effect is RemoteEffect.UNKNOWN
    unknown |= rule.remote_effect is None and rule.category in _UNKNOWN_BY_DEFAULT
    return unknown and rule.retry in _REPEATING


def _predicate(table: Table, key: str, *, examples_required: bool) -> Predicate | None:
    return predicate_of(
        table,
        key,
        required=True,
        examples_required=examples_required,
        sees=ENDING,
        example=(SSH_EXAMPLE, _example),
    )


def _example(table: Table) -> AnswerView | None:
    """The view of an example ending; None where it is at fault."""
    before = len(table.faults.found)
    texts = {
        name: table.text(name, "", pattern=r"(?s).{0,65536}", expected="at most 65536 characters")
        for name in ("stdout", "stderr")
    }
    view = AnswerView({"exit_code": table.integer("exit_code", None, low=0, high=(1 << 32) - 1), **texts})
    return view if len(table.faults.found) == before else None


def _refuse_alike(tables: Mapping[str, Table], operations: Mapping[str, SshOperation]) -> None:
    """Two operations that the same commands fit would leave open which one a command is."""
    seen: dict[tuple[str, ...], str] = {}
    for name, operation in operations.items():
        shape = tuple(ARGUMENT.sub("{}", word) for word in operation.command)
        if shape and shape in seen:
            table = tables[name]
            table.fault("command", f'the same commands fit the operation "{seen[shape]}"', "one operation for each")
        seen.setdefault(shape, name)
