import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import resource
from broker.client.hardening import dumpable, harden
before = dumpable()
print(before, harden(), dumpable(), resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_a_hardened_process_leaves_no_core_and_cannot_be_looked_into() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=30, cwd=ROOT
    )

    assert "True True False (0, 0)" == done.stdout.strip()
