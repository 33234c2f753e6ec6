#!/bin/sh
# Build a virtual environment from a hashed lock file, and install the project into it.
#
#     packaging/setup-venv.sh VENV LOCK [WHAT TO INSTALL, as for pip]
#
# Takes uv where it is there, else pip; works without ensurepip (Debian without python3-venv) as long as python3 has
# pip. PYTHON names the interpreter; without it the first of python3, python3.14 ... python3.11 that fits is taken.
# An environment that is there and fits is kept and brought up to date, never deleted.
set -eu

venv=$1
lock=$2
shift 2

fits() {
    "$1" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

pick_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if fits "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    echo "doorward needs Python 3.11 to 3.14; none was found${PYTHON:+ under $PYTHON}. Name one: make PYTHON=/path/to/python3" >&2
    exit 1
}

create() {
    if command -v uv >/dev/null 2>&1 && uv venv --quiet --allow-existing --python "$python" "$venv" 2>/dev/null; then
        return
    fi
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv "$venv"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m venv --without-pip "$venv"
    else
        echo "$python has neither ensurepip nor pip: apt install python3-venv" >&2
        exit 1
    fi
}

install() {
    if command -v uv >/dev/null 2>&1; then
        if uv pip install --quiet --python "$venv/bin/python" "$@"; then
            return
        fi
        echo "uv could not install it (its reason stands above); trying pip" >&2
    fi
    if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    else
        "$python" -m pip --python "$venv/bin/python" install --quiet --disable-pip-version-check "$@"
    fi
}

python=$(pick_python)
if ! fits "$venv/bin/python"; then
    create
fi
echo "setting up $venv from ${lock##*/} (the first time takes a minute)" >&2
install --require-hashes -r "$lock"
if [ $# -gt 0 ]; then
    install --no-deps --no-build-isolation "$@"
fi
