"""Say what would spoil a measurement on this machine, and the command that mends it.

What the kernel does not tell is shown as unknown and is never a warning.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tabulate import tabulate

from fusion import cpulist
from fusion.examination import PACKAGES, Facts

# History of the JSON form's format, newest last:
# 1  findings.
JSON_FORMAT = 1
# The load per CPU, and the free share of a node's memory, from which on others disturb.
HIGHEST_LOAD, LEAST_FREE = 0.1, 0.1
_GIB, _MIB = 1 << 30, 1 << 20
_INSTALL = {
    "debian": "apt-get install -y",
    "ubuntu": "apt-get install -y",
    "fedora": "dnf install -y",
    "rhel": "dnf install -y",
    "centos": "dnf install -y",
    "rocky": "dnf install -y",
    "anolis": "dnf install -y",
    "kylin": "dnf install -y",
    "openeuler": "dnf install -y",
    "suse": "zypper install -y",
    "opensuse": "zypper install -y",
    "sles": "zypper install -y",
    "arch": "pacman -S --noconfirm",
    "alpine": "apk add",
}
_INSTALL_SOMEHOW = "sudo sh -c '{}'".format(
    " || ".join(f"{word} install -y numactl" for word in ("apt-get", "dnf", "zypper"))
)
_NEEDED = ("pytest", "PyYAML")


@dataclass(frozen=True)
class Finding:
    """Hold one fact; a warning says what it spoils, its remedy is a command to paste."""

    topic: str
    value: str
    warning: str | None = None
    remedy: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a warning without a remedy."""
        if self.warning and not self.remedy:
            raise ValueError(f"{self.topic}: expected a remedy for the warning, found none")


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Judge every fact, in the order in which a reader would look at them."""
    found = (
        *_hardware(facts),
        *_frequency(facts),
        *_memory(facts),
        *_placement(facts),
        *_software(facts),
    )
    return tuple(_fitting(each, facts) for each in found)


def _fitting(found: Finding, facts: Facts) -> Finding:
    """Fit a remedy to who pastes it and where: root may lack sudo, a container the switches."""
    remedy = found.remedy
    if remedy and facts.is_locked and re.search(r"sudo tee /(sys|proc)/", remedy):
        return replace(found, remedy=f"{remedy}  # on the host: this container may not")
    if remedy and facts.is_root:
        return replace(found, remedy=remedy.replace("sudo ", ""))
    return found


def render(findings: Iterable[Finding]) -> str:
    """Write all facts as a table, then each warning with its remedy on the next line."""
    findings = tuple(findings)
    lines = [(found.topic, found.value) for found in findings]
    table = tabulate(lines, headers=["topic", "value"], disable_numparse=True)
    told = [
        f"{found.topic}: {found.warning}\n    {found.remedy}" for found in findings if found.warning
    ]
    warnings = "\n".join([f"Warnings ({len(told)}):", *told]) if told else "Nothing stands out."
    return f"{table}\n\n{warnings}"


def to_json(findings: Iterable[Finding]) -> dict[str, Any]:
    """Give the findings as plain values."""
    return {"format": JSON_FORMAT, "findings": [asdict(found) for found in findings]}


def _hardware(facts: Facts) -> Iterator[Finding]:
    described = facts.machine
    yield Finding("host", _known(described.get("host")))
    yield Finding("CPU", f"{_known(described.get('cpu_model'))}, {described.get('architecture')}")
    usable = f"{described.get('cpus')}, usable here: {cpulist.render(sorted(facts.topology.cpus))}"
    yield Finding("CPUs", usable)
    yield _smt(facts)
    yield Finding("last-level cache", _size(described.get("last_level_cache_bytes")))
    yield _load(facts)
    yield _quota(facts)
    yield Finding("throttled", _seconds(facts.state.get("throttled_seconds")))
    yield Finding("stolen by the hypervisor", _seconds(facts.state.get("steal_seconds")))
    step = described.get("clock_step_seconds")
    yield Finding("clock step", "unknown" if step is None else f"{step * 1e9:.3g} ns")
    yield Finding("kernel", _known(described.get("kernel")))


def _smt(facts: Facts) -> Finding:
    value = _known(facts.state.get("smt"))
    if value not in ("on", "1"):
        return Finding("SMT", value)
    return Finding(
        "SMT",
        "on",
        "two hardware threads share a core; children get distinct cores first, others may not",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )


def _load(facts: Facts) -> Finding:
    load, cpus = facts.state.get("load_1m"), facts.machine.get("cpus") or 1
    if load is None or load < HIGHEST_LOAD * cpus:
        return Finding("load (1 minute)", _known(load))
    return Finding(
        "load (1 minute)",
        _known(load),
        f"others use the CPUs: {load:g} on {cpus} CPUs{_who(facts)}; see who, then wait or ask",
        "top -b -n 2 -d 1 | tail -n 20" if not facts.users else _ask(facts),
    )


def _who(facts: Facts) -> str:
    told = ", ".join(
        f"{each.command} of {each.user} (process {each.pid}, {each.share:.0%} of a CPU)"
        for each in facts.users
    )
    return f"; now {told}" if told else ""


def _ask(facts: Facts) -> str:
    pids = ",".join(str(each.pid) for each in facts.users)
    return f"ps -o pid,user,lstart,time,args -p {pids}"


def _quota(facts: Facts) -> Finding:
    quota, cpus = facts.cpu_quota, len(facts.topology.cpus)
    value = "none" if quota is None else f"{quota:g} CPUs"
    if quota is None or quota >= cpus:
        return Finding("CPU quota", value)
    return Finding(
        "CPU quota",
        value,
        f"this container is stopped when its {cpus} CPUs use more than {quota:g} CPUs' time",
        _quota_remedy(facts, cpus),
    )


def _quota_remedy(facts: Facts, cpus: int) -> str:
    file = facts.cpu_quota_file or ""
    # A root with a limit is a container's view of its own group, to be changed from outside.
    if re.search(r"/fs/cgroup(/cpu[^/]*)?/cpu[^/]*$", file) or not file:
        return f"docker update --cpus {cpus} {facts.machine.get('host')}  # on the host"
    return f"echo {'max' if file.endswith('max') else -1} | sudo tee {shlex.quote(file)}"


def _frequency(facts: Facts) -> Iterator[Finding]:
    yield _governor(facts)
    yield _turbo(facts)
    now = facts.state.get("frequency_mhz")
    value = "unknown" if now is None else f"{now['median']:.0f} MHz (median now)"
    yield Finding("frequency", value + (f" of {facts.max_mhz:.0f}" if facts.max_mhz else ""))


def _governor(facts: Facts) -> Finding:
    governor = facts.state.get("governor")
    if governor in (None, "performance"):
        return Finding("governor", _known(governor))
    return Finding(
        "governor",
        governor,
        "the frequency follows the load, so short benchmarks run below it",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )


def _turbo(facts: Facts) -> Finding:
    turbo = facts.state.get("turbo")
    if not turbo or facts.turbo_switch is None:
        return Finding("turbo", _known(turbo))
    off = "1" if facts.turbo_switch.endswith("no_turbo") else "0"
    return Finding(
        "turbo",
        "on",
        "the frequency depends on heat and on how many cores work",
        f"echo {off} | sudo tee /sys/devices/system/cpu/{facts.turbo_switch}",
    )


def _memory(facts: Facts) -> Iterator[Finding]:
    yield Finding("memory", _size(facts.machine.get("memory_bytes")))
    free = facts.state.get("memory_free_bytes") or {}
    for node, size in free.items():
        yield _free(node, size, facts.node_memory_bytes.get(node, 0))
    yield _huge_pages(facts)
    yield _balancing(facts)


def _free(node: str, size: int, total: int) -> Finding:
    topic = "free memory" if node == "-" else f"free memory of node {node}"
    if size >= LEAST_FREE * total:
        return Finding(topic, _size(size))
    return Finding(
        topic,
        _size(size),
        "little is free, so pages are taken from the cache or another node while measuring",
        "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
    )


def _huge_pages(facts: Facts) -> Finding:
    thp = facts.state.get("thp")
    if thp != "never":
        return Finding("transparent huge pages", _known(thp))
    return Finding(
        "transparent huge pages",
        "never",
        "large arrays get small pages only, which costs bandwidth",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )


def _balancing(facts: Facts) -> Finding:
    balancing = facts.state.get("numa_balancing")
    if not balancing:
        return Finding("NUMA balancing", _known(balancing))
    return Finding(
        "NUMA balancing",
        "on",
        "the kernel moves pages and takes faults for it while measuring",
        "echo 0 | sudo tee /proc/sys/kernel/numa_balancing",
    )


def _placement(facts: Facts) -> Iterator[Finding]:
    for node in facts.topology.nodes:
        name = "NUMA" if node.id is None else f"NUMA node {node.id}"
        cpus = f"CPUs {cpulist.render(sorted(node.cpus))}" if node.cpus else "no CPU"
        yield Finding(name, f"{cpus}: {node.obstacle}" if node.obstacle else cpus)
    yield _pinning(facts)


def _pinning(facts: Facts) -> Finding:
    obstacle = facts.pinning_obstacle
    if obstacle is None:
        return Finding("pinning", "numactl works")
    warning = f"children run on any CPU and memory ({obstacle})"
    return Finding("pinning", "not possible", warning, _pinning_remedy(obstacle, facts))


def _pinning_remedy(obstacle: str, facts: Facts) -> str:
    if "not installed" in obstacle:
        known = (_INSTALL[name] for name in facts.distributions if name in _INSTALL)
        install = next(known, None)
        package = "numactl-tools" if "alpine" in facts.distributions else "numactl"
        return f"sudo {install} {package}" if install else _INSTALL_SOMEHOW
    if re.search(r"not permitted|denied|killed by signal", obstacle):
        return "docker run --cap-add SYS_NICE IMAGE  # start the container so"
    return "numactl --show; numactl --hardware"


def _software(facts: Facts) -> Iterator[Finding]:
    yield _python(facts)
    for name in PACKAGES:
        yield _package(name, facts)
    yield _suite(facts)


def _python(facts: Facts) -> Finding:
    value = f"{_known(facts.versions.get('python'))} at {facts.python}"
    if facts.python_problem is None:
        return Finding("child's Python", value)
    remedy = f"inv doctor --python {shlex.quote(sys.executable)}"
    return Finding("child's Python", value, facts.python_problem, remedy)


def _package(name: str, facts: Facts) -> Finding:
    if facts.python_problem:
        return Finding(name, "unknown")
    version = facts.versions.get(name)
    if version is not None or name not in _NEEDED:
        return Finding(name, version or "not installed")
    return Finding(
        name,
        "not installed",
        "no child can run without it",
        f"{shlex.quote(facts.python)} -m pip install {name}",
    )


def _suite(facts: Facts) -> Finding:
    if facts.suite_problem:
        return Finding(
            "suite",
            "not found",
            facts.suite_problem,
            "git clone https://github.com/flagos-ai/FlagGems",
        )
    revision = facts.suite_revision or ""
    value = f"{facts.suite}{', ' if revision else ''}{revision}"
    if not revision.endswith("-dirty"):
        return Finding("suite", value)
    return Finding(
        "suite",
        value,
        "files differ from the commit, so nobody else can measure the same",
        f"git -C {shlex.quote(facts.suite_root or '.')} stash",
    )


def _known(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unknown" if value in (None, "") else f"{value:g}" if _is_float(value) else str(value)


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _size(value: int | None) -> str:
    if value is None:
        return "unknown"
    return f"{value / _GIB:.4g} GiB" if value >= _GIB else f"{value / _MIB:.4g} MiB"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g} s since the start"
