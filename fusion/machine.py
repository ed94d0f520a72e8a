"""Describe the machine that a run was measured on."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

from fusion import armcores, state

# What some kernels call every Arm CPU, as 'ARMv8 Processor rev 1 (v8l)'.
_NO_NAME = re.compile(r"(ARMv\d|AArch64) Processor")


def describe(sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")) -> dict[str, Any]:
    """Return host, CPU model, CPU counts, last-level cache and memory in bytes, kernel, clock."""
    return {
        "host": platform.node(),
        "cpu_model": cpu_model(procfs),
        "architecture": platform.machine(),
        "cpus": os.cpu_count(),
        "last_level_cache_bytes": last_level_cache(sysfs),
        "memory_bytes": _memory(procfs),
        "kernel": platform.release(),
        "clock_step_seconds": state.clock_step_seconds(),
    }


@cache
def cpu_model(procfs: Path = Path("/proc")) -> str:
    """Name the CPU as the kernel does; on Arm, where it gives no name, by its cores."""
    text = _read(procfs / "cpuinfo")
    named = _named(text, "model name")
    if named and not _NO_NAME.match(named):
        return named
    others = (_named(text, key) for key in ("Model Name", "cpu model", "cpu", "Model", "Processor"))
    found = armcores.names(text) or named or next(filter(None, others), None)
    return found or platform.processor() or "unknown"


def _named(cpuinfo: str, key: str) -> str | None:
    found = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.M)
    return found[1].strip() if found else None


def last_level_cache(sysfs: Path = Path("/sys")) -> int | None:
    """Return the size in bytes of CPU 0's outermost data cache, None when the kernel hides it."""
    sizes = {}
    for index in (sysfs / "devices/system/cpu/cpu0/cache").glob("index*"):
        level, kind, size = (_read(index / name).strip() for name in ("level", "type", "size"))
        if kind != "Instruction" and level.isdigit() and re.fullmatch(r"\d+[KMG]?", size):
            sizes[int(level)] = _bytes(size)
    return sizes[max(sizes)] if sizes else None


def _bytes(size: str) -> int:
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(size[-1], 1)
    return int(size.rstrip("KMG")) * unit


def _memory(procfs: Path) -> int | None:
    found = re.search(r"^MemTotal:\s*(\d+) kB", _read(procfs / "meminfo"), re.M)
    return int(found[1]) * 1024 if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
