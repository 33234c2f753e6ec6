"""The real daemon, with a directory of the machine's own, whose root is whoever runs it.

python -I tests/live/machine_daemon.py DIRECTORY
"""

import os
import sys
from pathlib import Path

from typing_extensions import override

from broker.client.hardening import harden
from broker.client.places import Places
from broker.daemon import logs
from broker.daemon.main import Wiring, run
from broker.daemon.rulebook import Rulebook

ANOTHER_UID = 4711  # as whom it takes itself to run


class Machine(Places):
    """Places of a home, and a directory of the machine's beside it."""

    __slots__ = ("_system",)

    def __init__(self, system: Path) -> None:
        super().__init__(os.environ)
        self._system = system

    @property
    @override
    def system_policies(self) -> Path:
        return self._system


def main(system: str) -> int:
    harden()
    logs.set_up()
    machine = Machine(Path(system))
    wiring = Wiring(
        rulebook=lambda _, clock: Rulebook(machine, moment=clock.moment, uid=ANOTHER_UID, root_uid=os.getuid())
    )
    return run(machine, dict(os.environ), wiring=wiring)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
