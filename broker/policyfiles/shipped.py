"""The packs that come with doorward: service packs and example rules that `doorward policy add NAME` installs.

An installed wheel carries them beside this module, a source tree in `policies/` at its root.
"""

from pathlib import Path

from broker.policyfiles.files import PolicyError

SCHEMA = "policy.schema.json"


def pack_names() -> tuple[str, ...]:
    """The names that `pack_bytes` knows, sorted."""
    return tuple(sorted(path.stem for path in _directory().glob("*.toml")))


def pack_bytes(name: str) -> bytes:
    """The pack as it is shipped. Raises PolicyError where there is none of that name."""
    if name not in pack_names():
        raise PolicyError(f"there is no pack of that name; there are {', '.join(pack_names())}")
    return (_directory() / f"{name}.toml").read_bytes()


def schema_bytes() -> bytes:
    """The JSON Schema of policy files, for editors and `doorward policy schema`."""
    return (_directory() / SCHEMA).read_bytes()


def _directory() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "shipped"
    return installed if installed.is_dir() else here.parents[1] / "policies"
