from broker.cli import doctor_machine
from broker.cli.doctor_finding import Level


def test_where_a_kill_reaches_no_orphans_is_said_with_the_remedy() -> None:
    there, not_there = (doctor_machine._cgroups(delegated=delegated) for delegated in (True, False))

    assert (Level.OK, Level.WARNING) == (there.level, not_there.level)
    assert "--kill" in not_there.message
    assert "systemd-run --user --scope" in not_there.mend


def test_the_kernels_part_is_told_once() -> None:
    checks = [finding.check for finding in doctor_machine.machine({}, hardened=True)]

    assert [1, 1] == [checks.count(name) for name in ("kernel", "cgroups")]
