"""The part of a card that a request by SSH has beside what all cards have."""

from dataclasses import dataclass

from broker.client.card_fields import Fields

UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    state: str  # known_hosts | pinned | accepted | unverified
    algorithm: str | None
    fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """`what` is the whole command, or the transfer in words."""

    action: str  # exec | put | get | look_up
    host: str
    address: str
    port: int
    user: str
    jump: tuple[str, ...]
    what: str
    command_sha256: str | None
    argv: tuple[str, ...] | None
    pty: bool
    detach: bool
    marker: str  # required | preferred | off
    host_key: HostKey | None

    @property
    def is_first_contact(self) -> bool:
        return self.host_key is not None and self.host_key.state == UNVERIFIED


def read_ssh(part: Fields | None) -> Ssh | None:
    if part is None:
        return None
    key = part.part_or_none("host_key")
    return Ssh(
        action=part.text("action"),
        host=part.text("host"),
        address=part.text("address"),
        port=part.integer("port"),
        user=part.text("user"),
        jump=part.texts("jump"),
        what=part.text("what"),
        command_sha256=part.text_or_none("command_sha256"),
        argv=part.texts_or_none("argv"),
        pty=part.flag("pty"),
        detach=part.flag("detach"),
        marker=part.text("marker"),
        host_key=None
        if key is None
        else HostKey(
            state=key.text("state"),
            algorithm=key.text_or_none("algorithm"),
            fingerprint=key.text_or_none("fingerprint"),
        ),
    )
