import pytest

from broker.contract.cgroup_names import is_of_launcher, mount_in, name_of, path_in

HYBRID = """
24 30 0:22 / /sys rw - sysfs sysfs rw
31 24 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu
36 24 0:31 / /sys/fs/cgroup/uni\\040fied rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
"""


def test_a_launchers_cgroup_is_known_by_its_pid() -> None:
    path = f"/user.slice/app.slice/{name_of(4711, 'ab12')}"

    assert is_of_launcher(path, 4711)
    assert not is_of_launcher(path, 471)
    assert not is_of_launcher(f"{path}/below", 4711)
    assert not is_of_launcher(f"/../elsewhere/{name_of(4711, 'ab12')}", 4711), "not in what we see"


@pytest.mark.parametrize(
    ("text", "path"),
    [("4:memory:/x\n0::/user.slice\n", "/user.slice"), ("4:memory:/x\n", None), ("", None), ("0::relative\n", None)],
)
def test_the_cgroup_of_version_2_is_the_one_that_counts(text: str, path: str | None) -> None:
    assert path == path_in(text)


def test_where_version_2_is_mounted_is_found_beside_version_1() -> None:
    assert ("/sys/fs/cgroup/uni fied", "/") == mount_in(HYBRID)
    assert mount_in(HYBRID.split("36 ", maxsplit=1)[0]) is None
    assert mount_in("1 2 - cgroup2 x") is None
