"""The real daemon on a machine that slept: its clock since the boot is ahead by the seconds that a file says.

python -I tests/live/slept_daemon.py FILE
"""

import os
import sys
import time
from pathlib import Path

from broker.client.hardening import harden
from broker.client.places import Places
from broker.daemon import logs
from broker.daemon.main import run


def main(slept: Path) -> int:
    gettime = time.clock_gettime
    time.clock_gettime = lambda clock: (
        gettime(clock) + (float(slept.read_text()) if clock == time.CLOCK_BOOTTIME and slept.exists() else 0.0)
    )
    harden()
    logs.set_up()
    return run(Places(os.environ), dict(os.environ))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
