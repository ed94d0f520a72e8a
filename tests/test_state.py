"""The state of the machine is read from the kernel's own files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusion import state

STAT = """cpu  300 0 200 1000 0 0 0 30 0 0
cpu0 100 10 50 500 5 3 2 20 7 0
cpu1 200 0 150 500 0 0 0 10 0 0
cpu2 999 0 999 500 0 0 0 10 0 0
intr 1 2 3
"""


@pytest.fixture
def machine(tmp_path):
    """A machine of three CPUs and two nodes, as the kernel describes it."""
    files = {
        "proc/loadavg": "1.25 0.50 0.25 2/78 15793\n",
        "proc/stat": STAT,
        "proc/sys/kernel/numa_balancing": "1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/cpu/smt/control": "on\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "2600000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 90 kB\nNode 0 MemFree: 64 kB\n",
        "sys/devices/system/node/node1/meminfo": "Node 1 MemFree:        32 kB\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 9\nthrottled_usec 2500000\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def seen(machine, cpus=(0, 1)):
    return state.snapshot(cpus, machine / "sys", machine / "proc")


def test_snapshot_tells_what_the_kernel_tells(machine):
    """Frequencies, governor and CPU times are those of the CPUs asked for alone."""
    found = seen(machine)
    found.pop("when")
    ticks = state._TICKS
    assert found == {
        "cpus": 2,
        "load_1m": 1.25,
        "frequency_mhz": {"min": 2400.0, "median": 2500.0, "max": 2600.0},
        "governor": "performance powersave",
        "turbo": False,
        "smt": "on",
        "thp": "madvise",
        "numa_balancing": True,
        "memory_free_bytes": {"0": 65536, "1": 32768},
        "busy_seconds": (100 + 10 + 50 + 3 + 2 + 200 + 150) / ticks,
        "steal_seconds": 30 / ticks,
        "throttled_seconds": 2.5,
    }


def test_what_the_kernel_hides_is_none(tmp_path):
    """A machine without these files has a snapshot of unknowns."""
    found = state.snapshot((0,), tmp_path, tmp_path)
    assert {name for name, value in found.items() if value is None} == set(found) - {
        "when",
        "cpus",
    }


def test_turbo_of_other_drivers_is_a_boost_switch(machine):
    """Where intel_pstate is absent, cpufreq's boost counts."""
    system = machine / "sys/devices/system"
    (system / "cpu/intel_pstate/no_turbo").unlink()
    (system / "cpu/cpufreq").mkdir()
    (system / "cpu/cpufreq/boost").write_text("1\n")
    assert state.turbo(system) is True


@pytest.mark.parametrize(
    ("common", "own", "is_on"),
    [
        (None, "01", True),
        (None, "00", False),
        ("1", "00", False),
        ("1", "11", True),
        ("0", "11", 0),
    ],
)
def test_turbo_may_have_a_switch_per_policy(tmp_path, common, own, is_on):
    """Newer kernels switch each policy: turbo is on where any has it, and the common one too."""
    folder = tmp_path / "cpu/cpufreq"
    for number, word in enumerate(own):
        (folder / f"policy{number}").mkdir(parents=True)
        (folder / f"policy{number}" / "boost").write_text(f"{word}\n")
    if common:
        (folder / "boost").write_text(f"{common}\n")
    assert state.turbo(tmp_path) == is_on


def test_who_has_the_cpus_is_watched(tmp_path):
    """A process that works is named with its user; this one and idle ones are not."""
    busy = [sys.executable, "-c", "while True: pass"]
    idle = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(busy) as worker,
        subprocess.Popen(idle, stdin=subprocess.PIPE) as sleeper,
    ):
        try:
            found: dict = {}
            while worker.pid not in found:
                found = {user.pid: user for user in state.cpu_users(least=0.01, most=99)}
        finally:
            worker.kill()
            sleeper.kill()
    assert found[worker.pid].user == Path("/proc/self").owner()
    assert found[worker.pid].share > 0
    assert os.getpid() not in found
    assert state.cpu_users(tmp_path) == ()


def test_processes_with_odd_names_are_read(tmp_path):
    """A process may call itself ') R 1 (', and one without a known user is told by number."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 () R 1 () S 1 7 7 0 -1 0 0 0 0 0 30 12 0 0 20 0\n")
    assert state._process_ticks(tmp_path) == {7: 42}


def test_frequency_is_that_of_cpuinfo_where_cpufreq_is_absent(machine):
    """Virtual machines have no cpufreq."""
    for path in (machine / "sys").rglob("scaling_cur_freq"):
        path.unlink()
    (machine / "proc/cpuinfo").write_text(
        "processor\t: 0\ncpu MHz\t\t: 2500.5\n\nprocessor\t: 1\ncpu MHz\t\t: 2600.5\n"
    )
    assert seen(machine)["frequency_mhz"]["median"] == 2550.5


def test_real_machine_has_every_key():
    """The snapshot of this machine has the keys of any other, and a moment with its offset."""
    found = state.snapshot((0,))
    assert found["when"][-6] in "+-"
    assert set(found) >= {"load_1m", "busy_seconds", "memory_free_bytes", "governor"}


@pytest.mark.parametrize(
    ("busy", "steal", "own", "share"),
    [
        (8.0, 0.0, 8.0, 0.0),
        (8.0, 0.0, 4.0, 0.5),
        (4.0, 4.0, 4.0, 0.5),
        (4.0, 0.0, 9.0, 0.0),
    ],
)
def test_share_of_others_is_what_was_neither_ours_nor_idle(busy, steal, own, share):
    """Stolen time is taken by others; the share is never below nothing."""
    before = {"busy_seconds": 100.0, "steal_seconds": 1.0}
    after = {"busy_seconds": 100.0 + busy, "steal_seconds": 1.0 + steal}
    assert state.foreign_share(before, after, own, 4.0, 2) == share


def test_share_is_unknown_where_a_part_of_it_is():
    """No number is made up."""
    known = {"busy_seconds": 1.0, "steal_seconds": 1.0}
    assert state.foreign_share(known, {"busy_seconds": None}, 1.0, 1.0, 1) is None
    assert state.foreign_share(known, known, None, 1.0, 1) is None
    assert state.foreign_share(None, known, 1.0, 1.0, 1) is None
    assert state.foreign_share(known, known, 1.0, 0.0, 1) is None


def test_clock_has_a_step():
    """Some positive time is the least that the clock can tell."""
    assert 0 < state.clock_step_seconds() < 1
