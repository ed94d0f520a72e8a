"""Gather what a measurement on this machine rests on; what is not there is None."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusion import machine, numa, state, suite, topology, workspace
from fusion.state import CpuUser
from fusion.topology import Topology

# Distribution names of what decides what a measurement means.
PACKAGES = ("pytest", "PyYAML", "numpy", "torch", "triton", "flag_gems")
_ASK_SECONDS = 60
_ASK = """
import importlib.metadata, json, platform, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({"python": platform.python_version(), **{n: version(n) for n in sys.argv[1:]}}))
"""


@dataclass(frozen=True)
class Facts:
    """Hold everything that ``doctor.examine`` judges.

    ``pinning_obstacle`` is None when numactl works. ``versions`` are those of the Python that would
    run the children, None where a package is absent; ``python_problem`` says why it did not answer.
    ``node_memory_bytes`` is the total per node, ``distributions`` are ID and ID_LIKE of os-release.
    ``suite_problem`` says why there is no suite. ``users`` are who had the CPUs when it was looked
    at, as ``state.CpuUser``. ``is_root``: no sudo is needed; ``is_locked``: the kernel's switches
    cannot be set from here, as in most containers.
    """

    machine: Mapping[str, Any]
    state: Mapping[str, Any]
    topology: Topology
    pinning_obstacle: str | None
    python: str
    versions: Mapping[str, str | None]
    suite: str | None
    suite_root: str | None
    suite_revision: str | None
    suite_problem: str | None
    distributions: tuple[str, ...] = ()
    max_mhz: float | None = None
    cpu_quota: float | None = None
    cpu_quota_file: str | None = None
    node_memory_bytes: Mapping[str, int] = field(default_factory=dict)
    python_problem: str | None = None
    turbo_switch: str | None = None
    users: tuple[CpuUser, ...] = ()
    is_root: bool = False
    is_locked: bool = False


def gather(
    environ: Mapping[str, str],
    flaggems: str | None = None,
    python: str | None = None,
    sysfs: Path = Path("/sys"),
    procfs: Path = Path("/proc"),
    etc: Path = Path("/etc"),
) -> Facts:
    """Look at this machine; nothing that is absent, FlagGems and numactl included, is an error."""
    found = topology.topology(sysfs)
    path = python or workspace.this_python()
    versions, problem = _versions(path, environ)
    quota, file = _quota(sysfs, procfs)
    return Facts(
        machine=machine.describe(sysfs, procfs),
        state=state.snapshot(found.cpus, sysfs, procfs),
        topology=found,
        pinning_obstacle=numa.place(found, None, None, None).reason,
        python=path,
        versions=versions,
        python_problem=problem,
        **_suite(environ, flaggems),
        distributions=_distributions(etc),
        max_mhz=_max_mhz(sysfs, found.cpus),
        cpu_quota=quota,
        cpu_quota_file=file,
        node_memory_bytes=_node_memory(sysfs, procfs),
        turbo_switch=_turbo_switch(sysfs),
        users=state.cpu_users(procfs),
        is_root=hasattr(os, "geteuid") and os.geteuid() == 0,
        is_locked=_is_read_only(sysfs) or _is_read_only(procfs / "sys"),
    )


def _is_read_only(folder: Path) -> bool:
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _versions(python: str, environ: Mapping[str, str]) -> tuple[dict[str, str | None], str | None]:
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *PACKAGES],
            capture_output=True,
            env=dict(environ),
            timeout=_ASK_SECONDS,
            check=True,
        )
        # What a start-up file prints comes before the answer.
        return dict(json.loads((done.stdout.splitlines() or [b""])[-1])), None
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {}, f"it does not answer ({type(error).__name__})"


def _suite(environ: Mapping[str, str], flaggems: str | None) -> dict[str, str | None]:
    try:
        root, why = workspace.suite_folder(environ, flaggems)
    except workspace.WorkspaceError as error:
        return {
            **dict.fromkeys(("suite", "suite_root", "suite_revision")),
            "suite_problem": str(error),
        }
    if root is None:
        return {
            "suite": f"embedded suite (NumPy): {why}",
            "suite_root": None,
            "suite_revision": None,
            "suite_problem": None,
        }
    return {
        "suite": f"FlagGems at {root}",
        "suite_root": str(root),
        "suite_revision": suite.revision(root),
        "suite_problem": None,
    }


def _distributions(etc: Path) -> tuple[str, ...]:
    held = state.text(etc / "os-release")
    lines = [re.search(rf"^{key}=(.*)$", held, re.M) for key in ("ID", "ID_LIKE")]
    return tuple(word.lower() for line in lines if line for word in line[1].strip("\"' ").split())


def _node_memory(sysfs: Path, procfs: Path) -> dict[str, int]:
    files = {
        file.parent.name.removeprefix("node"): file
        for file in (sysfs / "devices/system/node").glob("node[0-9]*/meminfo")
    } or {"-": procfs / "meminfo"}
    found = {
        node: re.search(r"MemTotal:\s*(\d+) kB", state.text(file)) for node, file in files.items()
    }
    return {node: int(total[1]) * 1024 for node, total in found.items() if total}


def _max_mhz(sysfs: Path, cpus: tuple[int, ...]) -> float | None:
    paths = (sysfs / f"devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq" for cpu in cpus)
    found = [int(text) / 1000 for path in paths if (text := state.text(path).strip()).isdigit()]
    return max(found, default=None)


def _quota(sysfs: Path, procfs: Path) -> tuple[float, str] | tuple[None, None]:
    """Return the tightest limit in CPUs on the own control group and its parents, and its file."""
    groups = state.cpu_groups(sysfs, procfs)
    limits = [limit for group in groups for limit in _limits(group)]
    return min(limits, default=(None, None))


def _limits(group: Path) -> Iterator[tuple[float, str]]:
    if found := re.match(r"(\d+) (\d+)", state.text(group / "cpu.max")):
        yield int(found[1]) / int(found[2]), str(group / "cpu.max")
    quota, period = (
        state.text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")
    )
    if quota.isdigit() and period.isdigit():
        yield int(quota) / int(period), str(group / "cpu.cfs_quota_us")


def _turbo_switch(sysfs: Path) -> str | None:
    """Name the file that turns turbo off, as the kernel's driver has it."""
    system = sysfs / "devices/system/cpu"
    for name in ("intel_pstate/no_turbo", "cpufreq/boost"):
        if (system / name).is_file():
            return name
    policies = any((system / "cpufreq").glob("policy*/boost"))
    return "cpufreq/policy*/boost" if policies else None
