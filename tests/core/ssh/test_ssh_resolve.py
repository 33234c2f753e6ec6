"""What an agent asks of a host becomes one frozen action, or is refused by name."""

from dataclasses import replace

import pytest

from broker.contract.reasons import Effect
from broker.contract.wire import JsonObject
from broker.core.asks import resolved
from broker.core.policy.evaluate import evaluate
from broker.core.policy.explain import explain
from broker.core.policy.model import Allow, Ask, Deny
from broker.core.resolve import HttpAsk, Invalid
from broker.core.ssh.frozen import MAX_COMMAND_BYTES, Exec, Get, LookUp, Put
from broker.core.ssh.model import MarkerMode
from broker.core.ssh.resolve import LookUpAsk, SshAsk
from tests.fakes import market
from tests.fakes.hosts import POLICY, STORE, command, frozen, get, operation, put, run_of, ssh_policy, words


def invalid(ask: SshAsk | HttpAsk | LookUpAsk) -> tuple[str, str]:
    found = resolved(POLICY, ask)
    assert isinstance(found, Invalid), found
    return found.code, found.message


def test_an_operation_is_frozen_with_its_words_quoted() -> None:
    found = frozen(operation("web.restart", unit="my unit"))

    assert ("web.restart", Effect.EXEC, ("my unit",), "my unit anew", 4096, {"unit": "my unit"}) == (
        found.operation, found.effect, found.targets, found.identifies, found.output_bytes, found.args,
    )  # fmt: skip
    assert isinstance(found.action, Exec)
    assert (b"systemctl restart 'my unit'", ("systemctl", "restart", "my unit"), MarkerMode.REQUIRED) == (
        found.action.command, found.action.argv, found.action.marker,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "name", "args"),
    [
        (command("systemctl restart php"), "web.restart", {"unit": "php"}),
        (command("systemctl  restart\tphp "), "web.restart", {"unit": "php"}),
        (words("systemctl", "restart", "a b"), "web.restart", {"unit": "a b"}),
        (command("systemctl restart nginx"), "web.nginx", {}),
        (command("systemctl restart php; true"), "web.exec", {}),
        (command("systemctl restart --now"), "web.exec", {}),
        (command("systemctl restart php web"), "web.exec", {}),
        (command("rm -rf /srv/blog"), "web.wipe", {"site": "blog"}),
        (command("rm -rf /srv/blog", host="web/web-2"), "web.exec", {}),
        (command("uptime"), "web.exec", {}),
    ],
)
def test_a_command_that_fits_an_operation_is_that_operation(ask: SshAsk, name: str, args: JsonObject) -> None:
    found = frozen(ask)

    assert (name, args) == (found.operation, found.args)


def test_a_command_keeps_the_bytes_that_were_asked() -> None:
    assert b"systemctl  restart\tphp " == run_of(command("systemctl  restart\tphp ")).command
    assert None is run_of(command("uptime")).argv
    assert ("echo", "a b") == run_of(words("echo", "a b")).argv


def test_the_digest_covers_what_is_done_and_where() -> None:
    plain = frozen(command("uptime"))
    others = [
        frozen(command("uptime ")),
        frozen(command("uptime", host="web/web-2")),
        frozen(command("uptime", stdin=b"x")),
        frozen(replace(command("uptime"), pty=True)),
        frozen(put("/a")),
        frozen(put("/a", mode=0o600)),
        frozen(put("/a", b"y")),
        frozen(get("/a")),
        frozen(get("/b")),
    ]

    assert 1 + len(others) == len({one.digest for one in (plain, *others)})


def test_what_only_reads_leaves_no_marker_unless_it_says_so() -> None:
    assert MarkerMode.OFF is run_of(operation("status", unit="x")).marker
    assert MarkerMode.REQUIRED is run_of(operation("wipe", site="x")).marker
    assert MarkerMode.PREFERRED is run_of(command("uptime", host="web/web-2")).marker
    assert run_of(operation("wipe", site="x")).detach


def test_targets_and_names_of_what_is_changed() -> None:
    wipe, wait, long = (
        frozen(operation("wipe", site="blog")),
        frozen(operation("wait", package="nginx")),
        frozen(command("echo  " + "x" * 300)),
    )

    assert (("blog",), True, "blog") == (wipe.targets, wipe.destructive, wipe.identifies)
    assert ((), "nginx") == (wait.targets, wait.identifies)
    assert (201, "echo x") == (len(long.identifies), long.identifies[:6])
    assert "systemctl restart nginx" == frozen(operation("nginx")).identifies


