#!/bin/bash
# The wheel works by itself: installed beside the locked runtime dependencies alone, it has what it ships, its command
# starts, isolated from the caller's directory and environment, checks the shipped packs and does the main job.
#
#     tests/shipped/wheel_smoke.sh WHEEL_DIR VENV [STATE_DIR]
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
wheel=$(ls "$1"/doorward-*.whl)
"$root/packaging/setup-venv.sh" "$2" "$root/requirements.lock" --force-reinstall "$wheel"
bin=$(cd "$2/bin" && pwd)
state=${3:-}
if [ -z "$state" ]; then
    state=$(mktemp -d /tmp/doorward.XXXXXX)
    trap 'rm -rf "$state"' EXIT
fi
mkdir -p "$state/elsewhere" "$state/home"

fail() {
    echo "wheel smoke: $1" >&2
    exit 1
}

# Nothing of the source tree, of the user's settings or of the outside environment plays a part from here on.
doorward() {
    (cd "$state/elsewhere" && env -i PATH=/usr/bin:/bin HOME="$state/home" LANG=C.UTF-8 DOORWARD_HOME="$state/home/dw" \
        PYTHONPATH="$state/elsewhere" "$bin/doorward" "$@")
}

"$bin/python" -I - "$wheel" <<'PYTHON' || fail "the wheel lacks what it has to ship"
import sys
import zipfile
from pathlib import Path

names = zipfile.ZipFile(sys.argv[1]).namelist()
wanted = ("broker/contract/schemas/result.json", "broker/contract/openapi/agent.json", "ui/app.tcss")
missing = [name for name in wanted if name not in names]
if not any(name.startswith("broker/policyfiles/shipped/") and name.endswith(".toml") for name in names):
    missing.append("policy packs")
if not any(name.endswith("dist-info/licenses/LICENSE") for name in names):
    missing.append("LICENSE")
strange = [name for name in names if not name.startswith(("broker/", "ui/", "doorward-"))]
if missing or strange:
    raise SystemExit(f"missing {missing}, not expected {strange}")

import broker
import ui
from broker.contract.schemas import names as schema_names, schema

if not all(schema(name) for name in schema_names()):
    raise SystemExit("a schema does not load")
for package in (broker, ui):
    if "site-packages" not in Path(package.__file__).parts:
        raise SystemExit(f"{package.__name__} is not the installed one")
PYTHON

# A module that waits in the caller's directory and on PYTHONPATH is not loaded: the command starts Python with -I.
echo 'raise SystemExit("the caller chose our code")' | tee "$state/elsewhere/json.py" "$state/elsewhere/broker.py" >/dev/null

version=$(doorward --version) || fail "--version failed"
[[ $version == *"$(basename "$wheel" | cut -d- -f2)"* ]] || fail "--version says: $version"
doorward --help >/dev/null || fail "--help failed"
doorward policy check "$root"/policies/*.toml >/dev/null || fail "a shipped policy pack does not check"
code=0
doorward http GET github /user >/dev/null 2>&1 || code=$?
[ "$code" -eq 31 ] || fail "without a daemon the exit code is $code, not 31"

if [ -f "$root/packaging/demo/run.py" ]; then
    (cd "$state/elsewhere" && env -i PATH=/usr/bin:/bin HOME="$state/home" LANG=C.UTF-8 TMPDIR="${TMPDIR:-/tmp}" \
        "$bin/python" -I "$root/packaging/demo/run.py" >"$state/demo.log" 2>&1) || {
        cat "$state/demo.log" >&2
        fail "the demo failed"
    }
fi
echo "wheel smoke: $version works from its wheel"
