"""Choose how large the arrays are, from the caches and the memory that this process may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from . import threads

MIB = 1 << 20
SMALLEST, LARGEST = 128 * MIB, 1024 * MIB
# Inputs, a baseline's temporaries and the copies of the check: up to 7 times the large case.
MEMORY_SHARE = 16
SYSFS, PROCFS = Path("/sys"), Path("/proc")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LIMITS = ("memory.max", "memory.limit_in_bytes")


def beyond_cache() -> int:
    """Return the bytes of the large case: four times the last-level caches, if memory allows.

    Where memory is short they are halved until they fit, so that the size, and with it the shape,
    does not follow every change of the memory that happens to be free.
    """
    size = min(max(4 * last_level_caches(SYSFS), SMALLEST), LARGEST)
    free = available_memory(SYSFS, PROCFS)
    while free is not None and size > max(MIB, free // MEMORY_SHARE):
        size //= 2
    return size


def rows_beyond_cache(*widths: int, itemsize: int) -> int:
    """Return how many rows fill the large case when a row holds arrays of those widths."""
    return max(1, -(-beyond_cache() // (sum(widths) * itemsize)))


@cache
def last_level_caches(sysfs: Path) -> int:
    """Return the bytes of the last-level caches that the threads can fill at one time.

    A socket may have many of them, each shared by a few cores. 0 where the system hides them.
    """
    found = dict(filter(None, map(_last_level_cache, _own_cpus(sysfs))))
    return sum(sorted(found.values(), reverse=True)[: threads.count()])


def available_memory(sysfs: Path, procfs: Path) -> int | None:
    """Return the bytes that this process can still have, or None where the system does not say.

    That is the least of: what the system has left, what the nodes of this process's CPUs have
    left (memory may be bound to them), and the limits of its control groups.
    """
    whole = _kilobytes(_text(procfs / "meminfo"), "MemAvailable")
    nodes = {node.resolve() for cpu in _own_cpus(sysfs) for node in cpu.glob("node[0-9]*")}
    near = sum(_left_on(node) for node in nodes)
    limits = _group_limits(sysfs / "fs/cgroup", _text(procfs / "self/cgroup"))
    return min(filter(None, [whole, near, *limits]), default=None)


def _own_cpus(sysfs: Path) -> list[Path]:
    return [sysfs / f"devices/system/cpu/cpu{number}" for number in threads.own_cpus()]


def _last_level_cache(cpu: Path) -> tuple[tuple[str, str], int] | None:
    """Return a CPU's outermost cache, known by its level and the CPUs it serves, and its size."""
    caches = [index for index in cpu.glob("cache/index[0-9]*") if _holds_data(index)]
    if not caches:
        return None
    outermost = max(caches, key=lambda index: _text(index / "level"))
    shared = _text(outermost / "shared_cpu_list") or cpu.name
    return (_text(outermost / "level"), shared), _size(_text(outermost / "size"))


def _holds_data(index: Path) -> bool:
    return _text(index / "type") != "Instruction"


def _left_on(node: Path) -> int:
    """Count a node's free memory and its pages of files, which the kernel gives up on demand."""
    text = _text(node / "meminfo")
    return sum(_kilobytes(text, f"Node \\d+ {name}") for name in ("MemFree", r"\w+\(file\)"))


def _group_limits(root: Path, groups: str) -> Iterator[int]:
    """Yield the limits of the control groups named by lines like ``0::/user.slice/job``."""
    for controllers, path in re.findall(r"^\d+:([^:]*):/(.*)$", groups, re.M):
        top = root / "memory" if "memory" in controllers.split(",") else root
        for folder in (top / path, *(top / path).parents):
            yield from (int(text) for text in _texts(folder, _LIMITS) if text.isdigit())
            if folder == root:
                break


def _texts(folder: Path, names: tuple[str, ...]) -> Iterator[str]:
    return (_text(folder / name) for name in names)


def _kilobytes(text: str, name: str) -> int:
    return sum(1024 * int(found) for found in re.findall(rf"^{name}:\s+(\d+) kB", text, re.M))


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