def test_files_are_frozen_by_path() -> None:
    one, other = frozen(put("/etc/nginx/a.conf", b"abc", mode=0o644)), frozen(get("notes/a"))

    assert (Put(path="/etc/nginx/a.conf", content=b"abc", mode=0o644), Effect.WRITE, "web.put") == (
        one.action, one.effect, one.operation,
    )  # fmt: skip
    assert (Get(path="notes/a"), Effect.READ, False, "web.get") == (
        other.action, other.effect, other.is_write, other.operation,
    )  # fmt: skip
    assert frozen(replace(get("a"), takes_large=True)).output_bytes > other.output_bytes


@pytest.mark.parametrize(
    ("ask", "code", "told"),
    [
        (command("uptime", host="nosuch"), "unknown_service", "no host of that name"),
        (command("uptime", host="web/nosuch"), "unknown_service", "no host of that name"),
        (command("uptime", host="web-1"), "unknown_service", "More than one service"),
        (SshAsk(host="bastion"), "schema", "Give one of"),
        (replace(command("a"), argv=("b",)), "schema", "Give one of"),
        (replace(command("a"), args={"x": 1}), "schema", "args belong to an operation"),
        (command(" "), "schema", "empty"),
        (command("a\0b"), "schema", "NUL"),
        (words("a", "b\0"), "schema", "The words are not acceptable"),
        (command("a" * (MAX_COMMAND_BYTES + 1)), "body_too_large", "24576 bytes"),
        (command("a", stdin=b"x" * 300_000), "body_too_large", "input"),
        (put("/a", b"x" * (16 * 1024 * 1024 + 1)), "body_too_large", "file"),
        (put("/a", mode=0o10000), "schema", "mode"),
        (put("/a/../b"), "schema", "dot segment"),
        (put("/a//b"), "schema", "double slash"),
        (put("/a/"), "schema", "directory"),
        (put("~/a"), "schema", "home"),
        (put(".doorward/ops/op_1"), "schema", "markers"),
        (put("/home/deploy/.Doorward/store"), "schema", "markers"),
        (get("/var/tmp/.doorward-1000/ops/op_1"), "schema", "markers"),  # noqa: S108 - a place on a host
        (put("a\nb"), "schema", "control character"),
        (put(""), "schema", "1 to 4096"),
        (get("\ud800"), "schema", "surrogate"),
        (operation("nosuch"), "unknown_operation", "no operation of that name"),
        (operation("wipe", host="web/web-2", site="a"), "unknown_operation", "for this host"),
        (operation("restart"), "schema", "missing: unit"),
        (operation("restart", unit="a", more=1), "schema", "takes unit"),
        (operation("nginx", more=1), "schema", "takes none"),
        (operation("restart", unit="-f"), "schema", "dash"),
        (operation("restart", unit=""), "schema", "empty"),
        (operation("restart", unit="a\nb"), "schema", "control"),
        (operation("restart", unit="\ud800"), "schema", "surrogate"),
        (operation("restart", unit=True), "schema", "text or an integer"),
        (operation("restart", unit="nginx"), "schema", "another operation"),
        (HttpAsk(service="web", method="GET", path="/"), "unknown_service", "reached by SSH"),
    ],
)
def test_what_can_not_be_frozen_is_told_by_name(ask: SshAsk | HttpAsk, code: str, told: str) -> None:
    found, message = invalid(ask)

    assert code == found
    assert told in message


def test_a_command_that_fits_two_operations_alike_is_asked_for_by_name() -> None:
    policy = ssh_policy(
        'version = 1\n[services.s]\nkind = "ssh"\nhosts = { "a" = { user = "u", host_keys = "accept-new" } }\n'
        '[services.s.operations.one]\ncommand = ["run", "{x}", "now"]\neffect = "exec"\n'
        '[services.s.operations.two]\ncommand = ["run", "all", "{y}"]\neffect = "exec"\n'
        '[services.s.operations.twice]\ncommand = ["cp", "{x}", "{x}.bak"]\neffect = "exec"\n'
    )
    found = resolved(policy, SshAsk(host="a", command=b"run all now"))
    twice, apart = (resolved(policy, SshAsk(host="a", command=one)) for one in (b"cp a a.bak", b"cp a b.bak"))

    assert isinstance(found, Invalid)
    assert "one, two" in found.message
    assert ("s.twice", "s.exec") == tuple(not isinstance(one, Invalid) and one.operation for one in (twice, apart))


