"""Hosts and operations of an SSH service as the policy declares them. Parsed elsewhere; decides nothing itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from broker.contract.reasons import Category, Effect, IncompleteCode, RemoteEffect, Retry
from broker.core.policy.place import Place
from broker.core.predicate import Predicate

SSH_PORT = 22


class HostKeyMode(StrEnum):
    """Which host keys are taken. accept-new: the first one that a human saw on a card, and then only that one."""

    STRICT = "strict"
    PINNED = "pinned"
    ACCEPT_NEW = "accept-new"


class MarkerMode(StrEnum):
    """Whether a command leaves a durable marker. preferred: without a store it runs, and the result says so."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTrust:
    """`pins` are `SHA256:...` fingerprints; `known_hosts` is the text of the file that the policy names."""

    mode: HostKeyMode
    pins: tuple[str, ...] = ()
    known_hosts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """One host of a service. `name` is the policy's word; `address` is dialled; `jump` names hosts to go through."""

    name: str
    address: str
    port: int = SSH_PORT
    user: str
    trust: HostTrust
    jump: tuple["SshHost", ...] = ()
    marker: MarkerMode = MarkerMode.REQUIRED

    @property
    def url(self) -> str:
        """The address in the form of a credential's binding."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"ssh://{self.user}@{address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRule:
    """An entry of `exit_map`, over {exit_code, stdout, stderr}. The first that matches decides.

    `incomplete` says what is missing of the output where it matches.
    """

    when: Predicate
    category: Category
    code: str | None = None
    retry: Retry | None = None
    remote_effect: RemoteEffect | None = None
    delay_s: int | None = None
    incomplete: tuple[IncompleteCode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOperation:
    """A named command of a service. `command` is its words; `{argument}` within one is filled in and quoted.

    `input`: it may be given input and a terminal, by which it can be told more than its words say.
    `never_provable`: no answer proves that its output is everything. `pipeline`: what a pipe cuts is meant so.
    """

    name: str
    command: tuple[str, ...]
    effect: Effect
    hosts: tuple[str, ...] = ()
    destructive: bool = False
    title: str = ""
    required: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    change_key: tuple[str, ...] | None = None
    exit_map: tuple[ExitRule, ...] = ()
    success_when: Predicate | None = None
    expect_disconnect: bool = False
    reconcile_command: tuple[str, ...] | None = None
    pipeline: bool = False
    input: bool = False
    never_provable: bool = False
    marker: MarkerMode | None = None
    detach: bool = False
    max_bytes: int | None = None
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """What a service of kind "ssh" has beside its name and credential."""

    hosts: Mapping[str, SshHost] = field(default_factory=lambda: MappingProxyType({}))
    operations: Mapping[str, SshOperation] = field(default_factory=lambda: MappingProxyType({}))
    ad_hoc: tuple[str, ...] = ()  # of exec, put, get: what may be asked for without a declared operation
