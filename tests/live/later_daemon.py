"""The real daemon, whose wall clock goes ahead: what comes to be after a day can be seen at once.

python -I tests/live/later_daemon.py SECONDS
"""

import os
import sys
import time

from broker.client.hardening import harden
from broker.client.places import Places
from broker.daemon import logs
from broker.daemon.main import run


def main(seconds: str) -> int:
    ahead_ns, time_ns = int(seconds) * 1_000_000_000, time.time_ns
    time.time_ns = lambda: time_ns() + ahead_ns
    harden()
    logs.set_up()
    return run(Places(os.environ), dict(os.environ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