def test_one_command_is_of_one_object_by_whoever_tells_it() -> None:
    """T36, T37: arguments that share out the same words in another way would be another object's."""
    policy = ssh_policy(
        'version = 1\n[services.s]\nkind = "ssh"\nhosts = { "a" = { user = "u", host_keys = "accept-new" } }\n'
        '[services.s.operations.drop]\ncommand = ["drop", "{space}/{item}"]\neffect = "write"\ntargets = ["space"]\n'
    )
    one, other = (
        resolved(policy, SshAsk(host="a", operation="drop", args={"space": space, "item": item}))
        for space, item in (("x", "y/z"), ("x/y", "z"))
    )
    read = resolved(policy, SshAsk(host="a", command=b"drop x/y/z"))

    assert isinstance(other, Invalid)
    assert "other arguments" in other.message
    assert not isinstance(one, Invalid)
    assert not isinstance(read, Invalid)
    assert (one.args, one.targets) == (read.args, read.targets)
    assert ("x",) == one.targets


def test_a_look_up_goes_to_a_host_of_the_policy() -> None:
    action = LookUp(operation_id="op_1", since=STORE)
    ask = LookUpAsk(service="web", host="web-1", operation="restart", effect=Effect.EXEC, action=action)
    found = resolved(POLICY, ask)
    run = resolved(POLICY, replace(ask, action=Exec(command=b"true")))

    assert not isinstance(found, Invalid)
    assert not isinstance(run, Invalid)
    assert (True, False, Effect.EXEC, "web.restart") == (found.is_open, found.is_write, found.effect, found.operation)
    assert (True, None) == (found.declared is not None, run.declared)
    for other in (replace(ask, service="nosuch"), replace(ask, host="nosuch"), replace(ask, service="lab", host="x")):
        assert ("unknown_service", "The policy has no such host any more.") == invalid(other)


CALLER = market.agent()


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (operation("status", unit="x"), Allow(rules=("look",))),
        (command("tail -n 5 a b c"), "session"),
        (command("tail -n 5"), "session"),
        (command("tail -n"), Deny),
        (command("uptime"), "session"),
        (command("uptime", host="web/bastion"), Deny),
        (command("uptime", host="web/web-2"), Deny),
        (command("uptime -p"), Deny),
        (command("touch /forbidden"), Deny),
        (words("touch", "/forbidden"), Deny),
        (command("touch '/forbidden'"), Deny),
        (command("touch /elsewhere"), "session"),
        (command("uptime; id"), Deny),
        (command("echo a; echo b"), Allow(rules=("texts",))),
        (command("echo a;  echo b"), Deny),
        (put("/etc/nginx/conf.d/a"), "per_call"),
        (put("/etc/passwd"), Deny),
        (put("notes/a"), "per_call"),
        (put("notes/a/b"), Deny),
        (get("/etc/passwd"), Allow(rules=("look",))),
        (operation("status", host="lab/web-1"), None),
    ],
)
def test_rules_see_host_user_command_and_path(ask: SshAsk, expected: object) -> None:
    found = resolved(POLICY, ask)
    if isinstance(found, Invalid):
        assert expected is None
        return
    decision = evaluate(POLICY, CALLER, found)

    if isinstance(decision, Ask):
        assert expected == decision.rule.approval.value
    elif isinstance(decision, Deny):
        assert expected is Deny
    else:
        assert expected == decision


def test_ad_hoc_is_what_the_service_lists() -> None:
    assert [True, False] == [frozen(command("uptime", host=host)).is_open for host in ("web/web-1", "lab/web-1")]


def test_a_look_up_is_stopped_by_a_denial_alone() -> None:
    action = LookUp(operation_id="op_1")
    ask = LookUpAsk(service="web", host="web-1", operation="exec", effect=Effect.EXEC, action=action)
    found = resolved(POLICY, ask)
    assert not isinstance(found, Invalid)
    denying = ssh_policy(
        'version = 1\n[[rules]]\nid = "no"\napproval = "deny"\nusers = ["deploy"]\n'
        '[services.web]\nkind = "ssh"\nhosts = { "web-1" = { user = "deploy", host_keys = "accept-new" } }\n'
    )

    assert Allow(rules=()) == evaluate(POLICY, CALLER, found)
    assert isinstance(evaluate(denying, CALLER, found), Deny)


def test_a_trace_shows_the_command_and_the_user() -> None:
    told, file = (explain(POLICY, CALLER, frozen(ask)) for ask in (command("uptime -p"), get("/etc/a")))

    assert ("deny", "web-1", "deploy", "uptime -p", None) == (
        told["decision"], told["host"], told["user"], told["command"], told["path"],
    )  # fmt: skip
    assert (None, "/etc/a") == (file["command"], file["path"])
