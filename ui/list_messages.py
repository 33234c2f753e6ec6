"""Tasks and news of the screens that are lists, beside those in `messages`. Frozen values."""

from dataclasses import dataclass

from ui.served_lists import HostKeyRow, LogCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetHostKey:
    """The next contact with the host is a first one again. Signed."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCredential:
    """One read by the probe that the policy declares, which tells whether its service takes it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKeysNews:
    keys: tuple[HostKeyRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNews:
    """What a check of a credential came to: valid, invalid or unknown, and in whose words."""

    name: str
    at_ms: int
    verdict: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsNews:
    """The checkpoints that stand in the log, the newest first; `whole` is False where older ones were not read."""

    checkpoints: tuple[LogCheckpoint, ...]
    whole: bool
