#!/bin/bash
# The whole test suite, as `make test` runs it after its set-up: the tests, the wheel in an environment of its own, and
# the canary scan over all that they left behind. Branches are counted where the tests of those parts run, and nowhere
# else: counting doubles what a test takes.
set -euo pipefail
cd "$(dirname "$0")/.."

# A short path: the address of a Unix socket has at most 107 bytes.
left=$(mktemp -d /tmp/doorward.XXXXXX)
trap 'echo "what the tests left behind is in $left" >&2' ERR
mkdir -p build/logs "$left/tmp"
rm -f build/logs/test.log
chmod 711 "$left" "$left/tmp" # the accounts that log in to the tests' SSH servers have their homes in there
export TMPDIR=$left/tmp COVERAGE_FILE=build/.coverage

failed=0
counted=(tests/contract tests/core tests/flow tests/cases tests/attacks tests/operations tests/approvals tests/server)
run() { # a name for what is left behind, then a command and its words for pytest
    name=$1
    shift
    "$@" -q --basetemp="$left/$name" 2>&1 | tee -a build/logs/test.log || failed=1
}
run c .venv/bin/coverage run -m pytest -m "not live" "${counted[@]}"
run l .venv/bin/python -m pytest -m live "${counted[@]}"
run t .venv/bin/python -m pytest "${counted[@]/#/--ignore=}"
.venv/bin/coverage report --fail-under=100 --skip-covered || failed=1
[ "$failed" = 0 ] # told only now, so that one failure hides no other
tests/shipped/wheel_smoke.sh build/wheel build/wheel-venv "$left/wheel" 2>&1 | tee build/logs/wheel.log
.venv/bin/python tests/canary_scan.py "$left" build/logs
rm -rf "$left"
