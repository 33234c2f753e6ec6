"""The faults planted in a daemon: each point is one that the daemon has, and goes off once, where the order says."""

import errno
import json
import pkgutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import broker
from broker.matrix import faulty_daemon, points
from broker.matrix.cases import Fault
from broker.matrix.daemon_faults import order
from broker.matrix.faulty_daemon import EVENTS, JOURNAL, METHODS, SYNC, WRITE, Fuse

EVENT = SimpleNamespace(name=SimpleNamespace(value="dispatch.started"))


@pytest.fixture
def fuse(tmp_path: Path) -> Fuse:
    return Fuse(tmp_path / "order")


@pytest.fixture
def unplanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `plant` replaces is put back."""
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))
    for place in (*METHODS.values(), *JOURNAL, WRITE, SYNC):
        owner_place, _, name = place.rpartition(".")
        owner = pkgutil.resolve_name(owner_place)
        monkeypatch.setattr(owner, name, getattr(owner, name))


def tell(tmp_path: Path, **told: object) -> None:
    (tmp_path / "order").write_text(json.dumps({"side": "before", "seconds": 0, **told}))


def test_every_step_is_a_method_or_an_event_and_every_method_is_there() -> None:
    assert set(points.STEPS) == {*METHODS, *EVENTS}
    assert set(EVENTS.values()) <= set(points.WRITES)
    assert all(callable(pkgutil.resolve_name(place)) for place in (*METHODS.values(), *JOURNAL, WRITE, SYNC))


def test_a_fault_goes_off_at_its_point_and_side_alone_and_once(fuse: Fuse, tmp_path: Path) -> None:
    tell(tmp_path, point="dispatch.started", kind="disk_full")
    for side, point in (("after", "dispatch.started"), ("before", "action.result")):
        fuse.reached(side, point)
        assert not fuse.disk
    fuse.reached("before", "dispatch.started")

    assert "disk_full" == fuse.disk
    assert not (tmp_path / "order").exists()


def test_without_an_order_or_with_half_of_one_nothing_happens(fuse: Fuse, tmp_path: Path) -> None:
    fuse.reached("before", "dispatch.started")
    (tmp_path / "order").write_text('{"point": "dispatch.st')
    fuse.reached("before", "dispatch.started")

    assert not fuse.disk


@pytest.mark.usefixtures("unplanted")
def test_the_clock_jumps_for_all_that_look_at_it_from_then_on(fuse: Fuse, tmp_path: Path) -> None:
    faulty_daemon.plant(fuse)
    before = time.time()
    tell(tmp_path, point="action.result", kind="jump", seconds=-86_400)
    fuse.reached("before", "action.result")

    assert -86_000 > time.time() - before
    assert -86_000 > time.time_ns() / 1e9 - before


class Log:
    """What a journal is bound to."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def post(self, event: Any) -> None:
        self.events.append(event)


@pytest.mark.usefixtures("unplanted")
def test_an_event_is_a_point_before_and_after_it_is_written(fuse: Fuse, tmp_path: Path) -> None:
    from broker.daemon.journal import Journal  # noqa: PLC0415 - looked at as it is once the fault is planted

    faulty_daemon.plant(fuse)
    log = Log()
    tell(tmp_path, point="8_intent", side="after", kind="fsync_error")
    Journal(log, lambda: None).post(EVENT)  # type: ignore[arg-type]  # the part of a writer that it needs

    assert [EVENT] == log.events
    assert "fsync_error" == fuse.disk


@pytest.mark.usefixtures("unplanted")
def test_a_full_disk_takes_half_and_one_that_fails_does_not_sync(fuse: Fuse, tmp_path: Path) -> None:
    from broker.audit.disk import LocalDisk  # noqa: PLC0415 - likewise

    faulty_daemon.plant(fuse)
    with (tmp_path / "log").open("wb") as file:
        assert 8 == LocalDisk().write(file.fileno(), b"12345678")
        LocalDisk().sync(file.fileno())
        fuse.disk = "disk_full"
        assert 4 == LocalDisk().write(file.fileno(), b"12345678")
        fuse.disk = "fsync_error"
        assert 8 == LocalDisk().write(file.fileno(), b"12345678")
        with pytest.raises(OSError, match="error") as raised:
            LocalDisk().sync(file.fileno())

    assert errno.EIO == raised.value.errno


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            Fault(point="at_step", kind="kill", step="4_ledger", side="after"),
            {"point": "4_ledger", "side": "after", "kind": "kill", "seconds": 0},
        ),
        (
            Fault(point="at_audit_write", kind="kill", step="action.result"),
            {"point": "action.result", "side": "before", "kind": "kill_in_write", "seconds": 0},
        ),
        (
            Fault(point="at_audit_write", kind="disk_full"),
            {"point": "dispatch.started", "side": "before", "kind": "disk_full", "seconds": 0},
        ),
        (
            Fault(point="clock", kind="jump", seconds=5, side="after", step="approval.requested"),
            {"point": "approval.requested", "side": "after", "kind": "jump", "seconds": 5},
        ),
    ],
    ids=lambda value: value.point if isinstance(value, Fault) else "",
)
def test_a_fault_of_a_case_is_an_order(fault: Fault, told: dict[str, object]) -> None:
    assert told == order(fault)


def test_a_kill_is_that_of_a_process_which_can_do_nothing_more(tmp_path: Path) -> None:
    tell(tmp_path, point="9_send", kind="kill")
    program = (
        "import sys; from pathlib import Path; from broker.matrix.faulty_daemon import Fuse\n"
        "try:\n    Fuse(Path(sys.argv[1])).reached('before', '9_send')\nfinally:\n    print('still here')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "order")], capture_output=True, timeout=60, check=False
    )

    assert (-9, b"") == (done.returncode, done.stdout)


def test_no_program_but_the_matrix_knows_of_it() -> None:
    root = Path(broker.__file__).parent
    found = [path.relative_to(root) for path in root.rglob("*.py") if "faulty_daemon" in path.read_text("utf-8")]

    assert {"matrix"} == {path.parts[0] for path in found}
