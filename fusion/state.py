"""Describe what state the machine is in while something is measured.

Every value is what the kernel says at one moment; None is what it hides. Frequencies are in MHz,
memory in bytes, times in seconds.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_READINGS, _STEPS = 2000, 20


def snapshot(
    cpus: Collection[int], sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")
) -> dict[str, Any]:
    """Return the state now, with frequencies, governor and CPU times of ``cpus`` alone.

    ``busy_seconds`` and ``steal_seconds`` count since the machine started, over those CPUs.
    """
    system = sysfs / "devices/system"
    times = _cpu_times(procfs, cpus)
    return {
        "when": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "cpus": len(cpus),
        "load_1m": _load(procfs),
        "frequency_mhz": _frequencies(system, procfs, cpus),
        "governor": _governors(system, cpus),
        "turbo": turbo(system),
        "smt": _word(system / "cpu/smt/control") or _word(system / "cpu/smt/active") or None,
        "thp": _chosen(sysfs / "kernel/mm/transparent_hugepage/enabled"),
        "numa_balancing": _switch(procfs / "sys/kernel/numa_balancing"),
        "memory_free_bytes": _free_memory(system, procfs),
        "busy_seconds": times[0] if times else None,
        "steal_seconds": times[1] if times else None,
        "throttled_seconds": _throttled(sysfs, procfs),
    }


def foreign_share(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    own_seconds: float | None,
    wall_seconds: float,
    cpus: int,
) -> float | None:
    """Return which share of the CPUs' time, 0 to 1, went to others between two snapshots.

    ``own_seconds`` of CPU time are ours. Time that a hypervisor stole counts as taken by others.
    """
    busy, steal = (_grown(before, after, name) for name in ("busy_seconds", "steal_seconds"))
    if busy is None or own_seconds is None or not wall_seconds > 0 or not cpus:
        return None
    share = (busy + (steal or 0.0) - own_seconds) / (wall_seconds * cpus)
    return min(1.0, max(0.0, share))


@dataclass(frozen=True)
class CpuUser:
    """Name a process that had a share of a CPU (1.0 is all of one) for a moment."""

    pid: int
    user: str
    command: str
    share: float


def cpu_users(
    procfs: Path = Path("/proc"), seconds: float = 0.25, least: float = 0.2, most: int = 3
) -> tuple[CpuUser, ...]:
    """Watch all processes but this one; return those that had the largest shares of a CPU."""
    before, start = _process_ticks(procfs), time.perf_counter()
    if not before:
        return ()
    time.sleep(seconds)
    after, span = _process_ticks(procfs), time.perf_counter() - start
    shares = {
        pid: (ticks - before[pid]) / _TICKS / span for pid, ticks in after.items() if pid in before
    }
    busiest = sorted(shares, key=lambda pid: -shares[pid])[:most]
    return tuple(_user(procfs, pid, shares[pid]) for pid in busiest if shares[pid] >= least)


def _process_ticks(procfs: Path) -> dict[int, int]:
    """Return the CPU time of each process, in ticks."""
    found = {}
    for path in procfs.glob("[0-9]*"):
        # The name is in parentheses and may hold any character; utime and stime are behind it.
        words = text(path / "stat").rpartition(")")[2].split()
        if int(path.name) != os.getpid() and len(words) > 12:
            found[int(path.name)] = int(words[11]) + int(words[12])
    return found


def _user(procfs: Path, pid: int, share: float) -> CpuUser:
    folder = procfs / str(pid)
    try:
        user = folder.owner()
    except (KeyError, OSError):  # a user without a name, or a process that has ended
        owner = re.search(r"^Uid:\s*(\d+)", text(folder / "status"), re.M)
        user = f"user {owner[1]}" if owner else "an unknown user"
    return CpuUser(pid, user, _word(folder / "comm") or "a process", share)


def clock_step_seconds() -> float:
    """Measure the smallest step of the clock that latencies are taken with, in this process."""
    readings = [time.perf_counter() for _ in range(_READINGS)]
    steps = sorted(b - a for a, b in zip(readings, readings[1:], strict=False) if b > a)
    return (
        statistics.median(steps[:_STEPS])
        if steps
        else time.get_clock_info("perf_counter").resolution
    )


def turbo(system: Path) -> bool | None:
    """Tell whether CPUs may exceed their nominal frequency, given sysfs' ``devices/system``."""
    off = _switch(system / "cpu/intel_pstate/no_turbo")
    if off is not None:
        return not off
    # Newer kernels have a switch per policy besides, or instead; the common one is above them.
    common = _switch(system / "cpu/cpufreq/boost")
    own = [_switch(path) for path in (system / "cpu/cpufreq").glob("policy*/boost")]
    return common if common is False or not own else any(own)


