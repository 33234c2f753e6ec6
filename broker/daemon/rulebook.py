"""The policy in force: what the vault has sealed as trusted, and the machine's own files, which only root can write.

The user's files are read to show what is pending and to be trusted by a human's signature; until then nothing changes.
The machine's take force as they are. What can't be read or does not load changes nothing either: the last good one
stays. Where there is no last good one, nothing is allowed.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from broker.client.places import Places
from broker.contract.wire import JsonValue
from broker.core.policy.changes import Change
from broker.core.policy.diff import compared
from broker.core.policy.faults import Fault
from broker.core.policy.hours import Moment
from broker.core.policy.model import Policy
from broker.policyfiles.blocks import block_lines, difference
from broker.policyfiles.check import CheckReport, check, verified
from broker.policyfiles.directory import ROOT_UID, glance, read_directory, read_system
from broker.policyfiles.files import PolicyError, PolicyFile, policy_digest
from broker.vault import TrustedPolicy

LOG = logging.getLogger("doorward.daemon")
NOTHING = Policy(digest="")


class PolicyState(StrEnum):
    """How the files are to what is in force."""

    UNKNOWN = "unknown"  # the vault is not open, and what was trusted is sealed in it
    NONE = "none"  # nothing is trusted, and there is nothing to trust
    TRUSTED = "trusted"
    CHANGED = "changed"  # they could be trusted
    REFUSED = "refused"  # they can't be read, or do not load


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The files as they are now. `error` is what is wrong with them, together with those that need no signature."""

    files: tuple[PolicyFile, ...] = ()  # that a human has to sign
    system: tuple[PolicyFile, ...] | None = ()  # that need no signature; None where they can't be read
    error: PolicyError | None = None
    is_readable: bool = True

    @property
    def whole(self) -> tuple[PolicyFile, ...]:
        return (*(self.system or ()), *self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The files as they are now: their digest, what is wrong with them, and what trusting them would change."""

    look: Look
    digest: str
    policy: Policy | None
    faults: tuple[JsonValue, ...]
    warnings: tuple[JsonValue, ...] = ()
    changes: tuple[JsonValue, ...] = ()
    unchanged: int = 0


class Rulebook:
    """Implements ports.PolicySource. Empty while the vault is locked, when nothing runs anyway."""

    def __init__(
        self, places: Places, *, moment: Callable[[], Moment], uid: int | None = None, root_uid: int = ROOT_UID
    ) -> None:
        self._places = places
        self._moment = moment
        self._uid = os.geteuid() if uid is None else uid
        self._root_uid = root_uid
        self._in_force = NOTHING
        self._is_timed = False
        self._now: tuple[Policy, Moment, Policy] | None = None  # what is in force, a minute, and what decides in it
        self._trusted: TrustedPolicy | None = None
        self._system: tuple[PolicyFile, ...] | None = None  # the last good ones
        self._seen: tuple[tuple[object, ...], Look] | None = None
        self._judged: tuple[tuple[PolicyFile, ...], PolicyError | None] | None = None
        self._checked: tuple[tuple[PolicyFile, ...], CheckReport] | None = None
        self._compared: tuple[tuple[object, ...], Pending] | None = None
        self._looking = threading.Lock()
        self._comparing = threading.Lock()

    def current(self) -> Policy:
        """What decides at this moment."""
        if not self._is_timed:
            return self._in_force
        policy, moment, now = self._in_force, self._moment(), self._now
        if now is None or now[0] is not policy or now[1] != moment:
            now = self._now = (policy, moment, policy.at(moment))
        return now[2]

    @property
    def in_force(self) -> Policy:
        """All of it, whatever the hour."""
        return self._in_force

    @property
    def counter(self) -> int:
        return 0 if self._trusted is None else self._trusted.counter

    @property
    def digest(self) -> str | None:
        return self._in_force.digest or None

    @property
    def signed_digest(self) -> str | None:
        return None if self._trusted is None else self._trusted.digest

    @property
    def signed(self) -> tuple[PolicyFile, ...]:
        trusted = () if self._trusted is None else self._trusted.files
        return tuple(PolicyFile(name=name, raw=raw) for name, raw in trusted)

    @property
    def system(self) -> tuple[PolicyFile, ...]:
        """What is in force without a signature."""
        return self._system or ()

    def use(self, trusted: TrustedPolicy | None) -> None:
        """Put what the vault holds in force. Raises PolicyError where it can't be read, or not with the machine's."""
        self._trusted, self._in_force = trusted, NOTHING
        look = self.look()
        latest = self._system if look.system is None else look.system
        if latest is None:
            raise look.error or PolicyError("the machine's own policies can't be read")
        try:
            self._put(latest)
        except PolicyError:
            if self._system is None or self._system == latest:
                raise
            self._put(self._system)

    def reload(self, look: Look) -> bool:
        """Put the machine's own files in force where they changed and load; whether they did."""
        if look.system is None or look.system == self._system or not self._in_use:
            return False
        try:
            self._put(look.system)
        except PolicyError:
            return False
        return True

    @property
    def _in_use(self) -> bool:
        return self._trusted is not None or self._system is not None

    def _put(self, system: tuple[PolicyFile, ...]) -> None:
        files = (*system, *self.signed)
        policy = verified(files) if files else NOTHING
        self._is_timed = True  # while one takes the other's place: no request is decided without a look at the hour
        self._in_force = policy
        self._is_timed = any(rule.hours for rule in policy.rules)
        self._system = system

    def forget(self) -> None:
        self._in_force, self._trusted, self._compared = NOTHING, None, None

    def look(self) -> Look:
        """The files as they lie there now; read again where anything may have changed. Never raises."""
        with self._looking:
            seen = self._glance()
            if self._seen is not None and seen is not None and self._seen[0] == seen:
                return self._seen[1]
            look = self._read()
            self._seen = None if seen is None else (seen, look)
            return look

    def state(self, look: Look) -> PolicyState:
        """Of an open vault."""
        if look.error is not None:
            return PolicyState.REFUSED
        if self._trusted is None:
            return PolicyState.CHANGED if look.files else PolicyState.TRUSTED if look.system else PolicyState.NONE
        return PolicyState.TRUSTED if policy_digest(look.files) == self._trusted.digest else PolicyState.CHANGED

    def pending(self, bindings: dict[str, tuple[str, ...]] | None) -> Pending:
        """Look at the files. `bindings` are the vault's, None while it is locked."""
        look = self.look()
        if not look.is_readable:
            return Pending(look=look, digest="", policy=None, faults=told_of(look.error))
        with self._comparing:  # one at a time, and not again what was compared: it may take seconds
            about = (look.whole, self._in_force.digest, bindings)
            if self._compared is None or self._compared[0] != about:
                self._compared = (about, self._pending(look, bindings))
            return replace(self._compared[1], look=look)

    def _pending(self, look: Look, bindings: dict[str, tuple[str, ...]] | None) -> Pending:
        report = check(look.whole, bindings)
        policy = None if report.faults else report.policy
        found = None if policy is None else compared(self._in_force, policy)
        return Pending(
            look=look,
            digest=policy_digest(look.files),
            policy=policy,
            faults=tuple(fault.to_json() for fault in report.faults),
            warnings=tuple(warning.to_json() for warning in report.warnings),
            changes=() if found is None else tuple(self._with_lines(change, look) for change in found.changes),
            unchanged=0 if found is None else found.unchanged,
        )

    def checked(self) -> CheckReport:
        """What `policy check` says of what is in force."""
        files = (*self.system, *self.signed)
        if self._checked is None or self._checked[0] != files:
            self._checked = (files, check(files, None) if files else CheckReport(policy=None))
        return self._checked[1]

    def _with_lines(self, change: Change, look: Look) -> dict[str, JsonValue]:
        was = block_lines((*self.system, *self.signed), change.was_place)
        now = [] if change.is_gone else block_lines(look.whole, change.place)
        return {**change.to_json(), "lines": difference(was, now)}

    def _glance(self) -> tuple[object, ...] | None:
        own, system = glance(self._places.policies), self._places.system_policies
        machine = () if system is None else glance(system)
        return None if own is None or machine is None else (own, machine)

    def _read(self) -> Look:
        """The machine's own files are as good as signed only where this user can't write them."""
        try:
            path = self._places.system_policies
            system = () if path is None else read_system(path, root_uid=self._root_uid)
        except PolicyError as error:
            return Look(system=None, error=error, is_readable=False)
        signs_all = self._uid == self._root_uid
        try:
            own = read_directory(self._places.policies, self._uid, root_uid=self._root_uid)
        except PolicyError as error:
            return Look(system=() if signs_all else system, error=error, is_readable=False)
        look = Look(files=(*system, *own)) if signs_all else Look(files=own, system=system)
        return replace(look, error=self._fault_of(look.whole))

    def _fault_of(self, files: tuple[PolicyFile, ...]) -> PolicyError | None:
        """Files that were looked at already are not parsed again."""
        if self._judged is None or self._judged[0] != files:
            error = None
            try:
                verified(files)
            except PolicyError as cause:
                error = cause
            except Exception:  # whatever a file brings about in the loader, it is refused and ends no daemon
                LOG.exception("policy files could not be judged")
                error = PolicyError("the files can't be judged; the daemon's log says why")
            self._judged = (files, error)
        return self._judged[1]


def told_of(error: PolicyError | None) -> tuple[JsonValue, ...]:
    """The files could not even be read: every fault, or what the error itself says."""
    if error is None:
        return ()
    if error.faults:
        return tuple(fault.to_json() for fault in error.faults)
    return (Fault(file="", line=0, key="", problem=str(error)).to_json(),)


def edited(now: Iterable[PolicyFile], before: Iterable[PolicyFile]) -> list[JsonValue]:
    """Which files were added, changed or removed, with what the disk says of when and by whom."""
    known, found = {file.name: file for file in before}, {file.name: file for file in now}
    rows: list[JsonValue] = []
    for name in sorted({*known, *found}):
        was, file = known.get(name), found.get(name)
        if file != was:
            status = "added" if was is None else "removed" if file is None else "changed"
            about = (None, None) if file is None else (file.modified_at_ms, file.uid)
            rows.append({"name": name, "status": status, "modified_at_ms": about[0], "uid": about[1]})
    return rows
