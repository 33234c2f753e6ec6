"""`doorward status`: what the daemon is doing, in a dozen lines."""

from broker.cli.arguments import human_parser
from broker.cli.output import number, show, text
from broker.cli.reach import holder, places, running
from broker.client.envelope_lines import part
from broker.client.hardening import harden
from broker.client.lock_words import lock_words
from broker.contract.neutralise import visible
from broker.contract.wire import JsonObject


def run(noun: str, arguments: list[str]) -> int:
    harden()
    options = human_parser(f"doorward {noun}").parse_args(arguments)
    where = places()
    with running(where) as control:
        status = control.status()
    lines = [
        *_lines(status),
        f"  daemon   pid {holder(where) or 'unknown'}; to stop it: kill that, or Ctrl-C where it was started by serve",
        f"  data     {visible(str(where.data))} (audit/, audit.pin, audit-seed/, vault.db)",
        f"  anchor   {visible(str(where.anchor_head))}",
        f"  policies {' and '.join(visible(str(path)) for path in (where.policies, where.system_policies) if path)}",
        f"  agents   {visible(where.agent_socket)}",
    ]
    show(status, lines, as_json=options.json)
    return 0


_TROUBLE = {
    "unwritable": "CAN'T BE WRITTEN: nothing runs until the disk is mended and the daemon started again",
    "disk_low": "its disk is nearly full: nothing runs until there is room",
}


def _verified(audit: JsonObject) -> list[str]:
    """What the daemon's latest verification said, where it has made one."""
    if audit.get("verifying") is not None:
        return [f"  verify   {text(audit, 'verifying')} % done"]
    if audit.get("verdict") is None:
        return []
    well = audit.get("verdict") == "OK"
    known = ": damage that was taken over; the rest is whole" if audit.get("known") else ""
    return [f"{'+' if well else '!'} verified {text(audit, 'verdict')}, held against: {text(audit, 'rung')}{known}"]


def _records(audit: JsonObject) -> str:
    """How many there are; numbers begin at 0, and a log that was not opened for writing has none."""
    last = number(audit, "seq")
    return "unknown" if last < 0 else str(last + 1)


def _locked(vault: JsonObject) -> str:
    """Why it was locked, where that is known."""
    why = vault.get("locked_for")
    words = lock_words(why if isinstance(why, str) else None)
    return "" if words is None else f": {words}"


def _pending(policy: JsonObject) -> str:
    if policy.get("state") == "refused":
        return "the files do not load, and the old one stays in force: doorward policy check"
    return "the files differ from what is trusted: doorward policy diff"


def _lines(status: JsonObject) -> list[str]:
    vault, policy, audit = part(status, "vault"), part(status, "policy"), part(status, "audit")
    ready = vault.get("state") == "ready"
    digest = policy.get("digest")
    in_force = f"{text(policy, 'digest')}, counter {text(policy, 'counter')}"
    if digest is None:
        in_force = "none trusted yet" if ready else "sealed while the vault is locked"
    doubts = number(part(status, "operations"), "in_doubt")
    waiting = number(part(status, "approvals"), "pending")
    warnings = status.get("warnings")
    return [
        f"doorward {text(status, 'version')}, log {text(status, 'log_id')}",
        f"{'+' if ready else '!'} vault    {text(vault, 'state')}, term {text(vault, 'term')}" + _locked(vault),
        f"{'+' if digest else '!'} policy   {in_force}",
        *([f"! policy   {_pending(policy)}"] if policy.get("pending") else []),
        f"{'+' if audit.get('anchored') else '!'} audit    {_records(audit)} records, "
        + ("anchored" if audit.get("anchored") else "NOT anchored"),
        *_verified(audit),
        *([f"! audit    {_TROUBLE.get(text(audit, 'trouble'), 'out of order')}"] if audit.get("trouble") else []),
        f"{'!' if waiting else '+'} waiting  {waiting} for an answer",
        f"{'?' if doubts else '+'} in doubt {doubts}" + (": doorward operations list --in-doubt" if doubts else ""),
        f"  sessions {text(status, 'sessions')}",
        *(["! FROZEN   nothing runs: doorward thaw"] if status.get("frozen") else []),
        *[f"! {visible(str(warning))}" for warning in (warnings if isinstance(warnings, list) else [])],
    ]
