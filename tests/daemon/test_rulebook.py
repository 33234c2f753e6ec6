"""The policy in force: the signed files and the machine's own, the last good ones, and the state of the edited ones."""

import os
from pathlib import Path

import pytest
from typing_extensions import override

from broker.client.places import Places
from broker.core.policy.hours import Moment
from broker.daemon.rulebook import NOTHING, PolicyState, Rulebook
from broker.policyfiles.files import PolicyError, PolicyFile, policy_digest
from broker.vault import TrustedPolicy

USER = 4711  # as whom the daemon would run; whoever runs the tests is root to it
SHOP = '[services.shop]\nkind = "http"\nbase_url = "https://shop.example"\nad_hoc = ["GET"]\n'
OPEN = '[[rules]]\nid = "open"\nservices = ["shop"]\napproval = "none"\n'
SHUT = '[[rules]]\nid = "shut"\nservices = ["shop"]\napproval = "deny"\n'
BROKEN = "nosuch = 1\n"


class Machine(Places):
    """Places with a directory of the machine's own, and who is root to it."""

    __slots__ = ("system",)

    def __init__(self, root: Path) -> None:
        super().__init__({"DOORWARD_HOME": str(root / "home")})
        self.system = root / "etc"

    @property
    @override
    def system_policies(self) -> Path:
        return self.system

    def write(self, name: str, text: str, *, system: bool = False) -> Path:
        where = self.system if system else self.policies
        where.mkdir(parents=True, exist_ok=True, mode=0o755)
        path = where / name
        path.write_text(f"version = 1\n{text}")
        path.chmod(0o644)
        return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


ME = os.getuid()


def rulebook(machine: Machine, *, uid: int = USER) -> Rulebook:
    return Rulebook(machine, moment=lambda: Moment(weekday=0, minute=0), uid=uid, root_uid=ME)


def trusted(book: Rulebook, counter: int = 1) -> TrustedPolicy:
    files = book.look().files
    return TrustedPolicy(
        files=tuple((file.name, file.raw) for file in files),
        digest=policy_digest(files),
        counter=counter,
        signature=b"",
        approver="",
    )


def ids(book: Rulebook) -> list[str]:
    return sorted(rule.id for rule in book.in_force.rules)


def test_nothing_to_trust_is_told_from_what_waits_for_trust(machine: Machine) -> None:
    book = rulebook(machine)
    book.use(None)
    assert (PolicyState.NONE, None, NOTHING) == (book.state(book.look()), book.digest, book.in_force)

    machine.write("a.toml", SHOP + OPEN)
    assert PolicyState.CHANGED == book.state(book.look())
    assert [] == ids(book), "seen is not in force"

    book.use(trusted(book))
    assert (PolicyState.TRUSTED, ["open"]) == (book.state(book.look()), ids(book))
    assert book.digest == book.signed_digest


def test_an_edit_that_does_not_load_is_refused_and_the_last_good_one_stays(machine: Machine) -> None:
    book = rulebook(machine)
    path = machine.write("a.toml", SHOP + OPEN)
    book.use(trusted(book))

    machine.write("a.toml", BROKEN)
    look = book.look()
    assert (PolicyState.REFUSED, ["open"]) == (book.state(look), ids(book))
    assert look.error is not None
    assert "a.toml:2: nosuch: unknown key" in str(look.error)
    path.unlink()
    assert PolicyState.CHANGED == book.state(book.look()), "no files is another policy than the trusted one"
    machine.write("a.toml", SHOP + OPEN)
    assert PolicyState.TRUSTED == book.state(book.look())


def test_a_rule_without_asking_that_rests_on_a_command_line_is_refused_as_well(machine: Machine) -> None:
    book = rulebook(machine)
    agent = '[agents]\nscript = { exe = "/usr/bin/node", argv = "*/script" }\n'
    machine.write("a.toml", SHOP + agent + OPEN + 'agents = ["script"]\n')

    assert PolicyState.REFUSED == book.state(book.look())


def test_the_machines_own_files_need_no_signature_and_no_signed_one_loosens_them(machine: Machine) -> None:
    book = rulebook(machine)
    machine.write("base.toml", SHUT + SHOP, system=True)
    book.use(None)
    assert (["shut"], PolicyState.TRUSTED) == (ids(book), book.state(book.look()))
    assert [str(machine.system / "base.toml")] == [file.name for file in book.system]

    machine.write("a.toml", OPEN)
    assert PolicyState.CHANGED == book.state(book.look())
    book.use(trusted(book))
    assert ["open", "shut"] == ids(book)
    assert book.digest != book.signed_digest
    assert f"{machine.system}/base.toml:2" == str(book.in_force.rules[0].place)


