"""The doctor warns of what would spoil a measurement, and each warning has its remedy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fusion import doctor, examination
from fusion.examination import Facts
from fusion.state import CpuUser
from fusion.topology import Node, Topology

GIB = 1 << 30
HEALTHY = Facts(
    machine={
        "host": "h",
        "cpu_model": "c",
        "architecture": "aarch64",
        "cpus": 8,
        "memory_bytes": 16 * GIB,
        "last_level_cache_bytes": 32 << 20,
        "clock_step_seconds": 4e-8,
        "kernel": "6.1",
    },
    state={
        "smt": "off",
        "load_1m": 0.1,
        "governor": "performance",
        "turbo": False,
        "frequency_mhz": {"min": 1, "median": 2400.0, "max": 3},
        "memory_free_bytes": {"0": 4 * GIB, "1": 4 * GIB},
        "thp": "madvise",
        "numa_balancing": False,
        "throttled_seconds": 0.0,
        "steal_seconds": 0.0,
    },
    topology=Topology((Node(0, (0, 1, 2, 3)), Node(1, (4, 5, 6, 7))), tuple(range(8))),
    pinning_obstacle=None,
    python="/usr/bin/python3",
    versions={"python": "3.11", "pytest": "8", "PyYAML": "6", "numpy": None},
    suite="FlagGems at /f",
    suite_root="/f",
    suite_revision="abc",
    suite_problem=None,
    distributions=("fedora",),
    node_memory_bytes={"0": 8 * GIB, "1": 8 * GIB},
    max_mhz=2600.0,
)


def with_state(**facts):
    return replace(HEALTHY, state={**HEALTHY.state, **facts})


def warned(facts):
    return {found.topic: found for found in doctor.examine(facts) if found.warning}


def test_healthy_machine_has_no_warning():
    """Where all is well, nothing is said but the facts."""
    assert warned(HEALTHY) == {}
    assert "Nothing stands out." in doctor.render(doctor.examine(HEALTHY))


@pytest.mark.parametrize(
    ("facts", "topic", "remedy"),
    [
        (with_state(smt="on"), "SMT", "smt/control"),
        (with_state(load_1m=0.8), "load (1 minute)", "top -b -n 2"),
        (
            with_state(governor="powersave"),
            "governor",
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
        (
            replace(with_state(turbo=True), turbo_switch="intel_pstate/no_turbo"),
            "turbo",
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
        ),
        (
            replace(with_state(turbo=True), turbo_switch="cpufreq/boost"),
            "turbo",
            "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
        ),
        (
            replace(with_state(turbo=True), turbo_switch="cpufreq/policy*/boost"),
            "turbo",
            "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/policy*/boost",
        ),
        (
            with_state(memory_free_bytes={"0": GIB // 2, "1": 4 * GIB}),
            "free memory of node 0",
            "drop_caches",
        ),
        (with_state(thp="never"), "transparent huge pages", "transparent_hugepage/enabled"),
        (with_state(numa_balancing=True), "NUMA balancing", "numa_balancing"),
        (replace(HEALTHY, cpu_quota=2.0), "CPU quota", "docker update --cpus 8"),
        (
            replace(HEALTHY, pinning_obstacle="numactl is not installed"),
            "pinning",
            "sudo dnf install -y numactl",
        ),
        (
            replace(HEALTHY, pinning_obstacle="numactl: Operation not permitted"),
            "pinning",
            "--cap-add SYS_NICE",
        ),
        (
            replace(HEALTHY, versions={**HEALTHY.versions, "pytest": None}),
            "pytest",
            "/usr/bin/python3 -m pip install pytest",
        ),
        (replace(HEALTHY, suite_revision="abc-dirty"), "suite", "git -C /f stash"),
        (replace(HEALTHY, suite_problem="no such folder"), "suite", "git clone"),
    ],
)
def test_each_trouble_has_one_warning_with_its_remedy(facts, topic, remedy):
    """A warning names the topic and a command, and nothing else is warned of."""
    found = warned(facts)
    assert set(found) == {topic}
    assert remedy in found[topic].remedy
    assert found[topic].remedy in doctor.render(doctor.examine(facts))


def test_who_uses_the_cpus_is_named():
    """Names, processes and shares are told, and the command asks for these very processes."""
    users = (CpuUser(7, "ann", "cc1plus", 1.0), CpuUser(8, "bob", "python", 0.5))
    found = warned(replace(with_state(load_1m=5.0), users=users))["load (1 minute)"]
    assert "cc1plus of ann (process 7, 100% of a CPU), python of bob" in found.warning
    assert found.remedy == "ps -o pid,user,lstart,time,args -p 7,8"


def test_root_needs_no_sudo():
    """Where root examines, as in most containers, there may be no sudo to begin with."""
    facts = replace(
        with_state(governor="powersave"), is_root=True, pinning_obstacle="numactl is not installed"
    )
    remedies = {topic: found.remedy for topic, found in warned(facts).items()}
    assert remedies["pinning"] == "dnf install -y numactl"
    assert remedies["governor"].startswith("echo performance | tee /sys/")


def test_switches_that_a_container_may_not_set_are_the_hosts():
    """Where the kernel's files are mounted read-only, the command is said to be the host's."""
    facts = replace(with_state(numa_balancing=True), is_root=True, is_locked=True)
    found = warned(facts)["NUMA balancing"]
    assert found.remedy.startswith("echo 0 | sudo tee /proc/sys/kernel/numa_balancing  # on the h")


def test_unknown_is_never_a_warning():
    """What the kernel hides is shown as unknown."""
    hidden = replace(
        HEALTHY,
        state=dict.fromkeys(HEALTHY.state),
        machine={**HEALTHY.machine, "memory_bytes": None},
    )
    assert warned(hidden) == {}
    topics = {found.topic: found.value for found in doctor.examine(hidden)}
    assert topics["governor"] == topics["turbo"] == topics["load (1 minute)"] == "unknown"


def test_absent_package_is_a_fact():
    """FlagGems, torch and Triton need not be there."""
    topics = {found.topic: found.value for found in doctor.examine(HEALTHY)}
    assert topics["numpy"] == topics["torch"] == "not installed"


def test_real_machine_is_examined_with_nothing_installed(tmp_path):
    """Without sysfs, FlagGems or numactl on the path there still is an answer."""
    found = examination.gather({"PATH": ""}, sysfs=tmp_path, procfs=tmp_path, etc=tmp_path)
    text = doctor.render(doctor.examine(found))
    assert "pytest" in text
    assert "embedded suite" in text


def test_folder_without_benchmarks_is_a_finding(tmp_path):
    """A wrong FlagGems path does not end the examination."""
    found = examination.gather({}, flaggems=str(tmp_path))
    assert "benchmark" in warned(found)["suite"].warning


def test_python_that_is_none_has_no_packages():
    """A broken Python is a finding; of its packages nothing is known."""
    found = examination.gather({}, python="/bin/false")
    assert "child's Python" in warned(found)
    assert not {"pytest", "PyYAML"} & set(warned(found))


def test_json_holds_every_finding():
    """Programs get what people get."""
    value = json.loads(
        json.dumps(doctor.to_json(doctor.examine(with_state(smt="on"))), allow_nan=False)
    )
    assert value["format"] == 1
    smt = next(found for found in value["findings"] if found["topic"] == "SMT")
    assert smt["remedy"].startswith("echo off")
