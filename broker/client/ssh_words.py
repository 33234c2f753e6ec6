"""The sentences of a card about SSH: what runs, where, whose key answers, and what is left there.

The command is another's words and is shown whole; a fingerprint is never cut.
"""

from broker.client.card_ssh import UNVERIFIED, Ssh
from broker.contract.neutralise import cells, visible

COMMAND_COLUMNS = 48
_KNOWN = {
    "known_hosts": "+ it has to be the one in the policy's known_hosts file",
    "pinned": "+ it has to be the one that the policy pins",
    "accepted": "+ it has to be the one that was accepted at the first contact",
}


def summary(ssh: Ssh, effect: str, *, columns: int = COMMAND_COLUMNS) -> str:
    """`RUN    systemctl restart nginx`; a long command is cut and says by how much."""
    whole = visible(ssh.what)
    shown = whole
    if cells(whole) > columns:
        end = 0
        while end < len(whole) and cells(whole[: end + 1]) <= columns:
            end += 1
        shown = f"{whole[:end]}… +{len(whole) - end}"
    return f"{visible(effect):<6} {shown}"


def was_cut(ssh: Ssh, *, columns: int = COMMAND_COLUMNS) -> bool:
    """Whether the summary line does not show the command as it is."""
    return cells(visible(ssh.what)) > columns or "\n" in ssh.what


def command_lines(ssh: Ssh) -> list[str]:
    """The whole command, line by line."""
    return visible(ssh.what, multiline=True).split("\n")


def target(ssh: Ssh) -> str:
    """`on web-3.acme.example:22 as deploy`."""
    address = f"[{ssh.address}]" if ":" in ssh.address else ssh.address
    way = f" by way of {', '.join(map(visible, ssh.jump))}" if ssh.jump else ""
    return f"on {visible(address)}:{ssh.port} as {visible(ssh.user)}{way}"


def host_key(ssh: Ssh) -> list[str]:
    """The state of the key; of a first contact without the fingerprint, which has a line of its own."""
    key = ssh.host_key
    if key is None:
        return ["? not known"]
    if key.state != UNVERIFIED:
        return [_KNOWN.get(key.state, f"? {visible(key.state)}")]
    kind = visible((key.algorithm or "unknown kind").removeprefix("ssh-"))
    return [
        "! UNVERIFIED: first contact, nothing to compare",
        f"{kind}, sent by whoever answered at {visible(ssh.address)}",
    ]


def fingerprint(ssh: Ssh) -> str:
    key = ssh.host_key
    return visible(key.fingerprint) if key is not None and key.fingerprint is not None else "no fingerprint"


def after_fingerprint() -> list[str]:
    return ["Compare it with one you got another way.", "Until you answer no login was tried."]


def leaves(ssh: Ssh) -> list[str]:
    """What is on the host afterwards that the command did not ask for."""
    lines = []
    if ssh.action == "exec":
        if ssh.marker == "off":
            lines.append("nothing of ours on the host")
        else:
            lines.append("a marker directory ~/.doorward/ops on the host")
        if ssh.detach:
            lines.append("it goes on if the connection ends, and keeps its output there")
        if ssh.pty:
            lines.append("it runs in a terminal")
    return lines


def uses(credential: str | None, version: int | None) -> str:
    if credential is None:
        return "no credential"
    told = "" if version is None else f", version {version}"
    return f"credential {visible(credential)}, offered alone{told}"