def test_a_change_of_the_machines_own_files_takes_force_when_it_loads(machine: Machine) -> None:
    book = rulebook(machine)
    machine.write("base.toml", SHOP + OPEN, system=True)
    book.use(None)
    before = book.digest

    assert not book.reload(book.look()), "nothing changed"
    machine.write("more.toml", SHUT, system=True)
    assert book.reload(book.look())
    assert (["open", "shut"], True) == (ids(book), before != book.digest)

    machine.write("more.toml", BROKEN, system=True)
    assert not book.reload(book.look())
    assert (["open", "shut"], PolicyState.REFUSED) == (ids(book), book.state(book.look()))
    book.forget()
    book.use(None)
    assert ["open", "shut"] == ids(book), "the last good ones outlive a lock"


def test_without_a_last_good_one_nothing_is_allowed(machine: Machine) -> None:
    machine.write("a.toml", SHOP + OPEN)
    book = rulebook(machine)
    signed = trusted(book)
    machine.write("base.toml", BROKEN, system=True)

    fresh = rulebook(machine)
    with pytest.raises(PolicyError, match="unknown key"):
        fresh.use(signed)
    assert NOTHING == fresh.in_force
    (machine.system / "base.toml").chmod(0o666)
    with pytest.raises(PolicyError, match="group or others may write it"):
        rulebook(machine).use(signed)


def test_who_could_write_the_machines_files_signs_them_like_others(machine: Machine) -> None:
    book = rulebook(machine, uid=ME)
    machine.write("base.toml", SHOP + SHUT, system=True)
    machine.write("a.toml", OPEN)
    book.use(None)
    assert ([], PolicyState.CHANGED) == (ids(book), book.state(book.look()))

    book.use(trusted(book))
    assert (["open", "shut"], ()) == (ids(book), book.system)
    (machine.system / "base.toml").unlink()
    assert (["open", "shut"], PolicyState.REFUSED) == (ids(book), book.state(book.look()))


@pytest.mark.parametrize("spoil", ["link", "mode", "above"])
def test_a_directory_of_the_machine_that_others_could_change_is_refused(machine: Machine, spoil: str) -> None:
    book = rulebook(machine)
    machine.write("base.toml", SHOP + SHUT, system=True)
    book.use(None)
    if spoil == "link":
        machine.system.rename(machine.system.with_name("elsewhere"))
        machine.system.symlink_to(machine.system.with_name("elsewhere"))
    else:
        (machine.system if spoil == "mode" else machine.system.parent).chmod(0o777)

    try:
        assert (PolicyState.REFUSED, ["shut"]) == (book.state(book.look()), ids(book))
        assert () != book.pending(None).faults
    finally:
        machine.system.parent.chmod(0o755)


def test_a_file_of_the_same_size_that_was_written_at_once_is_not_missed(machine: Machine) -> None:
    book = rulebook(machine)
    for name in ("one", "two", "six", "ten") * 5:
        machine.write("a.toml", SHOP + OPEN.replace("open", f"id-{name}"))
        (file,) = book.look().files
        assert f"id-{name}".encode() in file.raw


def test_what_is_pending_tells_lines_files_and_what_stays(machine: Machine) -> None:
    book = rulebook(machine)
    machine.write("a.toml", SHOP + OPEN)
    book.use(trusted(book))
    machine.write("a.toml", SHOP + OPEN.replace('"none"', '"session"') + "max_uses = 5\n# about the next\n\n" + SHUT)

    pending = book.pending(None)

    (change,) = pending.changes
    assert isinstance(change, dict)
    assert ("tightens", "any READ shop GET", "no asking", "denied", "shut") == tuple(
        change[name] for name in ("direction", "subject", "was", "becomes", "rule")
    )
    assert ("a.toml:13", "a.toml:6") == (change["place"], change["was_place"])
    assert [("-", 'id = "open"'), ("+", 'id = "shut"'), ("-", 'approval = "none"'), ("+", 'approval = "deny"')] == [
        (row["sign"], row["text"]) for row in change["lines"] if row["sign"] != " "
    ]
    assert (pending.digest, ()) == (policy_digest(book.look().files), pending.faults)


def test_files_without_a_policy_have_no_blocks(machine: Machine) -> None:
    book = rulebook(machine)
    machine.write("a.toml", SHOP + OPEN)
    pending = book.pending(None)

    assert all(isinstance(change, dict) and change["lines"] for change in pending.changes)
    assert PolicyFile(name="a", raw=b"") == PolicyFile(name="a", raw=b"", modified_at_ms=5, uid=3)


def test_what_decides_is_the_policy_at_the_minute_of_the_clock(machine: Machine) -> None:
    minutes = [0]
    book = Rulebook(machine, moment=lambda: Moment(weekday=0, minute=minutes[0]), uid=USER, root_uid=ME)
    machine.write("a.toml", SHOP + OPEN + 'hours = ["09:00-17:00"]\n' + SHUT)
    book.use(trusted(book))

    def speaking() -> list[str]:
        return sorted(rule.id for rule in book.current().rules)

    assert ["shut"] == speaking()
    minutes[0] = 9 * 60
    assert ["open", "shut"] == speaking()
    assert book.current() is book.current()
    minutes[0] = 17 * 60
    assert (["shut"], ["open", "shut"]) == (speaking(), ids(book))
    book.forget()
    assert [] == speaking()
