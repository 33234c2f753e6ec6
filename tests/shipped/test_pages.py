"""The completions and the manual page are those of the command as it is, and the programs that read them take them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.house import ROOT

PLACES = ("completions/doorward.bash", "completions/_doorward", "completions/doorward.fish", "man/doorward.1")
COMPLETE_IN_BASH = """
source {page}
COMP_WORDS=(doorward {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
function=$(complete -p doorward | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function doorward "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("pages")
    subprocess.run([sys.executable, ROOT / "packaging/make_pages.py", where], check=True, cwd=ROOT, timeout=120)
    return where


def said_by(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.fail(f"{command[0]} is missing; packaging/setup-test-deps.sh installs it")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize("place", PLACES)
def test_a_page_is_what_the_parsers_make_of_it(anew: Path, place: str) -> None:
    """After a change of the command line: make pages."""
    assert (anew / place).read_text("utf-8") == (ROOT / "packaging" / place).read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("appr", {"approvals", "approvers"}), ("sessions re", {"revoke"}), ("sessions revoke --k", {"--kill"})],
)
def test_bash_completes_verbs_and_options(words: str, wanted: set[str]) -> None:
    page = ROOT / "packaging/completions/doorward.bash"

    assert wanted == set(said_by("bash", "-c", COMPLETE_IN_BASH.format(page=page, words=words)).split())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("appr", {"approvals", "approvers"}), ("sessions re", {"revoke"}), ("sessions revoke --k", {"--kill"})],
)
def test_fish_completes_verbs_and_options(words: str, wanted: set[str]) -> None:
    page = ROOT / "packaging/completions/doorward.fish"
    told = said_by("fish", "--no-config", "-c", f"source {page}; complete -C 'doorward {words}'")

    assert wanted == {line.split("\t")[0] for line in told.splitlines()}


def test_zsh_knows_and_reads_its_page() -> None:
    place = ROOT / "packaging/completions"
    look = f"fpath=({place} $fpath); autoload -Uz compinit; compinit -D -u; print $_comps[doorward]"
    said_by("zsh", "-n", str(place / "_doorward"))

    assert "_doorward\n" == said_by("zsh", "-f", "-c", look)


def test_the_manual_page_is_read_without_a_warning() -> None:
    said_by("mandoc", "-Tlint", "-W", "warning", str(ROOT / "packaging/man/doorward.1"))
    page = said_by("mandoc", "-Tascii", str(ROOT / "packaging/man/doorward.1"))

    assert "approvals" in page
    assert "reconcile_required" in page
