"""Where the state of a daemon lives: DOORWARD_HOME, else the platform's own places. Nothing is created here.

The environment chooses a state directory and no more: whom to trust there is decided by owners, modes and keys.
On the agent's path this module must cost nothing: no dataclass, and pathlib and platformdirs only when asked for.
Sockets never lie where another user could have been first: without a runtime directory they stand with the data.
"""

import os
import stat
import sys
from collections.abc import Mapping

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from pathlib import Path

_NAME = "doorward"
_ON_LINUX = {"config": ".config", "data": ".local/share", "state": ".local/state"}  # as the XDG specification has it


class Places:
    """The directories and files of one daemon. Sockets are plain text, as the socket module takes them."""

    __slots__ = ("_environ", "_home")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        home = environ.get("DOORWARD_HOME", "")
        self._home = os.path.abspath(home) if home else None  # noqa: PTH100 - pathlib costs the agent's path 3 ms

    @property
    def home(self) -> "Path | None":
        """DOORWARD_HOME made absolute; None where the platform's places are used (and /etc is read)."""
        return None if self._home is None else _path(self._home)

    @property
    def config(self) -> "Path":
        return _path(self._place("config", "XDG_CONFIG_HOME"))

    @property
    def data(self) -> "Path":
        return _path(self._place("data", "XDG_DATA_HOME"))

    @property
    def runtime(self) -> "Path":
        return _path(self._runtime)

    @property
    def anchor(self) -> "Path":
        if self._home is not None:
            return _path(self._home, "anchor")
        return _path(self._place("state", "XDG_STATE_HOME"), "anchor")

    @property
    def policies(self) -> "Path":
        return self.config / "policies"

    @property
    def system_policies(self) -> "Path | None":
        """The machine's own policies, the same for every user; with DOORWARD_HOME there are none."""
        return _path("/etc", _NAME, "policies") if self._home is None else None

    @property
    def approver_key(self) -> "Path":
        return self.config / "approver.key"

    @property
    def vault(self) -> "Path":
        return self.data / "vault.db"

    @property
    def ledger(self) -> "Path":
        return self.data / "ledger.db"

    @property
    def evidence(self) -> "Path":
        return self.data / "evidence.db"

    @property
    def audit(self) -> "Path":
        return self.data / "audit"

    @property
    def diagnostics(self) -> "Path":
        return self.data / "diagnostics"

    @property
    def pin(self) -> "Path":
        return self.data / "audit.pin"

    @property
    def seeds(self) -> "Path":
        return self.data / "audit-seed"

    @property
    def known_damage(self) -> "Path":
        """What a human took over of a damaged log, in clear; the vault has it sealed."""
        return self.data / "audit.known"

    @property
    def audit_keyring(self) -> "Path":
        """Stands there where the log's seeds and a copy of its head live in the OS keyring too."""
        return self.data / "audit.keyring"

    @property
    def anchor_head(self) -> "Path":
        return self.anchor / "head"

    @property
    def lock(self) -> "Path":
        return self.data / "daemon.lock"

    @property
    def daemon_log(self) -> "Path":
        return self.data / "daemon.log"

    @property
    def agent_socket(self) -> str:
        return f"{self._runtime}/agent.sock"

    @property
    def control_socket(self) -> str:
        return f"{self._runtime}/control.sock"

    @property
    def _runtime(self) -> str:
        if self._home is not None:
            return f"{self._home}/run"
        chosen = _absolute(self._environ.get("XDG_RUNTIME_DIR", "")) or _login_directory(os.getuid())
        return f"{chosen}/{_NAME}" if chosen else f"{self._place('data', 'XDG_DATA_HOME')}/run"

    def _place(self, below_home: str, variable: str) -> str:
        if self._home is not None:
            return f"{self._home}/{below_home}"
        chosen = _absolute(self._environ.get(variable, ""))
        if chosen:
            return f"{chosen}/{_NAME}"
        if sys.platform != "linux":
            import platformdirs  # noqa: PLC0415 - 15 ms, and only where nothing else decides

            return str(getattr(platformdirs, f"user_{below_home}_dir")(_NAME, appauthor=False))
        home = self._environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - no pathlib here
        return f"{home.rstrip('/')}/{_ON_LINUX[below_home]}/{_NAME}"


def _absolute(chosen: str) -> str:
    """A directory that a variable names; the XDG specification has relative ones ignored."""
    return chosen.rstrip("/") if chosen.startswith("/") else ""


def _login_directory(uid: int) -> str:
    """What logins get as XDG_RUNTIME_DIR, for who comes without that variable: cron, su, a bare environment."""
    place = f"/run/user/{uid}"
    try:
        facts = os.lstat(place)
    except OSError:
        return ""
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == uid and not facts.st_mode & 0o077
    return place if ours else ""


def _path(*parts: str) -> "Path":
    from pathlib import Path  # noqa: PLC0415 - 3 ms that the agent's path does not pay

    return Path(*parts)
