"""What became of an operation, asked on its host: look-up, collection of old markers, output of a detached command.

A look-up that finds nothing takes the id with a fence, so that a command that is still on its way can't run any more.
"Never started" is said only where the fence stands in the very store, and was put up in the very boot, that the probe
saw before the command was sent. Whatever is not proven stays unknown.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from broker.core.ssh.outcome import Finding, Found, StoreSeen
from broker.core.ssh.script import FACTS, OPERATION_ID, STORE_ID, STORES, TAG, checked, pack, store_seen
from broker.core.ssh.wrapper import SPOOL_BYTES

MAX_COLLECTED = 100  # ids in one line
_FOUND = re.compile(rb"\x1e" + TAG.encode() + rb" found (\S+) (\S+) (\S+) (\S+) (\S+) ([^\n]*?)\r?\n")
_SPOOL = re.compile(rb"\x1e" + TAG.encode() + rb" spool (\S+) (\d{1,10}) (\d{1,10}) (whole|open)\r?\n")
_COLLECTED = re.compile(rb"\x1e" + TAG.encode() + rb" collected (\d{1,6})\r?\n")
_STATUS = re.compile(r"\d{1,3}")
_FINISHED, _FENCED = "finished", "fenced"
_WORDS = {
    "running": Found.RUNNING,
    "died": Found.DIED,
    "died_reboot": Found.DIED_REBOOT,
    "died_restart": Found.DIED_RESTART,
    "orphan": Found.ORPHAN,
    "other_host": Found.OTHER_HOST,
    "unreadable": Found.UNREADABLE,
    "no_store": Found.NO_STORE,
}

_TELL = """
d_tell() { printf "\\036@TAG@ found %s %s %s %s %s %s\\n" @ID@ $1 ${2:--} ${3:--} ${4:--} "$d_d"; exit 0; };
d_read() { d_1st=; d_x=; while read -r d_y; do d_1st=${d_1st:-$d_y};
case $d_y in "exit "*" end") d_x=${d_y#exit }; d_x=${d_x% end};; esac; done; };
d_id() { d_e=; { read -r d_e <"$d_d/store"; } 2>/dev/null; d_e=${d_e:--}; };
"""

# A marker without a line is a claim whose owner has not written yet: then the fence is put in and may be the first.
_JUDGE = """
d_judge() {
d_o=$d_d/ops/@ID@;
d_id;
[ -s "$d_o" ] || { echo "fence $d_e $d_b end" >>"$d_o"; } 2>/dev/null;
d_1st=;
{ d_read <"$d_o"; } 2>/dev/null;
set -- $d_1st;
case $d_1st in "fence "*" end") d_tell fenced - $2 $3;; "start 1 "*" end") ;; *) d_tell unreadable - $d_e $d_b;; esac;
[ -z "$d_x" ] || d_tell finished $d_x $d_e $d_b;
[ "$8" = "$d_n" ] || d_tell other_host - $d_e $d_b;
[ "$7" = "$d_b" ] || d_tell died_reboot - $d_e $d_b;
[ "$6" = "$d_1" ] || d_tell died_restart - $d_e $d_b;
d_s $3 && [ "$d_t" = "$4" ] && case $d_z in [ZX]*) ;; *) d_tell running - $d_e $d_b;; esac;
d_w=died;
for d_k in /proc/[0-9]*; do
d_s ${d_k#/proc/} && [ "$d_g" = "$5" ] && [ "$d_t" -ge "$4" ] && case $d_z in [ZX]*) ;; *) d_w=orphan; break;; esac;
done 2>/dev/null;
{ d_read <"$d_o"; } 2>/dev/null;
[ -z "$d_x" ] || d_tell finished $d_x $d_e $d_b;
d_tell $d_w - $d_e $d_b;
};
"""

# Both stores are looked at before any fence is put up. The store that the command was bound to is judged last.
_LOOK = """
d_m=0;
d_any=;
d_home && { d_any=$d_d; [ -e "$d_d/ops/@ID@" ] && d_judge; };
d_tmp && { d_any=${d_any:-$d_d}; [ -e "$d_d/ops/@ID@" ] && d_judge; };
[ -n "$d_any" ] || d_tell no_store - - $d_b;
d_fence() {
d_id;
[ "$d_e" = "@WANTED@" ] && d_any=$d_d;
d_o=$d_d/ops/@ID@;
set -C;
{ printf "" >"$d_o"; } 2>/dev/null;
set +C;
[ -s "$d_o" ] || { echo "fence $d_e $d_b end" >>"$d_o"; } 2>/dev/null; };
d_home && d_fence;
d_tmp && d_fence;
d_d=$d_any;
d_judge
"""

# Only what has a start is taken away: a fence, and a claim that nobody has written to, keep their ids closed.
_COLLECT = """
d_m=0;
d_c=0;
d_old() {
d_o=$d_d/ops/$1;
d_1st=;
{ d_read <"$d_o"; } 2>/dev/null;
case $d_1st in "start 1 "*) ;; *) return;; esac;
set -- $d_1st;
[ -n "$d_x" ] || { [ "$8" = "$d_n" ] && { [ "$7" = "$d_b" ] && d_s $3 && [ "$d_t" = "$4" ] && return; }; };
rm -f "$d_o" "$d_o.out" "$d_o.err" && d_c=$((d_c+1)); };
d_all() { for d_i in @IDS@; do [ -e "$d_d/ops/$d_i" ] && d_old $d_i; done; };
d_home && d_all;
d_tmp && d_all;
printf "\\036@TAG@ collected %s\\n" $d_c
"""

_SPOOLED = """
d_m=0;
d_give() {
d_o=$d_d/ops/@ID@;
[ -f "$d_o.out" ] && [ -f "$d_o.err" ] || return;
d_w=open;
while read -r d_y; do [ "$d_y" = "spooled end" ] && d_w=whole; done <"$d_o";
d_1=$(wc -c <"$d_o.out");
d_2=$(wc -c <"$d_o.err");
printf "\\036@TAG@ spool %s %s %s %s\\n" @ID@ $d_1 $d_2 $d_w;
head -c $d_1 "$d_o.out";
head -c $d_2 "$d_o.err";
exit 0; };
d_home && d_give;
d_tmp && d_give
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """Kept output of a detached command. `complete`: nothing more is coming. `cut`: there was more than is kept."""

    stdout: bytes
    stderr: bytes
    complete: bool
    cut: bool


