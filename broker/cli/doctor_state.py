"""Checks of the state: owners and modes, the audit log, the policy files, and the daemon where one runs."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from broker.audit import AuditError
from broker.audit.ladder import in_file
from broker.audit.pin import Anchor, Pin
from broker.audit.verdict import VerdictName
from broker.audit.verify import verify
from broker.cli.doctor_desktop import desktop
from broker.cli.doctor_finding import Finding, fault, fine, warning
from broker.cli.output import number, text
from broker.cli.policy_files import in_place
from broker.client.approver import ApproverError, read_key_file
from broker.client.card_words import counted
from broker.client.control import ControlClient
from broker.client.envelope_lines import part, parts
from broker.client.faults import ClientError, NotRunning
from broker.client.places import Places
from broker.client.transport import check_place
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject
from broker.core.policy.model import Policy
from broker.core.ssh.model import HostKeyMode
from broker.policyfiles import PolicyError
from broker.policyfiles.check import check

LEAST_FREE_BYTES = 256 << 20
NAMES_SHOWN = 5


def state(where: Places) -> Iterator[Finding]:
    if not where.vault.exists():
        yield fault("state", f"there is no vault in {where.data}", "doorward setup github")
        return
    yield from _modes(where)
    yield _approver(where)
    yield _disk(where)
    yield _log(where)
    yield from _files(where)
    yield from _daemon(where)


def _modes(where: Places) -> Iterator[Finding]:
    bad = 0
    directories = (where.config, where.policies, where.data, where.runtime, where.anchor)
    files = (where.vault, where.ledger, where.approver_key, where.pin, where.anchor_head, where.daemon_log)
    for path, is_directory in [(path, True) for path in directories] + [(path, False) for path in files]:
        closed = not is_directory or path == where.data  # the daemon opens the vault in a directory of its own alone
        for finding in _mode(path, is_directory=is_directory, closed=closed):
            bad += 1
            yield finding
    if not bad:
        yield fine("permissions", "directories and files belong to you, and nobody else can write or read secrets")


def _mode(path: Path, *, is_directory: bool, closed: bool) -> Iterator[Finding]:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    except OSError as cause:
        yield fault("permissions", f"{path} can't be looked at: {cause.strerror}", "check the directories above it")
        return
    right_kind = stat.S_ISDIR if is_directory else stat.S_ISREG
    if not right_kind(facts.st_mode):
        yield fault("permissions", f"{path} is a link or of the wrong kind", "put the real thing in its place")
    elif facts.st_uid != os.geteuid():
        yield fault("permissions", f"{path} belongs to user {facts.st_uid}", f"chown it to user {os.geteuid()}")
    elif facts.st_mode & (0o077 if closed else 0o022):
        mode = ("700" if closed else "go-w") if is_directory else "600"
        yield fault("permissions", f"{path} is open to others", f"chmod {mode} {path}")


def _approver(where: Places) -> Finding:
    try:
        file = read_key_file(where.approver_key)
    except ApproverError as cause:
        return fault("approver key", str(cause), "restore it from your copy; without it nothing can be approved")
    return fine("approver key", f"{file.key_id}, for log {file.log_id}")


def _disk(where: Places) -> Finding:
    free = shutil.disk_usage(where.data).free
    if free < LEAST_FREE_BYTES:
        return fault(
            "disk", f"{free >> 20} MiB free: below {LEAST_FREE_BYTES >> 20} MiB actions are refused", "make room"
        )
    return fine("disk", f"{free >> 20} MiB free")


def _log(where: Places) -> Finding:
    try:
        pin, anchor = Pin.load(where.pin), Anchor.load(where.anchor_head)
    except AuditError as cause:
        return fault("audit log", str(cause), "doorward audit verify, with your own copy of the pin")
    verdict = verify(where.audit, pin=pin, anchors=in_file(anchor))
    if verdict.verdict is VerdictName.OK:
        return fine("audit log", f"OK, {verdict.records} records, anchored: {verdict.rung.value}")
    if verdict.verdict is VerdictName.OK_UNANCHORED:
        return warning(
            "audit log", f"OK_UNANCHORED: {verdict.note}", "check that the anchor's directory is the right one"
        )
    return fault("audit log", f"{verdict.verdict.value}: {verdict.note}", "doorward audit verify tells where")


def _files(where: Places) -> Iterator[Finding]:
    try:
        files = in_place(where)
        report = check(files, None)
    except PolicyError as cause:
        yield fault("policy files", str(cause), "mend the files; the last trusted policy stays in force")
        return
    for found in report.faults:
        yield fault("policy files", str(found), "mend it; the last trusted policy stays in force")
    if not files:
        yield warning("policy files", "there are none: everything is denied", "doorward policy add github")
    elif not report.faults:
        load, warnings = "1 file loads" if len(files) == 1 else f"{len(files)} files load", len(report.warnings)
        warned = counted(warnings, "warning") + (" (doorward policy check)" if warnings else "")
        yield fine("policy files", f"{load}, {warned}")
        yield from _first_contacts(report.policy)


def _first_contacts(policy: Policy | None) -> Iterator[Finding]:
    """Hosts whose first key a human has to look at. Which of them are known by now is sealed."""
    hosts = [host for one in policy.services.values() if one.ssh for host in one.ssh.hosts.values()] if policy else []
    new = sorted(host.name for host in hosts if host.trust.mode is HostKeyMode.ACCEPT_NEW)
    if new:
        names = ", ".join(visible(name) for name in new[:NAMES_SHOWN])
        more = f" and {len(new) - NAMES_SHOWN} more" if len(new) > NAMES_SHOWN else ""
        told = f"the first key of {names}{more} is taken as a human sees it on a card (accept-new)"
        yield warning("ssh hosts", told, "pin them in the policy; doorward host-keys list shows what was accepted")
    elif hosts:
        yield fine("ssh hosts", f"the keys of all {len(hosts)} hosts are pinned or in files that the policy names")


def _daemon(where: Places) -> Iterator[Finding]:
    try:
        check_place(where.control_socket)
        check_place(where.agent_socket)
        with ControlClient(where) as control:
            status, policy = control.status(), control.policy()
    except NotRunning:
        yield warning("daemon", "none is running: nothing can be asked", "doorward up")
        return
    except ClientError as cause:
        yield fault("daemon", str(cause), "stop what listens there, then doorward up")
        return
    yield fine("daemon", f"doorward {text(status, 'version')} runs; its sockets are yours alone")
    yield from desktop(status)
    yield from _running(status, policy)


def _running(status: JsonObject, policy: JsonObject) -> Iterator[Finding]:
    vault = part(status, "vault").get("state")
    told = status.get("warnings")
    for line in told if isinstance(told, list) else []:
        yield warning("daemon", str(line), "")
    if vault == "quarantined":
        reason = text(part(status, "vault"), "reason")
        yield fault("vault", f"quarantined ({reason}): nothing runs", "doorward vault readopt shows why, and asks")
        return
    if vault != "ready":
        yield warning("vault", f"{vault}: nothing runs", "doorward unlock")
        return
    yield fine("vault", "ready")
    if part(status, "policy").get("digest") is None:
        yield warning("policy", "none is trusted yet: everything is denied", "doorward policy trust")
    if part(status, "policy").get("pending"):
        yield warning("policy", "the files differ from what is trusted", "doorward policy diff, then policy trust")
    for service in parts(policy, "services"):
        if service.get("credential") is not None and not service.get("bound"):
            name, url = text(service, "credential"), text(service, "base_url")
            yield fault(
                "credentials",
                f"service {text(service, 'name')} needs credential {name}, and none is bound to {url}",
                f"doorward credential add {name} --kind bearer --origin {url}",
            )
    doubts = number(part(status, "operations"), "in_doubt")
    if doubts:
        yield warning("in doubt", f"{doubts} changes have an unknown outcome", "doorward operations list --in-doubt")
