"""The shape of the source: what a file may be called, how long it may be, and who alone may make or open what."""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "base",
    "manager",
    "handler",
    "handler2",
    "data",
    "info",
    "misc",
}
FILE_LINES = 400
FUNCTION_LINES = 60

# The value types that carry the order of the steps, and the only places that may make one.
MAKERS = {
    "Receipt": {"broker/audit/writer.py"},
    "Scrubbed": {"broker/core/scrub.py"},
    "PeerFacts": {"broker/server/peer.py"},
    "Permit": {"broker/core/gate.py"},
    "Caller": {"broker/core/identity.py"},
    "RawOutcome": {"broker/executors/"},
}

# Every file that opens a secret. A new one is a decision of its own.
OPENERS = {
    "broker/core/secret.py": "defines it",
    "broker/core/http_secrets.py": "checks a value, and builds the header or parameter that carries it",
    "broker/core/sigv4.py": "signs a request",
    "broker/core/secret_set.py": "looks for the value in answers",
    "broker/core/ssh/keyform.py": "reads a private key, and brings it into one form",
    "broker/client/approver.py": "derives keys from the passphrase and signs",
    "broker/client/handover.py": "hands keys and values to the daemon, and a passphrase to the screen",
    "broker/daemon/seed_home.py": "packs the log's signing seeds for the keyring",
    "broker/audit/": "seals and opens records of the log with its own keys",
    "broker/operations/evidence_store.py": "seals recorded collections",
    "broker/operations/ledger.py": "seals recorded results",
    "broker/vault/": "seals and opens records",
    "broker/executors/": "hands the header to the wire",
}

# Places and hosts of whoever built or packaged it have no business in the project.
BUILT = {"build", "dist", "__pycache__", "node_modules"}
FOREIGN = re.compile(
    r"/(?:work|farm|pyenv)/|pypi\.org|files\.pythonhosted|--(?:extra-)?index-url|--find-link[s]"
    r"|https?://[^\s\"']+\.(?:whl|tar\.gz|tgz|deb)\b"
)


@cache
def sources(*folders: str) -> tuple[Path, ...]:
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """The name behind each call, with its line; of `a.b.c()` it is c."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node.lineno
                case _:
                    pass


def texts() -> Iterator[Path]:
    """Everything that is written by hand here."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not (name.startswith(".") or name in BUILT)]
        for name in names:
            if Path(name).suffix not in {".svg", ".bin", ".lock", ".pyc"} and not name.startswith(".coverage"):
                yield Path(folder, name)


def test_there_is_something_to_look_at() -> None:
    assert len(sources("broker", "ui")) > 20


@pytest.mark.parametrize("path", sources("broker", "ui", "tests"), ids=shown)
def test_a_module_is_named_for_the_thing_and_not_for_its_kind(path: Path) -> None:
    assert not KINDS & {path.stem, *path.relative_to(ROOT).parts[:-1]}


@pytest.mark.parametrize("path", sources("broker", "ui"), ids=shown)
def test_a_file_fits_in_the_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES


@pytest.mark.parametrize("path", sources("broker", "ui"), ids=shown)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    long = [
        f"{node.name}, line {node.lineno}: {(node.end_lineno or 0) - node.lineno + 1} lines"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES
    ]

    assert long == []


@pytest.mark.parametrize("path", sources("broker", "ui"), ids=shown)
def test_a_module_opens_by_saying_what_it_guarantees(path: Path) -> None:
    assert ast.get_docstring(tree(path))


@pytest.mark.parametrize("folder", sorted({path.parent for path in sources("broker", "ui")}), ids=shown)
def test_a_folder_with_modules_is_a_package(folder: Path) -> None:
    assert (folder / "__init__.py").is_file()


@pytest.mark.parametrize("path", sources("broker", "ui"), ids=shown)
def test_a_step_of_the_order_is_made_where_it_belongs(path: Path) -> None:
    strange = [
        f"{name}, line {line}"
        for name, line in calls(path)
        if name in MAKERS and not any(shown(path).startswith(maker) for maker in MAKERS[name])
    ]

    assert strange == []


@pytest.mark.parametrize("path", sources("broker", "ui"), ids=shown)
def test_a_secret_is_opened_in_few_known_places(path: Path) -> None:
    opened = [line for name, line in calls(path) if name == "reveal"]

    assert not opened or any(shown(path).startswith(opener) for opener in OPENERS)


@pytest.mark.parametrize("opener", OPENERS)
def test_no_place_may_open_secrets_that_does_not(opener: str) -> None:
    files = [path for path in sources("broker", "ui") if shown(path).startswith(opener)]

    assert any("reveal" in path.read_text(encoding="utf-8") for path in files)


def test_the_project_names_no_place_or_host_of_its_makers() -> None:
    found = [
        f"{shown(path)}, line {number}"
        for path in texts()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if FOREIGN.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_file_records_versions_and_hashes_alone(lock: str) -> None:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()

    assert any("--hash=sha256:" in line for line in lines)
    assert [] == [line for line in lines if "://" in line or line.startswith("-")]


def test_every_test_file_has_a_name_of_its_own() -> None:
    names = [path.name for path in sources("tests") if path.name.startswith("test_")]

    assert sorted(set(names)) == sorted(names)