def _grown(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str
) -> float | None:
    first, last = ((state or {}).get(name) for state in (before, after))
    return None if first is None or last is None else float(last - first)


def _load(procfs: Path) -> float | None:
    found = re.match(r"[\d.]+", text(procfs / "loadavg"))
    return float(found[0]) if found else None


def _frequencies(system: Path, procfs: Path, cpus: Iterable[int]) -> dict[str, float] | None:
    texts = [_word(system / f"cpu/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
    found = [int(text) / 1000 for text in texts if text.isdigit()] or _told(procfs, cpus)
    if not found:
        return None
    return {"min": min(found), "median": statistics.median(found), "max": max(found)}


def _told(procfs: Path, cpus: Iterable[int]) -> list[float]:
    held = text(procfs / "cpuinfo")
    blocks = re.findall(r"^processor\s*:\s*(\d+)$(.*?)(?=^processor|\Z)", held, re.M | re.S)
    found = {int(cpu): re.search(r"^cpu MHz\s*:\s*([\d.]+)$", body, re.M) for cpu, body in blocks}
    return [float(told[1]) for cpu in cpus if (told := found.get(cpu))]


def _governors(system: Path, cpus: Iterable[int]) -> str | None:
    names = (_word(system / f"cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus)
    return " ".join(sorted({name for name in names if name})) or None


def _free_memory(system: Path, procfs: Path) -> dict[str, int] | None:
    nodes = {
        path.parent.name.removeprefix("node"): _free(path)
        for path in (system / "node").glob("node[0-9]*/meminfo")
    } or {"-": _free(procfs / "meminfo")}
    known = {node: free for node, free in sorted(nodes.items()) if free is not None}
    return known or None


def _free(meminfo: Path) -> int | None:
    found = re.search(r"MemFree:\s*(\d+) kB", text(meminfo))
    return int(found[1]) * 1024 if found else None


def _cpu_times(procfs: Path, cpus: Collection[int]) -> tuple[float, float] | None:
    lines = re.findall(r"^cpu(\d+)((?: \d+)+)", text(procfs / "stat"), re.M)
    ticks = [[int(word) for word in words.split()] for cpu, words in lines if int(cpu) in cpus]
    if not ticks or len(ticks) < len(cpus) or len(ticks[0]) < 8:
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal: see proc_stat(5).
    busy = sum(sum(times[:3]) + sum(times[5:7]) for times in ticks)
    return busy / _TICKS, sum(times[7] for times in ticks) / _TICKS


def cpu_groups(sysfs: Path, procfs: Path) -> Iterator[Path]:
    """Yield the folders of this process's CPU control group and of all above it, own first."""
    told = text(procfs / "self/cgroup") or "0::/\n1:cpu:/\n"  # unknown: what is mounted counts
    for names, own in re.findall(r"^\d+:(.*?):(/.*)$", told, re.M):
        if names == "" or "cpu" in names.split(","):
            mounts = (names, "cpu") if names else ("",)
            folders = [sysfs / "fs/cgroup" / mount for mount in mounts]
            root = next((folder for folder in folders if folder.is_dir()), folders[-1])
            # What lies outside the namespace starts with '..'; only the root is visible then.
            path = PurePosixPath("." if "/.." in own else own.lstrip("/"))
            yield from (root / part for part in dict.fromkeys((path, *path.parents)))


def _throttled(sysfs: Path, procfs: Path) -> float | None:
    for group in cpu_groups(sysfs, procfs):
        for name, unit in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
            if found := re.search(rf"^{name} (\d+)$", text(group / "cpu.stat"), re.M):
                return int(found[1]) * unit
    return None


def _chosen(path: Path) -> str | None:
    found = re.search(r"\[(\w+)\]", text(path))
    return found[1] if found else None


def _switch(path: Path) -> bool | None:
    word = _word(path)
    return None if word not in ("0", "1", "2") else word != "0"


def _word(path: Path) -> str:
    return text(path).strip()


def text(path: Path) -> str:
    """Return what a file of the kernel says, nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
