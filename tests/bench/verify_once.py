"""One full verification in a process of its own: prints its seconds of CPU and its peak memory in MiB."""

import re
import sys
import time
from pathlib import Path

from broker.audit.ladder import in_file
from broker.audit.pin import Anchor, Pin
from broker.audit.verify import verify

base = Path(sys.argv[1])
began = time.process_time()
verdict = verify(
    base / "audit",
    pin=Pin.load(base / "audit.pin"),
    anchors=in_file(Anchor.load(base / "anchor" / "head")),
)
taken = time.process_time() - began
if verdict.exit_code != 0:
    raise SystemExit(f"not whole: {verdict.to_json()}")
peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
print(f"{taken:.4f} {int(peak[1]) // 1024 if peak else 0}")
