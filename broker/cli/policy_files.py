"""Policy files as the verbs without a daemon read them: the user's and the machine's, or what is named."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from broker.cli.faults import CliError
from broker.cli.reach import places
from broker.client.places import Places
from broker.core.policy.faults import Fault
from broker.core.policy.hours import Moment
from broker.policyfiles import PolicyError, PolicyFile
from broker.policyfiles.directory import read_directory, read_system
from broker.policyfiles.local_time import local_zone, moment_of


def own_files(paths: Sequence[Path]) -> list[PolicyFile]:
    """The files of directories, read as the daemon reads them, and files named one by one.

    Without paths those that would be in force: the user's directory and the machine's. Raises PolicyError.
    """
    if not paths:
        return _of_this_user()
    out: list[PolicyFile] = []
    for path in paths:
        if path.is_dir():
            out += read_directory(path, os.geteuid())
        else:
            out.append(read_file(path))
    return out


def read_file(path: Path) -> PolicyFile:
    try:
        return PolicyFile(name=path.name, raw=path.read_bytes())
    except OSError as cause:
        raise PolicyError(f"{path}: can't be read: {cause.strerror}") from None


def unreadable(cause: PolicyError) -> Fault:
    """What is told where the files could not even be read."""
    return Fault(file="", line=0, key="", problem=str(cause))


def now() -> Moment:
    """The minute of the week by this machine's clock."""
    return moment_of(time.time_ns() // 1_000_000, local_zone())


def in_place(at: Places) -> list[PolicyFile]:
    """The machine's files and the user's, as the daemon would read them. Raises PolicyError."""
    system = () if at.system_policies is None else read_system(at.system_policies)
    return [*system, *read_directory(at.policies, os.geteuid())]


def _of_this_user() -> list[PolicyFile]:
    at = places()
    found = in_place(at)
    if not found and not at.policies.is_dir():
        raise CliError(f"there is no {at.policies} yet: doorward setup github, or doorward policy add NAME")
    return found
