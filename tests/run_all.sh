#!/bin/bash
# The whole test suite, as `make test` runs it after its set-up: tests with branch coverage, the wheel in an
# environment of its own, and the canary scan over all that they left behind.
set -euo pipefail
cd "$(dirname "$0")/.."

# A short path: the address of a Unix socket has at most 107 bytes.
left=$(mktemp -d /tmp/doorward.XXXXXX)
trap 'echo "what the tests left behind is in $left" >&2' ERR
mkdir -p build/logs "$left/tmp"
chmod 711 "$left" "$left/tmp" # the accounts that log in to the tests' SSH servers have their homes in there
export TMPDIR=$left/tmp COVERAGE_FILE=build/.coverage

.venv/bin/coverage run -m pytest -q --basetemp="$left/t" 2>&1 | tee build/logs/test.log
.venv/bin/coverage report --fail-under=100 --skip-covered
tests/shipped/wheel_smoke.sh build/wheel build/wheel-venv "$left/wheel" 2>&1 | tee build/logs/wheel.log
.venv/bin/python tests/canary_scan.py "$left" build/logs
rm -rf "$left"
