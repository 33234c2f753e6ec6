"""What a child of ours sees of the environment, chosen by name: nothing passes because nobody thought of it.

An agent under `doorward run` gets what programs need to find their way; secrets that a shell exports stay outside
unless they are named. No child ever gets a DOORWARD_ variable but the one that says where the state is.
"""

from collections.abc import Iterable, Mapping

STATE = frozenset({"DOORWARD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"})
SESSION_BUS = frozenset({"DBUS_SESSION_BUS_ADDRESS"})  # where the keyring is asked, if init chose it
PLAIN = frozenset({"HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"})
AGENT = PLAIN | frozenset(
    {
        *("SHELL", "TERM", "COLORTERM", "DISPLAY", "WAYLAND_DISPLAY", "SSH_TTY"),
        *("DOORWARD_HOME", "VIRTUAL_ENV", "PWD", "NO_COLOR", "CI"),
    }
)
_OWN = "DOORWARD_"


def for_daemon(environ: Mapping[str, str]) -> dict[str, str]:
    """Places, language and time, and the way to the session's keyring."""
    known = STATE | PLAIN | SESSION_BUS
    return {name: value for name, value in environ.items() if name in known or name.startswith("LC_")}


def for_agent(environ: Mapping[str, str], *, named: Iterable[str] = (), everything: bool = False) -> dict[str, str]:
    """The common variables, those that are named, or all of them; ours never."""
    chosen = frozenset(named)
    return {
        name: value
        for name, value in environ.items()
        if name == "DOORWARD_HOME"
        or (not name.startswith(_OWN) and (everything or name in chosen or name in AGENT or _is_common(name)))
    }


def _is_common(name: str) -> bool:
    return name.startswith(("LC_", "XDG_")) or name.upper().endswith("_PROXY")
