"""Shell text that travels in one single-quoted line, safe under sh, bash, dash, ash, zsh, csh, tcsh and fish.

A login shell is given `exec /bin/sh -c '...'`. Between the quotes stand no quote, `!`, newline or doubled backslash,
the only characters that those shells read in different ways. Bytes of any kind travel as octal in a format of `printf`.
"""

import re

from broker.core.ssh.outcome import StoreSeen

OPERATION_ID = re.compile(r"op_[0-9a-f]{12,64}")
NONCE = re.compile(r"[0-9a-f]{16,64}")
STORE_ID = re.compile(r"[0-9a-zA-Z-]{8,64}")
MAX_STORE_PATH = 4096  # characters
TAG = "DW1"  # of every line that the scripts print, after one record separator (octal 036)

_BOOT = re.compile(r"[!-~]{1,128}")
_UNSAFE = ("'", "!", "\n", "\\\\")
_SPELLED = frozenset(b"\"$'!%\\`\n\r") | frozenset(range(0x20)) | frozenset(range(0x7F, 0x100))

# Where a store may be, in this order: in the home of the user, else below /var/tmp. Each is looked at before it is
# trusted: no link, and ours. `d_m` says whether one may be made. No other variable of the far side is touched: all
# names begin with d_, since an exported variable would reach the command with a new value.
STORES = """
d_ok() { [ -L "$d_d" ] && return 1; [ -d "$d_d/ops" ] && [ -O "$d_d" ] && [ -O "$d_d/ops" ]; };
d_mk() { [ $d_m = 1 ] && mkdir -m 700 "$d_d" "$d_d/ops" 2>/dev/null; };
d_home() { [ -n "$HOME" ] && { d_d=$HOME/.doorward; d_ok || { [ -O "$HOME" ] && { d_mk; d_ok; }; }; }; };
d_tmp() { d_d=/var/tmp/.doorward-$(id -u); d_mk; d_ok && case $(ls -ld "$d_d") in drwx------*) ;; *) return 1;; esac; };
"""

# d_b: this boot, d_n: this machine, d_s: state, session and start time of a process, d_1: start time of process 1,
# which is another one after the restart of a container. Without /proc, what sysctl and ps tell.
FACTS = """
d_b=; d_n=; d_h=;
{ read -r d_b </proc/sys/kernel/random/boot_id; read -r d_n </proc/sys/kernel/hostname; } 2>/dev/null
|| { d_b=$(sysctl -n kern.bootsessionuuid || sysctl -n kern.boottime | tr -dc 0-9); d_n=$(uname -n); } 2>/dev/null;
{ read -r d_h </etc/machine-id; } 2>/dev/null; d_n=${d_n:--}/$d_h; d_b=${d_b:--};
d_s() { if [ -d /proc/self ]; then { read -r d_x </proc/$1/stat; } 2>/dev/null || return 1;
set -- ${d_x##*) }; d_z=$1; d_g=$4; d_t=${20};
else set -- $(ps -o stat=,lstart= -p $1 2>/dev/null); [ $# -gt 1 ] || return 1;
d_z=$1; d_g=0; shift; d_t=$(printf %s "$@" | tr -dc 0-9A-Za-z); fi; };
d_s 1 || d_t=; d_1=${d_t:--};
"""


def store_seen(*, path: str, store: str, boot: str) -> StoreSeen | None:
    """The store that a host named; None where that is no store's name. It is kept, so it has a bound."""
    if STORE_ID.fullmatch(store) is None or _BOOT.fullmatch(boot) is None or len(path) > MAX_STORE_PATH:
        return None
    return StoreSeen(path=path, id=store, boot=boot)


def octal(content: bytes) -> str:
    """A format of `printf`, to stand between double quotes, that prints these bytes."""
    if b"\0" in content:
        raise ValueError("no shell takes a NUL in a command")
    spelled = "".join(_spelled(byte) for byte in content)
    return "\\055" + spelled[1:] if spelled.startswith("-") else spelled


def pack(script: str) -> str:
    """One line for the login shell. Raises ValueError where the script holds what a login shell would misread."""
    line = pack_lines(script)
    if any(mark in line for mark in _UNSAFE) or line.endswith("\\"):
        raise ValueError("the script holds a character that login shells read in different ways")
    return f"exec /bin/sh -c '{line}'"


def pack_lines(script: str) -> str:
    """The script in one line; each of its own lines ends where a space may follow."""
    return " ".join(part for part in map(str.strip, script.splitlines()) if part)


def checked(value: str, form: re.Pattern[str]) -> str:
    """The value, where it has the form and so may stand in a script unquoted. Raises ValueError."""
    if form.fullmatch(value) is None:
        raise ValueError("an id or nonce is not of its form")
    return value


def _spelled(byte: int) -> str:
    if byte == 0x25:
        return "%%"
    return f"\\{byte:03o}" if byte in _SPELLED else chr(byte)
