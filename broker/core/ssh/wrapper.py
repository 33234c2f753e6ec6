"""What carries a command to a host so that its fate can be looked up afterwards, and what prepares the host for it.

The wrapped command runs at most once for each operation id: the marker file is made first, by a creation that fails
where it exists. The marker then holds who runs it (process, start time, boot, machine) before the command starts, and
its exit status after it ended, also by `exec`, `exit`, a trap or a signal (as 128 and the signal's number).
A preamble on stderr, tagged with a nonce, says that this is what happened; without it nothing is known to have run.

Three things differ from the bare command: the login shell reads its start files twice (once for the wrapper, once for
the command, which so finds what they define), a death by signal becomes a status, and a detached command has nothing
to read.
"""

import re
from typing import Literal

from broker.core.ssh.model import MarkerMode
from broker.core.ssh.outcome import MarkerState, StoreSeen
from broker.core.ssh.script import (
    FACTS,
    NONCE,
    OPERATION_ID,
    STORE_ID,
    STORES,
    TAG,
    checked,
    octal,
    pack,
    pack_lines,
    store_seen,
)

EXIT_NO_STORE = 97
EXIT_DUPLICATE = 98
SPOOL_BYTES = 1_048_576  # kept of each stream of a detached command
_IN_TMP = re.compile(r"/var/tmp/\.doorward-[0-9]+")  # noqa: S108 - the host's; its owner is checked there
_PROBED = re.compile(rb"\x1e" + TAG.encode() + rb" probe (\S+) (\S+) ([^\n]*?)\r?\n")

_SAY = """
d_p() { printf "\\036@TAG@ %s %s %s\\n" @ID@ @NONCE@ "$*" >&2; };
d_no() { d_p refused; exit 97; };
"""
_COMMAND = """
d_c=$(printf "@COMMAND@.");
d_c=${d_c%.};
"""

# The claim: a creation that fails where the file is there already. Nothing is claimed but in the store that the probe
# saw, so that a fence in that store is proof.
_CLAIM = """
d_d=@STORE@;
d_e=;
{ [ -L "$d_d" ] || { [ -O "$d_d" ] && [ -O "$d_d/ops" ] && read -r d_e <"$d_d/store"; }; } 2>/dev/null;
[ "$d_e" = @STORE_ID@ ] || d_no;
d_o=$d_d/ops/@ID@;
set -C;
{ printf "" >"$d_o"; } 2>/dev/null || { [ -e "$d_o" ] || d_no; d_p duplicate; exit 98; };
set +C;
"""

# Then a line is appended and read back. Whoever's line is the first owns the id: this command, or a look-up's fence.
_RECORD = """
d_s $$ || { d_t=-; d_g=-; };
d_r="start 1 $$ ${d_t:--} ${d_g:--} $d_1 $d_b $d_n $d_e end";
d_y=;
{ echo "$d_r" >>"$d_o"; } 2>/dev/null;
dd of="$d_o" conv=notrunc,fsync </dev/null >/dev/null 2>&1;
{ read -r d_y <"$d_o"; } 2>/dev/null;
case $d_y in "$d_r") ;; "fence "*) d_p duplicate; exit 98;; *) d_no;; esac;
d_p "started $d_e $d_b $d_d";
"""

# The wrapper lives on through the signals that end a session, so that it can write how the command ended. It keeps
# quiet itself: some shells write of a child that a signal ended, by the redirections of the child if it has any.
_RUN = """
exec 9>&2 2>/dev/null;
trap : HUP INT QUIT TERM;
(exec 2>&9 9>&-; exec "${SHELL:-/bin/sh}" -c "$d_c");
d_r=$?;
echo "exit $d_r end" >>"$d_o";
exit $d_r
"""

# A terminal that hangs up tells the first process of the session alone. That one has to die of it for the others to be
# told, so another one waits for the command.
_RUN_ON_TERMINAL = f"""
trap : INT QUIT TERM;
({_RUN});
exit $?
"""

