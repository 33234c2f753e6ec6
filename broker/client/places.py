"""Where the state of a daemon lives: DOORWARD_HOME, else the platform's own places. Nothing is created here.

The environment chooses a state directory and no more: whom to trust there is decided by owners, modes and keys.
On the agent's path this module must cost nothing: no dataclass, and pathlib and platformdirs only when asked for.
"""

import os
from collections.abc import Mapping

TYPE_CHECKING = False  # `typing` is not loaded for the sake of annotations
if TYPE_CHECKING:
    from pathlib import Path

_NAME = "doorward"


class Places:
    """The directories and files of one daemon. Sockets are plain text, as the socket module takes them."""

    __slots__ = ("_environ", "_home")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        home = environ.get("DOORWARD_HOME", "")
        self._home = os.path.abspath(home) if home else None  # noqa: PTH100 - pathlib costs the agent's path 3 ms

    @staticmethod
    def find(environ: Mapping[str, str]) -> "Places":
        return Places(environ)

    @property
    def home(self) -> "Path | None":
        """DOORWARD_HOME made absolute; None where the platform's places are used (and /etc is read)."""
        return None if self._home is None else _path(self._home)

    @property
    def config(self) -> "Path":
        return _path(self._place("config", "XDG_CONFIG_HOME", "user_config_dir"))

    @property
    def data(self) -> "Path":
        return _path(self._place("data", "XDG_DATA_HOME", "user_data_dir"))

    @property
    def runtime(self) -> "Path":
        return _path(self._runtime)

    @property
    def anchor(self) -> "Path":
        if self._home is not None:
            return _path(self._home, "anchor")
        return _path(self._place("state", "XDG_STATE_HOME", "user_state_dir"), "anchor")

    @property
    def policies(self) -> "Path":
        return self.config / "policies"

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
    def audit(self) -> "Path":
        return self.data / "audit"

    @property
    def pin(self) -> "Path":
        return self.data / "audit.pin"

    @property
    def seeds(self) -> "Path":
        return self.data / "audit-seed"

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
        return self._place("run", "XDG_RUNTIME_DIR", "user_runtime_dir")

    def _place(self, below_home: str, variable: str, function: str) -> str:
        if self._home is not None:
            return f"{self._home}/{below_home}"
        chosen = self._environ.get(variable, "")
        if chosen.startswith("/"):  # the XDG specification has relative ones ignored
            return f"{chosen.rstrip('/')}/{_NAME}"
        import platformdirs  # noqa: PLC0415 - 5 ms, and only where nothing else decides

        return str(getattr(platformdirs, function)(_NAME, appauthor=False))


def _path(*parts: str) -> "Path":
    from pathlib import Path  # noqa: PLC0415 - 3 ms that the agent's path does not pay

    return Path(*parts)
