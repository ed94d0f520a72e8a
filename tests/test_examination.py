"""What the doctor must not say, on machines that are unlike most."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from fusion import doctor, examination
from fusion.examination import Facts
from fusion.topology import Node, Topology

CPUS = tuple(range(8))
G = 1 << 30
FACTS = Facts(
    machine={
        "host": "h",
        "cpu_model": "m",
        "architecture": "x86_64",
        "cpus": 8,
        "kernel": "6.1",
        "memory_bytes": 64 * G,
        "last_level_cache_bytes": 32 << 20,
        "clock_step_seconds": 1e-7,
    },
    state={},
    topology=Topology((Node(0, CPUS),), CPUS),
    pinning_obstacle=None,
    python="/usr/bin/python3",
    versions={"python": "3.11", **dict.fromkeys(examination.PACKAGES, "1")},
    suite="s",
    suite_root=None,
    suite_revision=None,
    suite_problem=None,
)


def warned(facts, word):
    return [f for f in doctor.examine(facts) if f.warning and word in f.topic.lower()]


def test_uneven_nodes_no_false_memory_warning():
    """A small node is not held against a large one."""
    facts = replace(FACTS, state={"memory_free_bytes": {"0": 50 * G, "1": 3 * G}})
    assert not warned(facts, "memory")


def test_memoryless_node_no_warning():
    """A node without memory has none to free."""
    facts = replace(FACTS, state={"memory_free_bytes": {"0": 50 * G, "1": 0}})
    assert not warned(facts, "memory")


def test_python_that_does_not_answer_is_not_a_python_without_pytest(tmp_path):
    """Of a Python that does not answer, packages are unknown."""
    facts = examination.gather(os.environ, None, str(tmp_path / "none"))
    assert not warned(facts, "pytest"), "unknown must not be 'not installed'"


def test_python_whose_startup_prints_is_understood(tmp_path):
    """What a start-up file prints is not the answer."""
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert examination.gather(env, None, sys.executable).versions["python"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('NAME="openEuler"\nID="openEuler"\n', "dnf"),
        ('ID="almalinux"\nID_LIKE="rhel centos fedora"\n', "dnf"),
        ('ID="amzn"\nID_LIKE="fedora"\n', "dnf"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt-get"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "zypper"),
        ("ID=manjaro\nID_LIKE=arch\n", "pacman"),
    ],
)
def test_install_command(tmp_path, text, command):
    """The package manager is that of the distribution, or of the one it is like."""
    (tmp_path / "os-release").write_text(text)
    facts = replace(
        FACTS,
        distributions=examination._distributions(tmp_path),
        pinning_obstacle="numactl is not installed",
    )
    assert f" {command} " in warned(facts, "pinning")[0].remedy


def test_other_failure_of_numactl_is_not_a_forbidding_container():
    """Only a refusal is answered with a capability."""
    facts = replace(FACTS, pinning_obstacle="numactl did not answer within 20 s")
    assert "docker" not in warned(facts, "pinning")[0].remedy


def test_remedy_is_pasteable():
    """A remedy has no ellipsis in it."""
    facts = replace(FACTS, pinning_obstacle="numactl: set_mempolicy: Operation not permitted")
    assert "…" not in warned(facts, "pinning")[0].remedy


def test_container_is_named_not_the_host_the_command_is_pasted_on():
    """The command is for the host, where the container's name is not the host name."""
    facts = replace(FACTS, cpu_quota=2.0)
    assert "$(hostname)" not in warned(facts, "quota")[0].remedy


def test_paths_are_quoted():
    """Paths with spaces survive being pasted."""
    facts = replace(
        FACTS,
        python="/my envs/bin/python",
        versions={**FACTS.versions, "pytest": None},
        suite_root="/my work/FlagGems",
        suite_revision="abc-dirty",
    )
    remedies = " ".join(f.remedy for f in doctor.examine(facts) if f.remedy)
    assert "'/my envs/bin/python'" in remedies
    assert "'/my work/FlagGems'" in remedies


def test_quota_of_own_group_below_the_root(tmp_path):
    """A limit on the own group of a service manager counts."""
    group = tmp_path / "sys/fs/cgroup/user.slice/bench.scope"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("200000 100000\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/user.slice/bench.scope\n")
    facts = examination.gather(
        os.environ, None, sys.executable, tmp_path / "sys", tmp_path / "proc", tmp_path
    )
    assert facts.cpu_quota == 2.0


def test_quota_of_parent_group_counts(tmp_path):
    """The lowest limit on the way up is the one that stops."""
    group = tmp_path / "sys/fs/cgroup/user.slice/bench.scope"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("max 100000\n")
    (group.parent / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/user.slice/bench.scope\n")
    facts = examination.gather(
        os.environ, None, sys.executable, tmp_path / "sys", tmp_path / "proc", tmp_path
    )
    assert facts.cpu_quota == 1.5


def test_warning_without_remedy_is_refused():
    """Nobody is warned of what they cannot mend."""
    with pytest.raises((ValueError, TypeError), match="remedy"):
        doctor.Finding("t", "v", "w")


def test_quota_examined_pure_control():
    """A quota of all CPUs is no warning."""
    assert not warned(replace(FACTS, cpu_quota=8.0), "quota")
