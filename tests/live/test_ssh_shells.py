"""Hard commands, bare and wrapped, under each login shell: the same output, the same status, and nothing added."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.ssh.outcome import Found, MarkerState
from broker.core.ssh.shell_words import quote, split
from tests.live.login_shells import SHELLS, Host, new_id, shell_named

pytestmark = pytest.mark.live

OPERATION = new_id(1)
HARD: dict[str, bytes] = {
    "plain": b"echo hello world",
    "quotes": b"""echo 'single "double" inside' "double 'single' inside" """,
    "newlines": b"echo one\necho two\n\necho three\n\n",
    "heredoc": b"cat <<'END'\n  $HOME `x` \\ ' \"\nEND\necho after",
    "expansions": b'echo $HOME; echo "$HOME" `echo ticks` *.none; echo ~',
    "globs": b"touch a.g b.g; echo *.g ?.g [ab].g",
    "bangs": b"echo a!b 'c!d' \"e!f\" !! !$",
    "percents": b"printf '%s %%\\n' 100%d %s",
    "backslashes": b"echo 'a\\b' a\\\\b \"a\\\\b\" '\\n' '\\\\' \\",
    "exit status": b"exit 7",
    "status 255": b"sh -c 'exit 255'",
    "exec": b"exec sh -c 'echo replaced; exit 9'",
    "trap": b"trap 'echo on the way out' EXIT; echo working; exit 3",
    "killed": b"sh -c 'kill -9 $$'; echo $?",
    "syntax error": b"if if ( ' ",
    "not found": b"no-such-program-anywhere",
    "to stderr": b"echo out; sh -c 'echo err >&2'",
    "reads stdin": b"cat; echo end",
    "binary output": b"printf '\\377\\000\\001'; printf '\\376' | cat",
    "not utf-8": b"echo '\xff\xfe \x81\x82\x83\x88 \xc3'",
    "utf-8": "echo 'Grüße, 漢字'".encode(),
    "every byte": b"echo '" + bytes(b for b in range(1, 256) if b not in b"'\n\r\\!") + b"' | od -c",
    "comment": b"echo a # not ' shown",
    "background": b"sh -c 'sleep 0.05; echo late' & echo early",
    "leading dash": b"-c 'echo x'",
    "empty": b"",
    "blanks": b"  \t ",
    "semicolons": b"true; false; echo a && echo b || echo c | cat",
    "environment": b"env | grep -v -e ^SHLVL= -e ^_= -e ^PWD= -e ^OLDPWD= -e ^HOSTNAME= -e ^LOGNAME= | sort",
    "umask and place": b"umask; pwd; ls -l /proc/self/fd | grep -c pipe",
    "24 kB": b"echo " + b"x" * 24_000 + b" | wc -c",
    "24 kB of hard bytes": b"echo '" + b'"$`%\xe9;' * 3_500 + b"' | od -c | tail -1",
}


def less_pids(output: bytes) -> bytes:
    """Some shells name a process that they start, or of which they say that it was killed."""
    return re.sub(rb"(: +|\[1\] )\d+", rb"\1N", output)


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    made = Host(root=tmp_path, shell=shell_named(request.param, tmp_path))
    yield made
    made.close()


@pytest.mark.parametrize("name", HARD)
def test_a_wrapped_command_does_what_the_bare_one_does(host: Host, name: str) -> None:
    stdin = b"line one\nand \xff two without an end" if name == "reads stdin" else b""
    bare = host.run(HARD[name], stdin=stdin)

    wrapped = host.execute(HARD[name], OPERATION, stdin=stdin)

    assert [less_pids(bare.stdout), less_pids(bare.stderr)] == [less_pids(wrapped.stdout), less_pids(wrapped.stderr)]
    assert (128 - bare.returncode if bare.returncode < 0 else bare.returncode) == wrapped.status
    assert wrapped.preamble.state is MarkerState.STARTED
    found = host.found(OPERATION)
    assert (Found.FINISHED, wrapped.status) == (found.found, found.status)


@pytest.mark.parametrize("detach", [False, True])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_death_by_signal_is_a_status_and_no_word_on_stderr(
    tmp_path: Path, number: signal.Signals, *, detach: bool
) -> None:
    host = Host(root=tmp_path, shell=shell_named("bash", tmp_path))

    ran = host.execute(f"kill -{number.value} $$".encode(), OPERATION, detach=detach)

    assert (128 + number, b"") == (ran.status, ran.stderr)
    assert host.found(OPERATION).status == 128 + number


@pytest.mark.parametrize("name", ["bash", "busybox", "zsh"])
def test_the_script_is_at_home_in_other_shells_than_ours_as_sh(tmp_path: Path, name: str) -> None:
    """What stands as /bin/sh differs between systems."""
    folder = tmp_path / "as-sh"
    folder.mkdir()
    sh = shell_named(name, folder).rename(folder / "sh")
    host = Host(root=tmp_path, shell=shell_named("dash", tmp_path), sh=sh)
    for number, command in enumerate(HARD.values()):
        bare = host.run(command)
        ran = host.execute(command, new_id(number))
        status = 128 - bare.returncode if bare.returncode < 0 else bare.returncode
        assert (bare.stdout, less_pids(bare.stderr), status) == (ran.stdout, less_pids(ran.stderr), ran.status)
        assert host.found(new_id(number)).status == ran.status
    assert host.execute(b"echo again", new_id(0)).preamble.state is MarkerState.DUPLICATE
    assert host.found(new_id(9999)).found is Found.NEVER_STARTED
    assert host.execute(b"echo no", new_id(9999)).status == 98
    assert host.execute(b"echo out; echo err >&2; exit 5", new_id(10_000), detach=True).status == 5


WORDS = [
    ("printf", "[%s]\\n", "plain", "with space", "", "tab\there"),
    ("printf", "[%s]\\n", "it's", '"quoted"', "back\\slash", "end\\", "\\'", "'\\''"),
    ("printf", "[%s]\\n", "a!b", "!!", "!", "!$", "^a^b"),
    ("printf", "[%s]\\n", "$HOME", "`id`", "$(id)", "*", "?", "[a-z]", "{a,b}", "~", "~root", "#no", "a#b"),
    ("printf", "[%s]\\n", "a;b", "a&b", "a|b", "a>b", "<c", "(d)", "=ls", "a=b", "--c=d", "%1", "-n", "--", "-"),
    ("printf", "[%s]\\n", "Grüße", "漢字", "a\u00a0b", "@", "+", ",", ".", "/", ":", "_"),
]


@pytest.mark.parametrize("argv", WORDS)
def test_quoted_words_are_the_same_words_under_every_shell(host: Host, argv: tuple[str, ...]) -> None:
    ran = host.execute(quote(argv), OPERATION)

    assert "".join(f"[{word}]\n" for word in argv[2:]).encode() == ran.stdout
    assert b"" == ran.stderr


def test_what_split_calls_words_is_split_alike_by_every_shell(host: Host) -> None:
    line = b"""printf '[%s]' a 'b c' "d e" f"g"'h' --i=j k=l ./m:n @o,p+q \xc3\xbc -- - r^s 'x;y|z' "(t)" '' '*' """
    words = split(line)

    assert words is not None
    assert "".join(f"[{word}]" for word in words[2:]).encode() == host.execute(line, OPERATION).stdout


def test_output_of_a_detached_command_comes_back_and_is_kept(host: Host) -> None:
    ran = host.execute(b"echo out; sh -c 'echo err >&2'; exit 6", OPERATION, detach=True)

    assert (6, b"out\n", b"err\n") == (ran.status, ran.stdout, ran.stderr)
    assert ran.preamble.state is MarkerState.STARTED
    assert host.found(OPERATION).status == 6


def test_no_process_is_left_behind(tmp_path: Path) -> None:
    host = Host(root=tmp_path, shell=shell_named("dash", tmp_path))
    process = host.start(host.wrapped(b"true", OPERATION))
    process.communicate(timeout=20)

    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.parametrize(
    ("name", "start_file", "definition"),
    [
        ("bash", ".bashrc", "greet() { echo hello; }"),
        ("zsh", ".zshenv", "greet() { echo hello; }"),
        ("tcsh", ".tcshrc", "alias greet echo hello"),
        ("fish", ".config/fish/config.fish", "function greet; echo hello; end"),
    ],
)
def test_what_start_files_define_is_there_for_the_command(
    tmp_path: Path, name: str, start_file: str, definition: str
) -> None:
    host = Host(root=tmp_path, shell=shell_named(name, tmp_path), more={"SSH_CLIENT": "192.0.2.1 1 22"})
    place = host.home / start_file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(definition + "\n")

    assert b"hello\n" == host.run(b"greet").stdout
    assert b"hello\n" == host.execute(b"greet", OPERATION).stdout