def look_up(operation_id: str, *, since: StoreSeen | None) -> str:
    """The line that asks. `since` is the store that the probe saw before the command was sent."""
    words = {"ID": checked(operation_id, OPERATION_ID), "WANTED": "-" if since is None else checked(since.id, STORE_ID)}
    return pack(_filled(STORES + FACTS + _TELL + _JUDGE + _LOOK, words))


def parse(stdout: bytes, *, operation_id: str, since: StoreSeen | None) -> Finding:
    """What the answer proves. Anything that is no answer to this question is none."""
    told = _FOUND.search(stdout)
    if told is None:
        return Finding(found=Found.NO_ANSWER)
    asked, word, status, store, boot, path = (part.decode("utf-8", "backslashreplace") for part in told.groups())
    if asked != operation_id or word not in {*_WORDS, _FINISHED, _FENCED}:
        return Finding(found=Found.NO_ANSWER)
    seen = store_seen(path=path, store=store, boot=boot)
    if word == _FINISHED:
        known = _STATUS.fullmatch(status)
        return Finding(
            found=Found.FINISHED if known else Found.UNREADABLE, status=int(status) if known else None, store=seen
        )
    if word == _FENCED:
        proven = seen is not None and since is not None and boot != "-" and (seen.id, boot) == (since.id, since.boot)
        return Finding(found=Found.NEVER_STARTED if proven else Found.FENCED_LATE, store=seen)
    return Finding(found=_WORDS[word], store=seen)


def collect(settled: Iterable[str]) -> str:
    """The line that removes the markers of these ids. The caller names settled ones alone, MAX_COLLECTED at a time."""
    ids = [checked(operation_id, OPERATION_ID) for operation_id in settled]
    if not 1 <= len(ids) <= MAX_COLLECTED:
        raise ValueError(f"1 to {MAX_COLLECTED} ids are collected at a time")
    return pack(_filled(STORES + FACTS + _TELL + _COLLECT, {"IDS": " ".join(ids), "ID": ids[0]}))


def parse_collected(stdout: bytes) -> int | None:
    """How many markers went; None where that was not said."""
    told = _COLLECTED.search(stdout)
    return None if told is None else int(told[1])


def spool(operation_id: str) -> str:
    """The line that prints what a detached command wrote so far."""
    return pack(_filled(STORES + _SPOOLED, {"ID": checked(operation_id, OPERATION_ID)}))


def parse_spool(stdout: bytes, *, operation_id: str) -> Spool | None:
    """None where nothing was spooled, or the answer is cut."""
    told = _SPOOL.search(stdout)
    if told is None or told[1] != operation_id.encode("ascii"):
        return None
    size, size_2 = int(told[2]), int(told[3])
    content = stdout[told.end() :]
    if len(content) < size + size_2:
        return None
    return Spool(
        stdout=content[:size],
        stderr=content[size : size + size_2],
        complete=told[4] == b"whole",
        cut=SPOOL_BYTES in {size, size_2},
    )


def _filled(script: str, words: dict[str, str]) -> str:
    for name, value in {**words, "TAG": TAG}.items():
        script = script.replace(f"@{name}@", value)
    return script
