"""Gather what a measurement on this machine rests on; what is not there is None."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusion import machine, numa, state, suite, topology, workspace
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
    run the children, None where a package is absent. ``suite_problem`` says why there is no suite.
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
    distribution: str | None = None
    max_mhz: float | None = None
    cpu_quota: float | None = None
    turbo_switch: str | None = None


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
    return Facts(
        machine=machine.describe(sysfs, procfs),
        state=state.snapshot(found.cpus, sysfs, procfs),
        topology=found,
        pinning_obstacle=numa.place(found, None, None, None).reason,
        python=path,
        versions=_versions(path, environ),
        **_suite(environ, flaggems),
        distribution=_distribution(etc),
        max_mhz=_max_mhz(sysfs, found.cpus),
        cpu_quota=_quota(sysfs),
        turbo_switch=_turbo_switch(sysfs),
    )


def _versions(python: str, environ: Mapping[str, str]) -> dict[str, str | None]:
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *PACKAGES],
            capture_output=True,
            env=dict(environ),
            timeout=_ASK_SECONDS,
            check=True,
        )
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {"python": None, **dict.fromkeys(PACKAGES)}


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


def _distribution(etc: Path) -> str | None:
    found = re.search(r"^ID(?:_LIKE)?=\"?([\w-]+)", state.text(etc / "os-release"), re.M)
    return found[1] if found else None


def _max_mhz(sysfs: Path, cpus: tuple[int, ...]) -> float | None:
    paths = (sysfs / f"devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq" for cpu in cpus)
    found = [int(text) / 1000 for path in paths if (text := state.text(path).strip()).isdigit()]
    return max(found, default=None)


def _quota(sysfs: Path) -> float | None:
    """Return how many CPUs' time the own control group may use, None without a limit."""
    found = re.match(r"(\d+) (\d+)", state.text(sysfs / "fs/cgroup/cpu.max"))
    if found:
        return int(found[1]) / int(found[2])
    quota, period = (
        state.text(sysfs / f"fs/cgroup/cpu/cpu.cfs_{name}_us").strip()
        for name in ("quota", "period")
    )
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _turbo_switch(sysfs: Path) -> str | None:
    """Name the file that turns turbo off, as the kernel's driver has it."""
    system = sysfs / "devices/system/cpu"
    names = ("intel_pstate/no_turbo", "cpufreq/boost")
    return next((name for name in names if (system / name).is_file()), None)