# In a session of its own, with its output in files. Both streams are read to their end, whatever is kept of them.
_ARGUMENTS = "d_o=$1; d_c=$2; d_e=$3; d_d=$4;"
_SPOOLED = """
exec 2>/dev/null;
trap : HUP INT QUIT TERM;
d_k() { head -c @CAP@ >"$1"; cat >/dev/null; };
{ { (exec 2>&3 3>&-; exec "${SHELL:-/bin/sh}" -c "$d_c"); echo "exit $? end" >>"$d_o"; } |
{ exec 3>&-; d_k "$d_o.out"; }; } 3>&1 | d_k "$d_o.err";
echo "spooled end" >>"$d_o"
"""
_DETACHED = """
d_r=$(printf "@RUNNER@.");
d_z=nohup;
command -v setsid >/dev/null && d_z=setsid;
$d_z /bin/sh -c "${d_r%.}" doorward "$d_o" "$d_c" "$d_e" "$d_d" </dev/null >/dev/null;
d_z=$?;
d_r=;
while read -r d_y; do case $d_y in "exit "*" end") d_r=${d_y#exit }; d_r=${d_r% end};; esac; done <"$d_o";
[ -n "$d_r" ] || { case $d_z in 97|98) exit $d_z;; esac; kill -9 $$; };
cat "$d_o.out";
cat "$d_o.err" >&2;
exit $d_r
"""
_STORELESS = """
d_p no_store;
exec "${SHELL:-/bin/sh}" -c "$d_c"
"""

_PROBE = """
d_m=1;
d_try() {
d_e=;
[ -e "$d_d/store" ] || {
{ read -r d_e </proc/sys/kernel/random/uuid || d_e=$(date +%s)-$$-$(uname -n | tr -dc 0-9A-Za-z); } 2>/dev/null;
{ echo "$d_e" >"$d_d/store.$$" && { ln "$d_d/store.$$" "$d_d/store" || [ -e "$d_d/store" ]; }; } 2>/dev/null;
rm -f "$d_d/store.$$" 2>/dev/null; };
d_e=;
d_x=;
{ echo probe >"$d_d/probe.$$"; read -r d_x <"$d_d/probe.$$"; rm -f "$d_d/probe.$$"; } 2>/dev/null;
{ read -r d_e <"$d_d/store"; } 2>/dev/null;
[ "$d_x" = probe ] && [ -n "$d_e" ]; };
{ d_home && d_try; } || { d_tmp && d_try; } || d_e=;
printf "\\036@TAG@ probe %s %s %s\\n" "${d_e:--}" "$d_b" "$d_d"
"""


def wrap(
    command: bytes,
    *,
    operation_id: str,
    nonce: str,
    pty: bool,
    mode: MarkerMode,
    detach: bool,
    store: StoreSeen | None,
) -> str:
    """The line that runs the command with a marker in this store, and nowhere else.

    Where the host has no store (`store` is None, as the probe found), PREFERRED runs it without one and says so, and
    REQUIRED refuses. Raises ValueError for what can't be sent so: a NUL, OFF, a detached command on a terminal.
    """
    if mode is MarkerMode.OFF or (detach and pty):
        raise ValueError("there is nothing to wrap, or a detached command was to have a terminal")
    words = {"ID": checked(operation_id, OPERATION_ID), "NONCE": checked(nonce, NONCE), "CAP": str(SPOOL_BYTES)}
    if store is None:
        ending = _STORELESS if mode is MarkerMode.PREFERRED and not detach else "d_no"
        return _carrying(command, _filled(_SAY + _COMMAND + ending, words))
    words |= {"STORE": _place(store), "STORE_ID": checked(store.id, STORE_ID)}
    if not detach:
        run = _RUN_ON_TERMINAL if pty else _RUN
        return _carrying(command, _filled(_SAY + _COMMAND + _CLAIM + FACTS + _RECORD + run, words))
    runner = pack_lines(_filled(_ARGUMENTS + _SAY + FACTS + _RECORD + _SPOOLED, words))
    words["RUNNER"] = octal(runner.encode("ascii"))
    return _carrying(command, _filled(_SAY + _COMMAND + _CLAIM + _DETACHED, words))


def probe() -> str:
    """The line that makes a store where there is none, and tells its id and the boot that the host is in."""
    return pack(_filled(STORES + FACTS + _PROBE, {}))


def parse_probe(stdout: bytes) -> StoreSeen | Literal[MarkerState.NO_STORE, MarkerState.MISSING]:
    """What the probe saw. MISSING: something else than the probe was run there, or nothing."""
    told = _PROBED.search(stdout)
    if told is None:
        return MarkerState.MISSING
    store, boot, path = (part.decode("utf-8", "backslashreplace") for part in told.groups())
    if STORE_ID.fullmatch(store) is None:
        return MarkerState.NO_STORE
    return store_seen(path=path, store=store, boot=boot) or MarkerState.MISSING


def _carrying(command: bytes, script: str) -> str:
    """Last of all, so that nothing in the command is taken for a place to fill in."""
    return pack(script.replace("@COMMAND@", octal(command)))


def _filled(script: str, words: dict[str, str]) -> str:
    for name, value in {**words, "TAG": TAG}.items():
        script = script.replace(f"@{name}@", value)
    return script


def _place(store: StoreSeen) -> str:
    return store.path if _IN_TMP.fullmatch(store.path) else "$HOME/.doorward"
